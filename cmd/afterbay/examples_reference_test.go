package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/test/servertest"
)

const referenceExamples = "../../docs/reference/"

// TestReferenceExamplesRunInONNXRuntime runs the examples on the pages of the kinds of models that
// need ONNX Runtime. Package scenario runs the others.
func TestReferenceExamplesRunInONNXRuntime(t *testing.T) {
	if apart(t) {
		return
	}
	scan := read(t, "../../internal/models/ocr/testdata/error.png")
	var scenarios [3]string
	for i, kind := range []string{"onnx", "ocr", "voice"} {
		scenarios[i] = read(t, referenceExamples+"models/"+kind+".txt")
	}
	graph, manifest := read(t, referenceExamples+"models/files/onnx.onnx"), read(t, referenceExamples+"models/files/onnx.yaml")
	supportFolder(t)
	if err := os.MkdirAll("files", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "files/onnx.onnx", graph)
	write(t, "files/onnx.yaml", manifest)
	write(t, "error.png", scan)
	write(t, "silence.wav", silence(16_000))
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range scenarios {
		file := fmt.Sprintf("example%d.txt", i)
		write(t, file, strings.NewReplacer("../../../examples/support/", "", "/data/uploads", folder).Replace(text))
		must(t, "", "test", file)
	}
}

// silence returns a sound of 16 kHz with n zeros.
func silence(n uint32) string {
	data := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, 36+2*n)...)
	data = append(data, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data"...)
	return string(binary.LittleEndian.AppendUint32(data, 2*n)) + strings.Repeat("\x00", int(2*n))
}

// sinkExamples start what the examples of sinks write to. They return its URL, the one that stands
// in its place in the example, and what arrived.
var sinkExamples = map[string]func(*testing.T) (url, written string, arrived func() []string){
	"http": freezes, "postgres": rowsOfTotals, "redis": jsonOfTotals, "files": ndjson, "kafka": otherCluster,
}

// TestReferenceExamplesOfSinksArrive runs the examples on the pages of sinks with `afterbay run`.
// What arrives stands in the comment at the end of each, in lines with an indentation.
func TestReferenceExamplesOfSinksArrive(t *testing.T) {
	for kind, start := range sinkExamples {
		t.Run(kind, func(t *testing.T) {
			path := referenceExamples + "sinks/" + kind + ".txt"
			example := read(t, path)
			url, written, arrived := start(t)
			if !strings.Contains(example, "="+written+"\n") {
				t.Fatalf("%s does not name %s", path, written)
			}
			t.Chdir(t.TempDir())
			t.Setenv("URL", url)
			var pipeline, events, want []string
			for line := range strings.Lines(example) {
				switch at, event, _ := strings.Cut(line, "{"); {
				case strings.HasPrefix(line, "  ") && events == nil:
					pipeline = append(pipeline, line[2:])
				case strings.HasPrefix(at, "event "):
					events = append(events, "{"+event)
				case strings.HasPrefix(line, "#   "):
					want = append(want, strings.TrimSpace(line[1:]))
				}
			}
			variable, _, _ := strings.Cut(example[strings.Index(example, "\nenv ")+5:], "=")
			write(t, "pipeline.yaml", strings.ReplaceAll(strings.Join(pipeline, ""), "${"+variable+"}", "${URL}"))
			must(t, strings.Join(events, ""), "produce", "payments", "--key", "card", "--partitions", "2")
			must(t, "", "run", "pipeline.yaml", "--listen", "none", "--until-idle")
			if got := arrived(); !slices.Equal(got, want) || want == nil {
				t.Errorf("%s arrived, and the example has %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func freezes(t *testing.T) (url, written string, arrived func() []string) {
	requests := make(chan []string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		request := []string{r.Method + " " + r.URL.Path}
		for _, name := range []string{"Idempotency-Key", "X-Team"} {
			request = append(request, name+": "+r.Header.Get(name))
		}
		requests <- append(request, string(body))
	}))
	t.Cleanup(server.Close)
	return server.URL, "http://localhost:9000", func() (all []string) {
		for range len(requests) {
			all = append(all, <-requests...)
		}
		return all
	}
}

func rowsOfTotals(t *testing.T) (url, written string, arrived func() []string) {
	server := servertest.Postgres(t)
	return server.URL, "postgres://localhost:5432/shop", func() []string {
		rows, err := server.Postgres(t).Query(t.Context(), `select card || ' ' || paid from totals order by card`)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}

func jsonOfTotals(t *testing.T) (url, written string, arrived func() []string) {
	server := servertest.Redis(t)
	return server.URL, "redis://localhost:6379/0", func() []string {
		client := server.Redis(t)
		text, err := client.Do(t.Context(), client.B().Get().Key("paid:c1").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		own, _, _ := strings.Cut(text, `,"afterbay_source":`) // the fields of the sink are last
		return []string{own + "}"}
	}
}

func ndjson(t *testing.T) (url, written string, arrived func() []string) {
	folder := t.TempDir()
	return "file://" + folder, "file:///data/lake", func() (all []string) {
		for _, object := range objects(t, folder, ".ndjson") {
			for line := range strings.Lines(string(object)) {
				_, line, _ = strings.Cut(line, `"afterbay_pipeline":"`) // the last of the sink's own columns
				_, line, _ = strings.Cut(strings.TrimSpace(line), `",`)
				all = append(all, "{"+line)
			}
		}
		slices.Sort(all)
		return all
	}
}

func otherCluster(t *testing.T) (url, written string, arrived func() []string) {
	url = fakeEngine(t, kfake.SeedTopics(1, "decisions"))
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(url, "kafka://")), kgo.ConsumeTopics("decisions"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return url, "kafka://localhost:9092", func() (all []string) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for len(all) < 2 {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { all = append(all, string(r.Key)+" "+string(r.Value)) })
		}
		slices.Sort(all)
		return all
	}
}
