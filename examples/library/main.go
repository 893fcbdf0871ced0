// Command library is a service of HTTP that embeds an engine: it appends the clicks that are
// posted to /clicks, and streams the visits that they become from /visits.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

//go:embed pipeline.yaml
var pipeline []byte

// code is what the pipeline file names.
var code = afterbay.Code{Functions: map[string]udf.Function{"visits": visits}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", append(os.Args, "127.0.0.1:8080")[1])
	if err == nil {
		err = serve(ctx, "data", listener)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves until ctx is done. Then it answers what is begun, and commits it.
func serve(ctx context.Context, dir string, listener net.Listener) (err error) {
	pipelines, err := afterbay.Parse("pipeline.yaml", pipeline, code)
	if err != nil {
		return err
	}
	engine, err := afterbay.Open(ctx, dir, afterbay.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return engine.Run(ctx, pipelines) })
	server := &http.Server{Handler: handler(engine), BaseContext: func(net.Listener) context.Context { return ctx }}
	group.Go(func() error {
		<-ctx.Done()
		return server.Shutdown(context.WithoutCancel(ctx))
	})
	fmt.Printf("listening on http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return group.Wait()
}

func handler(engine *afterbay.Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /clicks", func(w http.ResponseWriter, r *http.Request) {
		var click struct{ User string }
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = json.Unmarshal(body, &click)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := engine.Ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		if err := engine.Append(r.Context(), "clicks", stream.Record{Key: []byte(click.User), Value: body}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /visits", func(w http.ResponseWriter, r *http.Request) {
		if engine.Ready(r.Context()) != nil {
			return
		}
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
