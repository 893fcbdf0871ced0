package afterbay

import (
	"context"
	"errors"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// Serve is Run with an HTTP server of the program beside the pipelines. The server listens on
// its Addr, with TLS if it has a TLSConfig, and takes requests when the pipelines begin. The
// context of a request is done when ctx is, which ends a Tail. Serve returns when all requests
// are answered and Run has returned; an error of the server or of Run ends both. It logs the
// address.
func (e *Engine) Serve(ctx context.Context, p *Pipelines, server *http.Server) error {
	listener, err := net.Listen("tcp", server.Addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer stop()
		return e.Run(ctx, p)
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Shutdown(context.WithoutCancel(ctx))
	})
	if e.Ready(ctx) == nil { // else Run says why
		group.Go(func() error { return e.listen(ctx, listener, server) })
	}
	return group.Wait()
}

// listen answers requests until the server is shut down.
func (e *Engine) listen(ctx context.Context, listener net.Listener, server *http.Server) (err error) {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	if server.TLSConfig != nil {
		e.options.Logger.Info("listening", "url", "https://"+listener.Addr().String())
		err = server.ServeTLS(listener, "", "")
	} else {
		e.options.Logger.Info("listening", "url", "http://"+listener.Addr().String())
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
