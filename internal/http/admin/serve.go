// Package admin is the HTTP server of a process: publishing, health, metrics, and the commands that
// need the process while it holds the data directory.
package admin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/reload"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// DefaultAddress is the default listen address of a process.
const DefaultAddress = "127.0.0.1:7070"

// Options configures a Server. The zero value listens only on this machine.
type Options struct {
	Address  string // host:port; "" is DefaultAddress, port 0 picks one
	Token    string // required on every request except health, has the role admin; "" if none
	Insecure bool   // listen on other addresses without a token
	CertFile string // PEM certificate for TLS, with KeyFile; read again when it changes. "" means no TLS
	KeyFile  string // PEM
	Version  string // for /v1/status

	Runners    []*pipeline.Runner                         // shown in status and metrics
	Candidates func(pipeline string) []pipeline.Candidate // of a pipeline in Runners; nil if none
	Collectors []prometheus.Collector                     // additional metrics
	Stats      func() embedded.Stats                      // of an embedded log, for its checkpoint in status; nil if none
	Full       func(error) bool                           // whether an append failed because the disk is full
	Logger     *slog.Logger                               // nil discards

	// Gateway is the gateway of the process; its clients are shown. nil if none.
	Gateway *Gateway

	// Reprocess reprocesses a pipeline and yields the progress; nil if unsupported.
	Reprocess func(ctx context.Context, request reprocess.Request) iter.Seq2[reprocess.Progress, error]

	// Tokens provides the tokens of a token file, with their roles; nil if none.
	Tokens access.Tokens

	// Endpoints are served in addition to the server's own, with the same tokens. If there are any,
	// the server also accepts HTTP/2 without TLS, as gRPC clients use it.
	Endpoints []access.Endpoint

	// Connections is the maximum number of open connections. 0 is 1,024, or a quarter of the files
	// that the process may open if that is less.
	Connections int

	// Memory limits the memory of requests of the process; nil is a budget of the server's own.
	Memory *server.Budget
}

// Validate returns an error if the options are invalid.
func (o Options) Validate() error {
	host, _, err := net.SplitHostPort(o.address())
	if err != nil {
		return fmt.Errorf("address %q: %w: use host:port, such as %s", o.Address, err, DefaultAddress)
	}
	if !access.Loopback(host) && o.Token == "" && o.Tokens == nil && !o.Insecure {
		return fmt.Errorf("address %q can be reached from other machines: any client could read and write without a token. Set a token (--token-file, --token or AFTERBAY_TOKEN), listen on 127.0.0.1, or say --insecure", o.Address)
	}
	return reload.CheckFiles(o.CertFile, o.KeyFile)
}

func (o Options) address() string {
	if o.Address == "" {
		return DefaultAddress
	}
	return o.Address
}

// Server is the HTTP server of one process. Create one with Listen.
type Server struct {
	options  Options
	log      inspect.Log
	local    *inspect.Local
	lag      *lagWatch
	backlogs *backlogs
	listener net.Listener
	http     *server.Server
	mux      *access.Mux
	admin    string        // token for the command line on this machine
	ending   chan struct{} // closed when streams must end
	ready    atomic.Bool
	started  time.Time
}

// Listen opens the address; Run serves it. Health is available at once. The server is ready after a
// call of Ready.
func Listen(log inspect.Log, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	secure, err := reload.Certificate(o.CertFile, o.KeyFile, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("load the certificate of TLS: %w: name two files in PEM that belong together", err)
	}
	listener, err := server.Listen(o.address())
	if err != nil {
		return nil, err
	}
	s := newServer(log, o, secure)
	s.listener = listener
	return s, nil
}

// Unheard returns a server that does not listen; callers use its methods.
func Unheard(log inspect.Log, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return newServer(log, o, nil)
}

// newServer returns a server that does not listen yet. A nil secure means no TLS.
func newServer(log inspect.Log, o Options, secure *tls.Config) *Server {
	s := &Server{
		options: o, log: log, admin: rand.Text(),
		ending: make(chan struct{}), started: time.Now(),
	}
	var names, own []string
	if o.Gateway != nil {
		names, own = o.Gateway.Topics, []string{sequence.Inbox(o.Gateway.Name), sequence.Results(o.Gateway.Name)}
	}
	s.local = inspect.NewLocal(log, o.Runners, names, own)
	s.backlogs = newBacklogs(o.Runners, o.Logger)
	s.lag = newLagWatch(s.local, o.Runners, s.backlogs, o.Logger)
	s.http = server.New(server.Options{
		Name: "admin", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }), Class: func(r *http.Request) server.Class { return s.mux.Class(r) },
		Connections: o.Connections, Memory: o.Memory, Plain2: len(o.Endpoints) > 0, TLS: secure, Logger: o.Logger,
	})
	gate := &access.Gate{Owner: s.admin, Token: o.Token, Tokens: o.Tokens, Insecure: o.Insecure}
	s.mux = access.NewMux(gate, func(w http.ResponseWriter, _ *http.Request, why *server.Refusal) { why.Write(w) }, append(s.endpoints(), o.Endpoints...)...)
	s.mux.Renamed = renamed
	return s
}

// Address returns the listen address as host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// URL returns the base URL of the server.
func (s *Server) URL() string {
	if s.options.CertFile != "" {
		return "https://" + s.Address()
	}
	return "http://" + s.Address()
}

// Admin returns the Admin with which the command line reaches the server.
func (s *Server) Admin() Admin { return newAdmin(s.Address(), s.admin, s.options.CertFile) }

// Ready sets whether /readyz may report ready. /readyz also reports not ready in other cases: all
// pipelines have ended, or one has a lag above its lag.critical, waits for an unavailable schema
// registry, or is stopped because of its dead letters.
func (s *Server) Ready(ready bool) { s.ready.Store(ready) }

// Run serves until ctx is done. Then it accepts no more requests, ends streams, and waits at most
// 10 s for the other requests.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.http.Run(ctx, s.listener, func() {
			s.ready.Store(false)
			close(s.ending)
		})
	})
	group.Go(func() error { return s.lag.run(ctx) })
	return group.Wait()
}

// unready returns why the process is not ready, or "" if it is.
func (s *Server) unready() string {
	if !s.ready.Load() {
		return "not ready"
	}
	for _, why := range []string{standing(s.options.Runners), awaiting(s.options.Runners), s.lag.late()} {
		if why != "" {
			return "not ready: " + why
		}
	}
	return ""
}
