package serving_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// many is a model of one text with 300 classes.
type many struct{ spam }

const classes = 300

func (many) Info() model.Info {
	return described([]model.Output{{Name: "class", Size: classes}}, model.Input{Name: "text", Type: model.String})
}

func (many) Predict(_ context.Context, _ model.Rows, scores []float32) error {
	for i := range scores {
		scores[i] = 1.0 / 3
	}
	return nil
}

// startMany serves many with names of its scores, and as wide without, which makes it an
// embedding.
func startMany(t testing.TB) string {
	labels := make([]string, classes)
	for i := range labels {
		labels[i] = fmt.Sprintf("category %d", i)
	}
	return start(t, append(models(), serving.Named{Name: "many", Model: many{}, Scores: labels}, serving.Named{Name: "wide", Model: many{}}), serving.ServerOptions{})
}

func compressed(t testing.TB, coding string, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if coding == "zstd" {
		w, _ = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1)) // the options are right
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// message returns a gRPC message, compressed.
func message(t testing.TB, content []byte) []byte {
	body := compressed(t, "gzip", content)
	return append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(body))), body...)
}

// hostile is a request that stands for much more than its bytes.
type hostile struct {
	path    string
	body    []byte
	headers []string
}

func hostileRequests(t testing.TB) map[string]hostile {
	bytesTensor := func(n int) []byte {
		return []byte(`{"inputs":[{"name":"text","datatype":"BYTES","shape":[` + fmt.Sprint(n) + `,1],"data":[` + strings.Repeat(`"",`, n-1) + `""]}]}`)
	}
	moderations := []byte(`{"model":"many","input":[` + strings.Repeat(`"",`, 199_999) + `""]}`)
	embeddings := []byte(`{"model":"wide","input":[` + strings.Repeat(`"",`, 199_999) + `""]}`)
	inputs := []byte(`{"inputs":[` + strings.Repeat("{},", 4_000_000) + `{}]}`)
	raw := oip.Request{Model: "many", Inputs: []oip.Tensor{{Name: "text", Datatype: "BYTES", Shape: []int64{200_000, 1}, Raw: make([]byte, 800_000)}}}
	const infer, call = "/v2/models/many/infer", "/inference.GRPCInferenceService/ModelInfer"
	grpc := []string{"Content-Type", "application/grpc", "TE", "trailers", "Grpc-Encoding", "gzip"}
	list := map[string]hostile{
		"empty inputs":         {infer, inputs[:1_000_000], nil},
		"nested":               {infer, bytes.Repeat([]byte("["), 1_000_000), nil},
		"nested data":          {infer, []byte(`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":` + strings.Repeat("[", 1_000_000)), nil},
		"parameters":           {infer, []byte(`{"parameters":{` + strings.Repeat(`"a":1,`, 160_000) + `"a":1}}`), nil},
		"dimensions":           {infer, []byte(`{"inputs":[{"shape":[` + strings.Repeat("1,", 500_000) + `1]}]}`), nil},
		"claimed shape":        {infer, []byte(`{"inputs":[{"name":"text","datatype":"BYTES","shape":[2000000000,1],"data":[""]}]}`), nil},
		"escapes":              {infer, []byte(`{"inputs":[{"name":"text","datatype":"BYTES","shape":[150000,1],"data":[` + strings.Repeat(`"\n",`, 149_999) + `"\n"]}]}`), nil},
		"texts":                {infer, bytesTensor(200_000), nil},
		"moderations":          {"/v1/moderations", moderations, nil},
		"embeddings":           {"/v1/embeddings", embeddings, nil},
		"fields of gRPC":       {call, message(t, bytes.Repeat([]byte{5<<3 | 2, 0}, 33<<20/2)), grpc},
		"outputs of gRPC":      {call, message(t, bytes.Repeat([]byte{6<<3 | 2, 0}, 33<<20/2)), grpc},
		"small fields of gRPC": {call, message(t, bytes.Repeat([]byte{5<<3 | 2, 0}, 200_000)), grpc},
		"texts of gRPC":        {call, message(t, raw.Append(nil)), grpc},
		"zeros of gRPC":        {call, message(t, make([]byte, 60<<20)), grpc},
		"zeros of a stream":    {"/inference.GRPCInferenceService/ModelStreamInfer", message(t, make([]byte, 60<<20)), grpc},
		"records":              {"/v1/models/many:predict-stream", bytes.Repeat([]byte(","), 100_000), []string{"Content-Type", "application/json"}},
	}
	for _, coding := range []string{"gzip", "zstd"} {
		for name, text := range map[string][]byte{"inputs": inputs, "texts": bytesTensor(200_000), "small inputs": inputs[:100_000]} {
			list[name+" in "+coding] = hostile{infer, compressed(t, coding, text), []string{"Content-Encoding", coding}}
		}
		list["moderations in "+coding] = hostile{"/v1/moderations", compressed(t, coding, moderations), []string{"Content-Encoding", coding}}
		list["embeddings in "+coding] = hostile{"/v1/embeddings", compressed(t, coding, embeddings), []string{"Content-Encoding", coding}}
		list["a stream in "+coding] = hostile{"/v1/models/many:predict-stream", compressed(t, coding, bytes.Repeat([]byte("\n"), 64<<20)), []string{"Content-Encoding", coding, "Content-Type", ndjson}}
	}
	return list
}

// TestSmallRequestsCostLittle sends requests that cost gigabytes if nothing is counted
// while they are read.
func TestSmallRequestsCostLittle(t *testing.T) {
	url := startMany(t)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	two := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer two.CloseIdleConnections()
	for name, c := range hostileRequests(t) {
		t.Run(name, func(t *testing.T) {
			client := http.DefaultClient
			if strings.HasPrefix(c.path, "/inference.") {
				client = two
			}
			do := func() (*http.Response, []byte) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+c.path, bytes.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(c.headers); i += 2 {
					r.Header.Set(c.headers[i], c.headers[i+1])
				}
				reply, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer reply.Body.Close()
				text, _ := io.ReadAll(io.LimitReader(reply.Body, 300)) // some end it early
				return reply, text
			}
			reply, text := do() // connections and pools are there from now on
			cost, most := uint64(math.MaxUint64), uint64(1<<20+63*len(c.body))
			for range 5 { // a collection may empty a pool on the way: the least is what a request costs
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				reply, text = do()
				runtime.ReadMemStats(&after)
				cost = min(cost, after.TotalAlloc-before.TotalAlloc)
			}
			t.Logf("%d bytes: %s, %d bytes were allocated: %.150s %s", len(c.body), reply.Status, cost, text, reply.Trailer)
			if strings.HasPrefix(c.path, "/inference.") && reply.Trailer.Get("Grpc-Status") != "8" {
				t.Errorf("want the status of too large a request: %v", reply.Trailer)
			}
			if cost > most {
				t.Errorf("%d bytes: %d bytes were allocated, at most %d expected", len(c.body), cost, most)
			}
		})
	}
}
