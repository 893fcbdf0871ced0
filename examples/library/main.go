// Command library is an HTTP service that embeds an engine: it appends the clicks that are posted
// to /clicks, and streams the resulting visits from /visits.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
)

//go:embed pipeline.yaml
var pipeline []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, "data", append(os.Args, "127.0.0.1:8080")[1], slog.Default()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves until ctx is done. Then it completes the requests in flight, and commits.
func serve(ctx context.Context, dir, address string, logger *slog.Logger) (err error) {
	pipelines, err := afterbay.Parse("pipeline.yaml", pipeline, code)
	if err != nil {
		return err
	}
	engine, err := afterbay.Open(ctx, dir, afterbay.Options{Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	return engine.Serve(ctx, pipelines, &http.Server{Addr: address, Handler: handler(engine)})
}

func handler(engine *afterbay.Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /clicks", func(w http.ResponseWriter, r *http.Request) {
		click, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := engine.Append(r.Context(), "clicks", stream.Record{Value: click}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /visits", func(w http.ResponseWriter, r *http.Request) {
		for visit, err := range engine.Tail(r.Context(), "visits", 0) {
			if err != nil {
				return
			}
			fmt.Fprintf(w, "%s\n", visit.Value)
			_ = http.NewResponseController(w).Flush()
		}
	})
	return mux
}
