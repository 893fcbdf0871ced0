// Package admin is the process's HTTP side: publishing, health, metrics, and
// what the command line asks while the process holds the data directory.
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

// DefaultAddress is where a process listens when nothing else is said.
const DefaultAddress = "127.0.0.1:7070"

// Options of a Server. The zero value listens for this machine alone.
type Options struct {
	Address  string // host:port; "" is DefaultAddress, port 0 picks one
	Token    string // that every request but health has to bring, with the role admin; "" is none
	Insecure bool   // listen beyond this machine without a token
	CertFile string // PEM of TLS, with KeyFile; read again when it changes. "" is no TLS
	KeyFile  string // PEM
	Version  string // for /v1/status

	Runners    []*pipeline.Runner     // shown in status and metrics
	Collectors []prometheus.Collector // more metrics
	Stats      func() embedded.Stats  // of an embedded log, for its checkpoint in status; nil is none
	Full       func(error) bool       // whether an append failed for want of space
	Logger     *slog.Logger           // nil discards

	// Gateway is that of the process, whose clients are shown; nil is none.
	Gateway *Gateway

	// Reprocess derives a pipeline again, and yields how far it is; nil does not.
	Reprocess func(ctx context.Context, request reprocess.Request) iter.Seq2[reprocess.Progress, error]

	// Tokens are the tokens of a token file, with their roles; nil is none.
	Tokens access.Tokens

	// Endpoints are more than the server's own, behind the same tokens. HTTP/2 without
	// TLS is spoken for them, as clients of gRPC do.
	Endpoints []access.Endpoint

	// Connections may be open at once; 0 is 1,024, or a quarter of the files that the
	// process may open where that is less.
	Connections int

	// Memory bounds what requests of the process need; nil is a budget of the server's
	// own.
	Memory *server.Budget
}

// Validate returns why a server cannot have these options.
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

// Server answers HTTP for one process. Make one with Listen.
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
	ending   chan struct{} // closed when streams have to end
	ready    atomic.Bool
	started  time.Time
}

// Listen takes the address; Run serves it. The server has health at once, and
// is ready from Ready on.
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

// Unheard returns a server that listens nowhere, for its methods.
func Unheard(log inspect.Log, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return newServer(log, o, nil)
}

// newServer returns a server that listens nowhere. A nil secure is no TLS.
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

// Address returns the host:port that is listened on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// URL returns where the server can be asked.
func (s *Server) URL() string {
	if s.options.CertFile != "" {
		return "https://" + s.Address()
	}
	return "http://" + s.Address()
}

// Admin returns what the command line needs to reach the server.
func (s *Server) Admin() Admin { return newAdmin(s.Address(), s.admin, s.options.CertFile) }

// Ready makes /readyz say whether the process does its work. It says no besides
// while a pipeline is further behind than its lag.critical, waits for a schema
// registry that stays away, or stands still for its dead letters, and if all
// pipelines ended.
func (s *Server) Ready(ready bool) { s.ready.Store(ready) }

// Run serves until ctx is done; then it takes no more requests, ends streams
// and waits for the others, at most 10 s.
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

// unready returns why the process should get no work; "" where it should.
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
