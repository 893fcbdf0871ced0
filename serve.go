package afterbay

import (
	"context"
	"errors"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// Serve is Run with an additional HTTP server that the caller provides. The server listens on its
// Addr, with TLS if it has a TLSConfig. It accepts requests once the pipelines start. When ctx is
// done, the contexts of all requests are done too, which ends their calls of Tail. Serve returns
// after all requests are answered and Run has returned. An error of the server or of Run ends both.
// Serve logs the address of the server.
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
	if e.Ready(ctx) == nil { // otherwise Run returns the reason
		group.Go(func() error { return e.listen(ctx, listener, server) })
	}
	return group.Wait()
}

// listen serves requests until the server is shut down.
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
