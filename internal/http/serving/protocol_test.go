package serving_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/reload"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

const jsonType = "application/json"

func wantText(t testing.TB, what string, response *http.Response, got string, status int, want string) {
	t.Helper()
	if got = strings.TrimSpace(got); response.StatusCode != status || got != want {
		t.Errorf("%s: %d %s\nwant %d %s", what, response.StatusCode, got, status, want)
	}
}

func TestInferenceProtocolDescribesModels(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{Version: "v9"}})
	for path, want := range map[string]string{
		"/v2":                       `{"extensions":["binary_tensor_data","model_stream_infer","predict_stream"],"name":"afterbay","version":"v9"}`,
		"/v2/health/live":           `{"live":true}`,
		"/v2/health/ready":          `{"ready":true}`,
		"/v2/models/sum/ready":      `{"name":"sum","ready":true}`,
		"/v2/models/sum/versions/7": `{"inputs":[{"name":"input","datatype":"FP32","shape":[-1,4]}],"name":"sum","outputs":[{"name":"total","datatype":"FP32","shape":[-1,1]}],"platform":"afterbay_test","versions":["7"]}`,
		"/v2/models/mixed":          `{"inputs":[{"name":"n","datatype":"FP32","shape":[-1,1]},{"name":"text","datatype":"BYTES","shape":[-1,1]}],"name":"mixed","outputs":[{"name":"double","datatype":"FP32","shape":[-1,1]},{"name":"pair","datatype":"FP32","shape":[-1,2]}],"platform":"afterbay_test","versions":["1"]}`,
	} {
		response, text := ask(t, http.MethodGet, url+path, "")
		wantText(t, path, response, text, 200, want)
	}
	response, text := ask(t, http.MethodGet, url+"/v2/models/none", "")
	wantText(t, "unknown model", response, text, 404, `{"error":"no model \"none\", version \"any\": there are sum@7, spam@1, vector@1, mixed@1"}`)
}

func TestInferenceByJSON(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v2/models/"
	for _, c := range []struct{ path, body, want string }{
		{"sum/infer", `{"id":"x","inputs":[{"name":"anything","shape":[2,4],"datatype":"FP32","data":[1,2,3,4,5,6,7,null]}]}`,
			`{"model_name":"sum","model_version":"7","id":"x","outputs":[{"name":"total","datatype":"FP32","shape":[2,1],"data":[10,1018]}]}`},
		{"sum/versions/7/infer", `{"inputs":[{"name":"input","shape":[2,4],"datatype":"INT64","data":[[1,2,3,4],[5,6,7,8]]}]}`,
			`{"model_name":"sum","model_version":"7","outputs":[{"name":"total","datatype":"FP32","shape":[2,1],"data":[10,26]}]}`},
		{"sum/infer", `{"inputs":[{"name":"d","shape":[1],"datatype":"BOOL","data":[true]},{"name":"a","shape":[1,1],"datatype":"FP64","data":[[1]]},{"name":"b","shape":[1],"datatype":"INT8","data":[1]},{"name":"c","shape":[1],"datatype":"FP32","data":[0.5]}]}`,
			`{"model_name":"sum","model_version":"7","outputs":[{"name":"total","datatype":"FP32","shape":[1,1],"data":[3.5]}]}`},
		{"mixed/infer", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["\u00e9"]},{"name":"n","shape":[1],"datatype":"FP32","data":[4]}],"outputs":[{"name":"pair"}]}`,
			`{"model_name":"mixed","model_version":"1","outputs":[{"name":"pair","datatype":"FP32","shape":[1,2],"data":[2,4]}]}`},
	} {
		response, text := ask(t, http.MethodPost, url+c.path, c.body, "Content-Type", jsonType)
		wantText(t, c.body, response, text, 200, c.want)
	}
}

func TestInferenceRefusesWhatDoesNotFit(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{BodyBytesMax: 1000}}) + "/v2/models/"
	for body, want := range map[string]string{
		`{`: `read the request`, `{}`: `no inputs`,
		`{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}`:                            `want [rows, 4]`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3]}]}`:                            `3 elements for shape [1 4]`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4,5]}]}`:                        `more than 4 elements`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP31","data":[1,2,3,4]}]}`:                          `datatype \"FP31\" is not known`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"BYTES","data":["1","2","3","4"]}]}`:                 `does not take BYTES`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,"4"]}]}`:                        `is not an element of FP32`,
		`{"inputs":[{"name":"x","shape":[2147483647,0],"datatype":"FP32","data":[]}]}`:                        `want [rows, 4]`,
		`{"inputs":[{"name":"a","shape":[2147483647,0],"datatype":"FP32","data":[]}]}`:                        `want [2147483647]`,
		`{"inputs":[{"name":"x","shape":[4294967296,4294967296],"datatype":"FP32","data":[]}]}`:               `has a length outside 0 to 2^31`,
		`{"inputs":[{"name":"x","shape":[-1,4],"datatype":"FP32","data":[]}]}`:                                `has a length outside 0 to 2^31`,
		`{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[1]}]}`:                                   `has no shape`,
		`{"inputs":[{"name":"a","shape":[1],"datatype":"FP32","data":[1]}]}`:                                  `input \"b\" is missing`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP64","data":[1,2,1e300,4]}]}`:                      `row 0: input 2 is infinite`,
		`{"inputs":[{"name":"x","shape":[2,4],"datatype":"INT64","data":[1,2,3,4,1,2,3,9]}]}`:                 `row 1: input \"d\": 9 is not a code of a category: codes are whole numbers from 0 to 8`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}],"outputs":[{"name":"y"}]}`: `no output \"y\"`,
		`{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`:      `0 bytes are left`,
	} {
		response, text := ask(t, http.MethodPost, url+"sum/infer", body, "Content-Type", jsonType)
		if response.StatusCode != 400 || !strings.HasPrefix(text, `{"error":"`) || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s; want %s", body, response.StatusCode, text, want)
		}
	}
	if response, text := ask(t, http.MethodPost, url+"sum/infer", strings.Repeat(" ", 1001), "Content-Type", jsonType); response.StatusCode != 413 {
		t.Errorf("a large body: %d %s", response.StatusCode, text)
	}
}

