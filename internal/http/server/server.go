// Package server is the common HTTP server of a process. It limits connections, requests, time and
// memory for all surfaces in one place:
//
//   - Connections, in total and for each address. If there are too many, the oldest
//     connection without a request in flight makes room for the next one.
//   - Requests in flight, by Class: health checks, metrics and operators never wait
//     for data.
//   - Time. A body and a reply must move at a minimum pace. A reply that starts
//     before its request was read ends the connection.
//   - Memory. All requests of a process share one Budget. Handlers charge the memory
//     of a request to its Account before they allocate it.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout   = 5 * time.Second  // for a request's header, and for the TLS handshake
	idleTimeout     = 60 * time.Second // for a connection between two requests
	shutdownTimeout = 10 * time.Second // for the remaining requests at the end
	headerBytesMax  = 16 << 10

	// HTTP/2: buffer for bodies that no handler has read yet.
	streamBufferBytes     = 128 << 10
	connectionBufferBytes = 256 << 10
	streamsMax            = 128 // for each connection
)

// Options configures a Server. Handler is required; the zero value of every other field is a good
// default.
type Options struct {
	// Name is the name of the surface, a label of metrics: admin, scoring, gateway.
	Name string
	// Handler serves requests.
	Handler http.Handler
	// Class returns the class of a request, which determines its limit; nil is Data for all.
	Class func(*http.Request) Class
	// Refuse sends the reply to a request over a limit, in the format of the surface. nil sends
	// {"error": ..., "hint": ...}.
	Refuse func(http.ResponseWriter, *http.Request, *Refusal)

	// Connections is the maximum number of open connections. 0 is 1,024, or a quarter of the files
	// that the process may open if that is less. The server never uses more than half of these
	// files.
	Connections int
	// ConnectionsEach is the maximum number of connections of one address; 0 is three quarters of
	// Connections. Connections without an address, such as those of a Unix socket, have no limit of
	// their own.
	ConnectionsEach int
	// Requests is the maximum number of requests of class Data in flight; 0 is 256.
	Requests int
	// Streams is the same for class Stream; 0 is 256.
	Streams int
	// Memory limits the memory of all requests of the process; nil is a Budget of the server's own.
	Memory *Budget

	// TLS is used by Serve and Run; nil means no TLS.
	TLS *tls.Config
	// Plain2 also accepts HTTP/2 without TLS, as gRPC clients use it.
	Plain2 bool
	// Logger receives connection errors at level debug; nil discards them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Connections = cmp.Or(o.Connections, min(connectionsDefault, max(filesMax()/4, 1)))
	o.Connections = min(o.Connections, max(filesMax()/2, 1))
	o.ConnectionsEach = cmp.Or(o.ConnectionsEach, max(o.Connections*3/4, 1))
	o.Requests, o.Streams = cmp.Or(o.Requests, requestsDefault), cmp.Or(o.Streams, requestsDefault)
	if o.Memory == nil {
		o.Memory = NewBudget(0)
	}
	if o.Class == nil {
		o.Class = func(*http.Request) Class { return Data }
	}
	if o.Refuse == nil {
		o.Refuse = func(w http.ResponseWriter, _ *http.Request, why *Refusal) { why.Write(w) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

const (
	connectionsDefault = 1024
	requestsDefault    = 256
	operatorRequests   = 64 // for class Operator
	watchRequests      = 16
	probeRequests      = 256
)

// Server is an HTTP server. Create one with New. It may serve several listeners.
type Server struct {
	options  Options
	http     *http.Server
	conns    *connections
	classes  [classes]chan struct{} // one element for each request in flight; nil means no limit
	refusals counters
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	o = o.withDefaults()
	s := &Server{options: o, conns: newConnections(o.Connections, o.ConnectionsEach)}
	s.classes = [classes]chan struct{}{
		Data: make(chan struct{}, o.Requests), Stream: make(chan struct{}, o.Streams), Watch: make(chan struct{}, watchRequests),
		Operator: make(chan struct{}, operatorRequests), Probe: make(chan struct{}, probeRequests),
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		ErrorLog:    slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		ConnState:   s.conns.state,
		ConnContext: withConnection,
		TLSConfig:   o.TLS,
		Protocols:   &http.Protocols{},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsMax, MaxReceiveBufferPerStream: streamBufferBytes, MaxReceiveBufferPerConnection: connectionBufferBytes,
			SendPingTimeout: idleTimeout, PingTimeout: headerTimeout, WriteByteTimeout: writeGrace, // for streams that may be silent for long
		},
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(o.Plain2)
	return s
}

// Memory returns the budget of the requests.
func (s *Server) Memory() *Budget { return s.options.Memory }

// Listen opens a TCP address, host:port.
func Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w: choose another address with --listen, port 0 takes a free one", err)
	}
	return listener, nil
}

// Serve serves the connections of a listener, with TLS if Options sets it, until Shutdown or Close.
// Then it returns http.ErrServerClosed.
func (s *Server) Serve(listener net.Listener) error {
	listener = s.conns.listen(listener)
	if s.options.TLS != nil {
		return s.http.ServeTLS(listener, "", "")
	}
	return s.http.Serve(listener)
}

// Run serves until ctx is done. Then it calls ending, which ends streams and may be nil, and waits
// at most 10 s for the other requests.
func (s *Server) Run(ctx context.Context, listener net.Listener, ending func()) error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	var failed error
	select {
	case failed = <-served:
	case <-ctx.Done():
	}
	if ending != nil {
		ending()
	}
	if failed != nil {
		return fmt.Errorf("serve %s: %w", listener.Addr(), failed)
	}
	err := s.Shutdown(ctx)
	<-served
	return err
}

// Shutdown accepts no more connections and waits at most 10 s for the requests in flight, even if
// ctx is done. Then it closes their connections.
func (s *Server) Shutdown(ctx context.Context) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(last); err != nil {
		return errors.Join(fmt.Errorf("end requests: %w", err), s.http.Close())
	}
	return nil
}

// Close closes listeners and connections at once.
func (s *Server) Close() error { return s.http.Close() }
