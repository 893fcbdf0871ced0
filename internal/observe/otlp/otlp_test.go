package otlp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/otlp"
)

func TestSpansAreSentAsTheProtocolHasThem(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("Api-Key") + " " + string(body)
	}))
	defer collector.Close()
	e, err := otlp.New(otlp.Options{URL: collector.URL + "/", Headers: http.Header{"api-key": {"k"}}, Version: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	c, ok := observe.ParseContext([]byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	if !ok {
		t.Fatal("no context")
	}
	e.Add([]observe.Span{{
		Context: c, Parent: [8]byte{1}, Name: "fraud", Consumer: true, Start: time.Unix(1, 5), End: time.Unix(2, 0),
		Attributes: []observe.Attribute{{Key: "topic", Text: "payments"}, {Key: "offset"}}, Links: []observe.Context{c},
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is left is sent
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	const want = `POST /v1/traces application/json k {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"afterbay"}},{"key":"service.version","value":{"stringValue":"1.0"}}]},` +
		`"scopeSpans":[{"scope":{"name":"github.com/afterbay/afterbay","version":"1.0"},"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","parentSpanId":"0100000000000000",` +
		`"name":"fraud","kind":5,"startTimeUnixNano":"1000000005","endTimeUnixNano":"2000000000","attributes":[{"key":"topic","value":{"stringValue":"payments"}},{"key":"offset","value":{"intValue":"0"}}],` +
		`"links":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331"}],"flags":1}]}]}]}`
	if text := <-got; text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	if sent, lost := e.Counts(); sent != 1 || lost != 0 {
		t.Errorf("%d sent, %d lost", sent, lost)
	}
}

func TestCollectorThatIsDownCostsTracesAlone(t *testing.T) {
	var down atomic.Bool
	spans := atomic.Int64{}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "out of room", http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if !json.Valid(body) {
			t.Error("no JSON")
		}
		spans.Add(int64(strings.Count(string(body), `"spanId"`)))
	}))
	defer collector.Close()
	e, err := otlp.New(otlp.Options{URL: collector.URL})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e.Add(make([]observe.Span, 20_000)) // more than are held
	if err := e.Run(ended); err != nil {
		t.Fatal(err)
	}
	if sent, lost := e.Counts(); sent != 16_384 || lost != 20_000-16_384 || spans.Load() != 16_384 {
		t.Errorf("%d sent, %d lost, %d came", sent, lost, spans.Load())
	}
	down.Store(true)
	e.Add(make([]observe.Span, 10))
	if err := e.Run(ended); err != nil {
		t.Fatal(err)
	}
	if _, lost := e.Counts(); lost != 20_000-16_384+10 {
		t.Errorf("%d lost", lost)
	}
	if _, err := otlp.New(otlp.Options{URL: "localhost:4318"}); err == nil {
		t.Error("a URL without a scheme is taken")
	}
}