func TestInferenceByBinaryTensors(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v2/models/"
	var raw []byte
	for _, v := range []float64{1, 2, 3, math.NaN()} {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	head := `{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP64","parameters":{"binary_data_size":32}}],"parameters":{"binary_data_output":true}}`
	response, text := ask(t, http.MethodPost, url+"sum/infer", head+string(raw), "Inference-Header-Content-Length", strconv.Itoa(len(head)))
	n, err := strconv.Atoi(response.Header.Get("Inference-Header-Content-Length"))
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v: %s %s", err, response.Status, text)
	}
	want := `{"model_name":"sum","model_version":"7","outputs":[{"name":"total","datatype":"FP32","shape":[1,1],"parameters":{"binary_data_size":4}}]}`
	if got := text[:n]; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := math.Float32frombits(binary.LittleEndian.Uint32([]byte(text[n:]))); got != 1006 || len(text) != n+4 {
		t.Errorf("%v in %d bytes", got, len(text)-n)
	}
	head = `{"inputs":[{"name":"text","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":11}}],"outputs":[{"name":"class","parameters":{"binary_data":false}}]}`
	response, text = ask(t, http.MethodPost, url+"spam/infer", head+"\x02\x00\x00\x00!!\x01\x00\x00\x00a", "Inference-Header-Content-Length", strconv.Itoa(len(head)))
	wantText(t, "texts", response, text, 200, `{"model_name":"spam","model_version":"1","outputs":[{"name":"class","datatype":"FP32","shape":[2,2],"data":[0,1,1,0]}]}`)
}

// caller calls gRPC by HTTP/2 without TLS.
type caller struct {
	t         testing.TB
	url       string
	transport *http.Transport
}

