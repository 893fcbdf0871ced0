package ingest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// newServer appends to a log within the bounds of a server.
func newServer(log ingest.Log) *server.Server {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/topics/{topic}", ingest.NewHandler(log, nil, nil))
	return server.New(server.Options{Handler: mux})
}

func send(t testing.TB, s *server.Server, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/topics/in", body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestCompressedBodiesAreDecompressed(t *testing.T) {
	for _, coding := range []string{"gzip", "x-gzip", "zstd"} {
		log := newLog(t, one)
		if w := send(t, newServer(log), strings.NewReader(packed(t, coding, "{\"a\":1}\n{\"a\":2}\n")), "Content-Encoding", coding); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", coding, w.Code, w.Body)
		}
		if got := contents(t, log, "in"); len(got) != 2 || got[1] != `-={"a":2}` {
			t.Errorf("%s: %q", coding, got)
		}
	}
	log := newLog(t, one)
	for _, coding := range []string{"br", "deflate", "compress"} {
		if w := send(t, newServer(log), strings.NewReader("{}"), "Content-Encoding", coding); w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", coding, w.Code, w.Body)
		}
	}
	if w := send(t, newServer(log), strings.NewReader("{}"), "Content-Encoding", "gzip"); w.Code != http.StatusBadRequest {
		t.Errorf("no gzip: %d %s", w.Code, w.Body)
	}
	if got := contents(t, log, "in"); len(got) > 0 {
		t.Errorf("%q were appended", got)
	}
}

// TestSmallBodiesCostLittle sends bodies that stand for many records, or long ones.
func TestSmallBodiesCostLittle(t *testing.T) {
	var names, cells strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&names, "%s%d,", strings.Repeat("n", 900), i)
		cells.WriteString("1,")
	}
	wide := names.String() + "x\n" + strings.Repeat(cells.String()+"1\n", 1000)
	for name, c := range map[string]struct {
		text    string
		headers []string
	}{
		"long column names":            {wide, []string{"Content-Type", "text/csv"}},
		"long column names, gzip":      {wide, []string{"Content-Type", "text/csv", "Content-Encoding", "gzip"}},
		"many columns":                 {strings.Repeat("a,", 500_000) + "a\n", []string{"Content-Type", "text/csv"}},
		"many cells":                   {"a,b\n" + strings.Repeat(",", 1_000_000) + "\n", []string{"Content-Type", "text/csv"}},
		"many small rows":              {"a\n" + strings.Repeat("1\n", 500_000), []string{"Content-Type", "text/csv"}},
		"many small rows, zstd":        {"a\n" + strings.Repeat("1\n", 90_000), []string{"Content-Type", "text/csv", "Content-Encoding", "zstd"}},
		"many small records":           {strings.Repeat("1\n", 500_000), nil},
		"many small records, gzip":     {strings.Repeat("1\n", 90_000), []string{"Content-Encoding", "gzip"}},
		"one long record, gzip":        {`"` + strings.Repeat("a", 1_000_000) + `"`, []string{"Content-Encoding", "gzip"}},
		"many long records, zstd":      {strings.Repeat(`"`+strings.Repeat("a", 100_000)+"\"\n", 150), []string{"Content-Encoding", "zstd"}},
		"deep nesting":                 {strings.Repeat("[", 1_000_000), nil},
		"quotes that are never closed": {"a\n" + strings.Repeat("\"\n", 500_000), []string{"Content-Type", "text/csv"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(c.text)
			if n := len(c.headers); n > 0 && c.headers[n-2] == "Content-Encoding" {
				body = []byte(packed(t, c.headers[n-1], c.text))
			}
			s := newServer(newLog(t, one))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := send(t, s, bytes.NewReader(body), c.headers...)
			runtime.ReadMemStats(&after)
			cost := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes: %d, %d bytes were allocated", len(body), w.Code, cost)
			if most := uint64(1<<20 + 63*len(body)); cost > most {
				t.Errorf("%d bytes: %d bytes were allocated, at most %d expected: %d %.200s", len(body), cost, most, w.Code, w.Body)
			}
			if s.Memory().Used() != 0 {
				t.Errorf("%d bytes are not given back", s.Memory().Used())
			}
		})
	}
}

// stuck is a body that never comes.
type stuck struct{ released chan struct{} }

func (s stuck) Read([]byte) (int, error) { <-s.released; return 0, io.ErrUnexpectedEOF }

func TestBodiesThatDoNotComeKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		defer log.Close()
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		s, released := newServer(log), make(chan struct{})
		for range 100 {
			go send(t, s, stuck{released}, "Content-Length", "16777216") // until released
		}
		synctest.Wait()
		before := time.Now()
		if w := send(t, s, strings.NewReader(`{"a":1}`)); w.Code != http.StatusOK || time.Since(before) > 0 {
			t.Errorf("%d after %v: %s", w.Code, time.Since(before), w.Body)
		}
		close(released)
		synctest.Wait()
	})
}
