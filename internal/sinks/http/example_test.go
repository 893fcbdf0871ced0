package http_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	httpsink "github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	cards := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), string(body))
	}))
	defer cards.Close()
	sink, err := httpsink.New(httpsink.Options{URL: cards.URL + "/freeze"})
	if err != nil {
		panic(err)
	}
	defer sink.Close()
	fmt.Println(sink.Deliver(context.Background(), "freeze:t1", &stream.Record{Value: []byte(`{"tx":"t1"}`)}))
	// Output:
	// POST /freeze freeze:t1 {"tx":"t1"}
	// <nil>
}
