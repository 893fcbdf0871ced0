package serving_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/test/memnet"
)

// TestStreamThatIsNotReadEnds has clients that send all records and read no answer, or
// a byte now and then, and one that sends no more either.
func TestStreamThatIsNotReadEnds(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		each time.Duration // for a byte
		most time.Duration
	}{
		"nothing": {"9\r\n{\"a\": 1}\n\r\n0\r\n\r\n", time.Hour, 25 * time.Second},
		"drips":   {"9\r\n{\"a\": 1}\n\r\n0\r\n\r\n", 5 * time.Second, 25 * time.Second},
		"half":    {"9\r\n{\"a\": 1}\n\r\n", time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				h, err := serving.New(ctx, models(), serving.Options{SpillDir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan time.Time, 1)
				s := server.New(server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() { ended <- time.Now() }()
					h.ServeHTTP(w, r)
				})})
				listener := memnet.Listen()
				served := make(chan error, 1)
				go func() { served <- s.Serve(listener) }()
				here, there := net.Pipe()
				if err := listener.Give(there); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				go func() {
					_, _ = io.WriteString(here, "POST /v1/models/sum:predict-stream HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"+c.body)
				}()
				go func() {
					for ctx.Err() == nil {
						if _, err := here.Read(make([]byte, 1)); err != nil {
							return
						}
						select {
						case <-time.After(c.each):
						case <-ctx.Done():
						}
					}
				}()
				if took := (<-ended).Sub(began); took > c.most {
					t.Errorf("it ended after %v", took)
				}
				cancel()
				_ = here.Close()
				_ = s.Close()
				<-served
			})
		})
	}
}