func newCaller(t testing.TB, url string) *caller {
	c := &caller{t, url, &http.Transport{Protocols: &http.Protocols{}}}
	c.transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// call returns the messages of the reply, and status and message of its trailers.
func (c *caller) call(method string, requests ...[]byte) (replies [][]byte, status, message string) {
	c.t.Helper()
	var body []byte
	for _, r := range requests {
		body = append(body, framed(r)...)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+"/inference.GRPCInferenceService/"+method, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 {
		c.t.Fatalf("%s: %v", response.Status, err)
	}
	for len(data) >= 5 {
		n := 5 + binary.BigEndian.Uint32(data[1:])
		replies, data = append(replies, data[5:n]), data[n:]
	}
	return replies, response.Trailer.Get("Grpc-Status"), response.Trailer.Get("Grpc-Message")
}

func field(dst []byte, n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), content)
}

// inferRequest asks the model sum for one row: as raw bytes or as contents.
func inferRequest(raw bool, datatype string, row ...float32) []byte {
	var values []byte
	for _, v := range row {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(v))
	}
	tensor := field(field(field(nil, 1, []byte("input")), 2, []byte(datatype)), 3, []byte{1, byte(len(row))})
	request := field(nil, 1, []byte("sum"))
	if raw {
		return field(field(request, 5, tensor), 7, values)
	}
	return field(request, 5, field(tensor, 5, field(nil, 6, values)))
}

func TestInferenceByGRPC(t *testing.T) {
	c := newCaller(t, start(t, models(), serving.ServerOptions{}))
	for _, method := range []string{"ServerLive", "ServerReady"} {
		if replies, status, _ := c.call(method, nil); status != "0" || len(replies) != 1 || string(replies[0]) != "\x08\x01" {
			t.Errorf("%s: %q, status %s", method, replies, status)
		}
	}
	score := binary.LittleEndian.AppendUint32(nil, math.Float32bits(10))
	output := field(field(field(nil, 1, []byte("total")), 2, []byte("FP32")), 3, []byte{1, 1})
	named := field(field(nil, 1, []byte("sum")), 2, []byte("7"))
	want := field(field(slices.Clone(named), 5, output), 6, score)
	for _, raw := range []bool{true, false} {
		replies, status, message := c.call("ModelInfer", inferRequest(raw, "FP32", 1, 2, 3, 4))
		if status != "0" || len(replies) != 1 || !bytes.Equal(replies[0], want) {
			t.Errorf("raw %v: %q, status %s %s; want %q", raw, replies, status, message, want)
		}
	}
	for method, want := range map[string]string{"ModelInfer": "5", "ModelReady": "5", "ModelExplode": "12"} {
		if replies, status, message := c.call(method, field(nil, 1, []byte("none"))); status != want || len(replies) > 0 || message == "" {
			t.Errorf("%s: %q, status %s %s; want %s", method, replies, status, message, want)
		}
	}
	for _, request := range [][]byte{inferRequest(true, "FP64", 1, 2, 3, 4), inferRequest(false, "INT32", 1, 2, 3, 4), inferRequest(true, "FP32", 1, 2), []byte("\xff")} {
		if _, status, message := c.call("ModelInfer", request); status != "3" {
			t.Errorf("%q: status %s %s", request, status, message)
		}
	}
}

func TestStreamOfGRPCGoesOnBehindAnError(t *testing.T) {
	c := newCaller(t, start(t, models(), serving.ServerOptions{}))
	replies, status, _ := c.call("ModelStreamInfer", inferRequest(true, "FP32", 1, 2, 3, 4), inferRequest(true, "FP64", 1), inferRequest(true, "FP32", 1, 2, 3, 4))
	if status != "0" || len(replies) != 3 || replies[0][0] != 0x12 || replies[1][0] != 0x0a || !bytes.Equal(replies[0], replies[2]) {
		t.Errorf("%q, status %s", replies, status)
	}
}

