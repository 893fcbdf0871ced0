// Package server is the HTTP server that every surface of a process mounts on. It
// bounds connections, requests, time and memory once, for all of them:
//
//   - Connections in all and of an address. Where there are too many, the oldest
//     connection without a request under way makes room for the next one.
//   - Requests under way, by Class: health checks, metrics and operators never wait
//     for data.
//   - Time. A body and a reply have to move at a minimum pace. A reply that starts
//     before its request was read ends the connection.
//   - Memory. All requests of a process share one Budget. Handlers charge what a
//     request needs to its Account before they allocate it.
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
	headerTimeout   = 5 * time.Second  // of a request's header, and of the handshake of TLS
	idleTimeout     = 60 * time.Second // of a connection between two requests
	shutdownTimeout = 10 * time.Second // of the requests that are left at the end
	headerBytesMax  = 16 << 10

	// HTTP/2: what the server holds of bodies that no handler has read yet.
	streamBufferBytes     = 128 << 10
	connectionBufferBytes = 256 << 10
	streamsMax            = 128 // of a connection
)

// Options of a Server. Handler is needed; the zero value of every other field is a
// good default.
type Options struct {
	// Name is the surface, a label of metrics: admin, scoring, gateway.
	Name string
	// Handler answers requests.
	Handler http.Handler
	// Class says which bound a request counts against; nil is Data for all.
	Class func(*http.Request) Class
	// Refuse answers a request that is over a bound, in the form of the surface.
	// nil answers {"error": ..., "hint": ...}.
	Refuse func(http.ResponseWriter, *http.Request, *Refusal)

	// Connections is how many may be open; 0 is 1,024, or a quarter of the files that
	// the process may open where that is less. More than half of these are never used.
	Connections int
	// ConnectionsEach is how many of them one address may have; 0 is three quarters of
	// Connections. Connections without an address, as of a Unix socket, have no bound of
	// their own.
	ConnectionsEach int
	// Requests is how many requests of class Data may be under way; 0 is 256.
	Requests int
	// Streams is the same of class Stream; 0 is 256.
	Streams int
	// Memory bounds what all requests of the process need; nil is a Budget of its own.
	Memory *Budget

	// TLS is used by Run and ServeTLS; nil is no TLS.
	TLS *tls.Config
	// Plain2 speaks HTTP/2 without TLS beside HTTP/1.1, as clients of gRPC do.
	Plain2 bool
	// Logger gets what goes wrong with connections, at level debug; nil discards.
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
	operatorRequests   = 64 // of class Operator
	watchRequests      = 16
	probeRequests      = 256
)

// Server answers HTTP. Make one with New; it may serve several listeners.
type Server struct {
	options  Options
	http     *http.Server
	conns    *connections
	classes  [classes]chan struct{} // one element for each request under way; nil has no bound
	refusals counters
}

// New returns a server that listens nowhere yet.
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
			SendPingTimeout: idleTimeout, PingTimeout: headerTimeout, WriteByteTimeout: writeGrace, // of streams that may be silent for long
		},
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(o.Plain2)
	return s
}

// Memory returns the budget of the requests.
func (s *Server) Memory() *Budget { return s.options.Memory }

// Listen takes a TCP address, host:port.
func Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w: choose another address with --listen, port 0 takes a free one", err)
	}
	return listener, nil
}

// Serve answers the connections of a listener, with TLS where Options has it, until
// Shutdown or Close. Then it returns http.ErrServerClosed.
func (s *Server) Serve(listener net.Listener) error {
	listener = s.conns.listen(listener)
	if s.options.TLS != nil {
		return s.http.ServeTLS(listener, "", "")
	}
	return s.http.Serve(listener)
}

// Run serves until ctx is done. Then it calls ending, which may be nil and ends
// streams, and waits for the other requests, at most 10 s.
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

// Shutdown takes no more connections and waits for the requests that are under way,
// at most 10 s, whether ctx is done or not. Then it closes their connections.
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