func TestModerationsAndEmbeddings(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/moderations", `{"model":"spam","input":["!!!a","a"]}`, 200,
			`{"id":"modr-spam@1","model":"spam","results":[{"flagged":true,"categories":{"spam":true},"category_scores":{"spam":0.75}},{"flagged":false,"categories":{"spam":false},"category_scores":{"spam":0}}]}`},
		{"/v1/moderations", `{"input":[{"type":"text","text":"!"}]}`, 200,
			`{"id":"modr-spam@1","model":"spam","results":[{"flagged":true,"categories":{"spam":true},"category_scores":{"spam":1}}]}`},
		{"/v1/embeddings", `{"model":"vector","input":"abc"}`, 200,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[3,0.5,-1]}],"model":"vector","usage":{"prompt_tokens":1,"total_tokens":1}}`},
		{"/v1/embeddings", `{"model":"vector","input":["abc"],"encoding_format":"base64"}`, 200,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AABAQAAAAD8AAIC/"}],"model":"vector","usage":{"prompt_tokens":1,"total_tokens":1}}`},
	} {
		response, text := ask(t, http.MethodPost, url+c.path, c.body, "Content-Type", jsonType)
		wantText(t, c.body, response, text, c.status, c.want)
	}
	for body, code := range map[string]string{
		`{"model":"none","input":"a"}`: "model_not_found", `{"model":"sum","input":"a"}`: "wrong_model", `{"model":"vector","input":[]}`: "bad_input",
		`{"model":"vector","input":[[1,2]]}`: "bad_input", `{"model":"vector"}`: "bad_input", `{"model":"vector","input":"a","dimensions":5}`: "bad_dimensions",
		`{"model":"vector","input":"a","encoding_format":"x"}`: "bad_encoding_format", `{`: "bad_request",
	} {
		if _, text := ask(t, http.MethodPost, url+"/v1/embeddings", body, "Content-Type", jsonType); !strings.Contains(text, `"code":"`+code+`"`) {
			t.Errorf("%s: %s; want %s", body, text, code)
		}
	}
	if response, text := ask(t, http.MethodGet, url+"/v1/models", ""); response.StatusCode != 200 || strings.Count(text, `"object":"model"`) != 4 {
		t.Errorf("%s", text)
	}
	if response, text := ask(t, http.MethodGet, url+"/v1/models/sum", ""); response.StatusCode != 200 || !strings.Contains(text, `{"name":"d","type":"number","categories":["low","high","c2",`) {
		t.Errorf("%s", text)
	}
}

func TestTokenGuardsAllButHealth(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Token: "secret"})
	for path, want := range map[string]int{"/v1/models": 401, "/v2": 401, "/openapi.json": 401, "/healthz": 200, "/v2/health/live": 200, "/v2/health/ready": 200} {
		if response, text := ask(t, http.MethodGet, url+path, ""); response.StatusCode != want {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
	if response, _ := ask(t, http.MethodGet, url+"/v1/models", "", "Authorization", "Bearer secret"); response.StatusCode != 200 {
		t.Errorf("with the token: %s", response.Status)
	}
	if response, _ := ask(t, http.MethodGet, url+"/v1/models", "", "Authorization", "Bearer secreT"); response.StatusCode != 401 {
		t.Errorf("with another token: %s", response.Status)
	}
}

// A reply about a model that is not there, or is not named, and the OpenAPI document name
// those models alone that the token may ask.
func TestTokensHearOfTheirModelsAlone(t *testing.T) {
	const secret = "a token of this test, of 32 bytes or more"
	set := &access.Set{}
	if err := set.Add("some", sha256.Sum256([]byte(secret)), access.Roles{Infer: []string{"v*"}}); err != nil {
		t.Fatal(err)
	}
	tokens, err := reload.New("tokens", nil, func() (*access.Set, []string, error) { return set, nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	url := start(t, models(), serving.ServerOptions{Token: "secret", Tokens: tokens})
	for _, c := range []struct{ method, path, body, want string }{
		{http.MethodPost, "/v2/models/vectors/infer", "{}", "vector@1"},
		{http.MethodPost, "/v1/embeddings", `{"model":"vectors","input":"a"}`, "vector@1"},
		{http.MethodPost, "/v1/moderations", `{"input":"a"}`, "does not answer"},
		{http.MethodGet, "/openapi.json", "", `["vector"]`},
	} {
		_, text := ask(t, c.method, url+c.path, c.body, "Authorization", "Bearer "+secret, "Content-Type", jsonType)
		if !strings.Contains(text, c.want) || strings.Contains(text, "spam") || strings.Contains(text, "mixed") {
			t.Errorf("%s %s: %s", c.method, c.path, text)
		}
	}
}

func TestWebPagesGetNothing(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 403 {
		t.Errorf("another host: %s", response.Status)
	}
	if response, _ := ask(t, http.MethodPost, url+streamPath, "", "Content-Type", ndjson, "Sec-Fetch-Site", "cross-site"); response.StatusCode != 403 {
		t.Errorf("another site: %s", response.Status)
	}
}

func TestLimitOfStreamsIsSaid(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{StreamsMax: 1})
	conn := connect(t, url, ndjson, "Transfer-Encoding: chunked\r\n")
	answer(t, conn) // the one stream is open
	response, text := ask(t, http.MethodPost, url+streamPath, "", "Content-Type", ndjson)
	if response.StatusCode != 429 || response.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", response.Status, text)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []serving.ServerOptions{
		{Address: "x"}, {Address: "0.0.0.0:0"}, {CertFile: "cert.pem"}, {CertFile: "none.pem", KeyFile: "none.pem"}, {StreamsMax: -1},
	} {
		if _, err := serving.Listen(models(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	for _, m := range []serving.Named{{Name: "a b", Model: newSum()}, {Name: "a", Version: "latest", Model: newSum()}, {Name: "", Model: newSum()}} {
		if _, err := serving.Listen([]serving.Named{m}, serving.ServerOptions{Address: "127.0.0.1:0"}); err == nil {
			t.Errorf("%s@%s was taken", m.Name, m.Version)
		}
	}
	twice := []serving.Named{{Name: "a", Model: newSum()}, {Name: "a", Model: newSum()}}
	if _, err := serving.Listen(twice, serving.ServerOptions{Address: "127.0.0.1:0"}); err == nil {
		t.Error("one version was taken twice")
	}
}

func TestMetricsCountRecords(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	stream(t, url+streamPath, ndjson, "[1,2,3,4]\nx\n[1,2,3,4]\n")
	_, text := ask(t, http.MethodGet, url+"/metrics", "")
	for _, want := range []string{"afterbay_serve_predictions_total 2\n", "afterbay_serve_record_errors_total 1\n", "afterbay_serve_spill_bytes 0\n", "afterbay_serve_model_batches_total{model=\"sum@7\",reason=\"idle\"} 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(line, "# TYPE afterbay_")
		known := func(i metric.Info) bool {
			return name == strings.TrimPrefix(i.Name, "afterbay_")+" "+string(i.Type)+"\n"
		}
		if ok && !slices.ContainsFunc(append(serving.Metrics(), server.Metrics()...), known) {
			t.Errorf("not in Metrics: %s", line)
		}
	}
}

// TestOpenAPIHasEveryCall sees that the document and the server do not drift apart.
func TestOpenAPIHasEveryCall(t *testing.T) {
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	if err := json.Unmarshal(data, &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("%v, openapi %q", err, doc.OpenAPI)
	}
	handler, err := serving.New(t.Context(), models(), serving.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range handler.Endpoints() {
		if strings.HasPrefix(e.Pattern, "/inference") || strings.HasPrefix(e.Pattern, "/grpc") {
			continue
		}
		path := strings.Replace(e.Pattern, "/versions/{call}", "/versions/{version}:predict-stream", 1)
		path = strings.Replace(path, "/{call}", "/{name}:predict-stream", 1)
		found++
		if doc.Paths[path][strings.ToLower(e.Method)] == nil {
			t.Errorf("the document lacks %s %s", e.Method, path)
		}
	}
	if count := 0; found < 15 {
		t.Errorf("only %d calls were looked at", found)
	} else {
		for _, methods := range doc.Paths {
			for method := range methods {
				if method != "parameters" {
					count++
				}
			}
		}
		if count != found+3 {
			t.Errorf("the document has %d calls, the server %d, its list, health and metrics", count, found)
		}
	}
}

func ExampleListen() {
	server, err := serving.Listen([]serving.Named{{Name: "sum", Model: newSum()}}, serving.ServerOptions{Address: "127.0.0.1:0"})
	fmt.Println(strings.HasPrefix(server.URL(), "http://127.0.0.1:"), err)
	// Output: true <nil>
}
