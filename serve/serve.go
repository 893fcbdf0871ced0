// Package serve is the process's HTTP side: publishing, health, metrics, and
// what the command line asks while the process holds the data directory.
package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/rederive"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/embedded"
)

// DefaultAddress is where a process listens when nothing else is said.
const DefaultAddress = "127.0.0.1:7070"

// Log is what a server shows and appends to.
type Log interface {
	stream.Log
	stream.Inspector
}

// Options of a Server. The zero value listens for this machine alone.
type Options struct {
	Address  string // host:port; "" is DefaultAddress, port 0 picks one
	Token    string // that every request but health has to bring; "" is none
	Insecure bool   // listen beyond this machine without a token
	Version  string // for /v1/status

	Runners    []*afterbay.Runner     // shown in status and metrics
	Collectors []prometheus.Collector // more metrics
	Stats      func() embedded.Stats  // of an embedded log, for its checkpoint in status; nil is none
	Full       func(error) bool       // whether an append failed for want of space
	Logger     *slog.Logger           // nil discards

	// Gateway is that of the process, whose clients are shown; nil is none.
	Gateway *Gateway

	// Rederive derives a pipeline again, and yields how far it is; nil does not.
	Rederive func(ctx context.Context, request rederive.Request) iter.Seq2[rederive.Progress, error]

	// Mounts are handlers of more paths, as http.ServeMux has them, behind the
	// same token. HTTP/2 without TLS is spoken for them, as clients of gRPC do. One
	// with a method Class(*http.Request) server.Class says which bound requests count
	// against, else they are server.Data.
	Mounts map[string]http.Handler

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
	if !access.Loopback(host) && o.Token == "" && !o.Insecure {
		return fmt.Errorf("address %q can be reached from other machines, and without a token anybody there could read and write: set a token (--token or AFTERBAY_TOKEN), listen on 127.0.0.1, or say --insecure", o.Address)
	}
	return nil
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
	log      Log
	local    *Local
	lag      *lagWatch
	backlogs *backlogs
	listener net.Listener
	http     *server.Server
	admin    string        // token for the command line on this machine
	ending   chan struct{} // closed when streams have to end
	ready    atomic.Bool
	started  time.Time
}

// Listen takes the address; Run serves it. The server has health at once, and
// is ready from Ready on.
func Listen(log Log, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	listener, err := server.Listen(o.address())
	if err != nil {
		return nil, err
	}
	s := newServer(log, o)
	s.listener = listener
	return s, nil
}

// newServer returns a server that listens nowhere.
func newServer(log Log, o Options) *Server {
	s := &Server{
		options: o, log: log, local: &Local{Log: log, runners: o.Runners}, admin: rand.Text(),
		ending: make(chan struct{}), started: time.Now(),
	}
	for _, r := range o.Runners {
		s.local.reads = append(append(s.local.reads, r.Reads()...), r.SinkReads()...)
	}
	s.backlogs = newBacklogs(o.Runners, o.Logger)
	s.lag = &lagWatch{local: s.local, runners: o.Runners, backlogs: s.backlogs, logger: o.Logger, warned: map[string]bool{}}
	mux := http.NewServeMux()
	s.http = server.New(server.Options{Name: "admin", Handler: mux, Class: s.class(), Connections: o.Connections, Memory: o.Memory, Plain2: len(o.Mounts) > 0, Logger: o.Logger})
	s.route(mux)
	return s
}

// Address returns the host:port that is listened on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Admin returns what the command line needs to reach the server.
func (s *Server) Admin() Admin { return newAdmin(s.Address(), s.admin) }

// Ready makes /readyz say whether the process does its work. It says no besides
// while a pipeline is further behind than its lag.critical, or stands still for
// its dead letters.
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
	for _, why := range []string{standing(s.options.Runners), s.lag.late()} {
		if why != "" {
			return "not ready: " + why
		}
	}
	return ""
}

// class says which bound a request counts against. Appends, and requests for models,
// are data; all else is asked by operators and their tools.
func (s *Server) class() func(*http.Request) server.Class {
	mux := http.NewServeMux()
	classes := map[string]server.Class{"GET /healthz": server.Health, "GET /readyz": server.Health, "POST /v1/topics/{topic}": server.Data, "GET /v1/topics/{topic}/records": server.Stream, "/": server.Operator}
	mounted := map[string]func(*http.Request) server.Class{}
	for path, handler := range s.options.Mounts {
		classes[path] = server.Data
		if c, ok := handler.(interface {
			Class(*http.Request) server.Class
		}); ok {
			mounted[path] = c.Class
		}
	}
	for pattern := range classes {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	return func(r *http.Request) server.Class {
		_, pattern := mux.Handler(r)
		class, ok := classes[pattern]
		switch {
		case mounted[pattern] != nil:
			return mounted[pattern](r)
		case !ok:
			return server.Operator // another form of a path, which is redirected
		case class == server.Stream && !r.URL.Query().Has("follow"):
			return server.Operator
		}
		return class
	}
}

func (s *Server) route(mux *http.ServeMux) {
	health := func(wrong func() string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if why := wrong(); why != "" {
				http.Error(w, why, http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		}
	}
	mux.Handle("GET /healthz", health(func() string { return "" }))
	mux.Handle("GET /readyz", health(s.unready))

	guarded := http.NewServeMux()
	guarded.Handle("GET /metrics", s.metrics())
	guarded.Handle("POST /v1/topics/{topic}", ingest.NewHandler(s.log, s.options.Full, s.backlogs.admit))
	guarded.HandleFunc("PUT /v1/topics/{topic}", s.createTopic)
	guarded.HandleFunc("GET /v1/topics", s.topics)
	guarded.HandleFunc("GET /v1/topics/{topic}/records", s.records)
	guarded.HandleFunc("GET /v1/state/{pipeline}", s.state)
	guarded.HandleFunc("GET /v1/state/{pipeline}/{key...}", s.state)
	guarded.HandleFunc("GET /v1/lag", s.showLag)
	guarded.HandleFunc("GET /v1/lag/{pipeline}", s.showLag)
	guarded.HandleFunc("POST /v1/parked/{pipeline}", s.order)
	guarded.HandleFunc("GET /v1/dlq/{pipeline}", s.letters)
	guarded.HandleFunc("POST /v1/dlq/{pipeline}/{do}", s.change)
	guarded.HandleFunc("POST /v1/rederive", s.rederive)
	guarded.HandleFunc("GET /v1/status", s.status)
	guarded.HandleFunc("GET /v1/clients", s.clients)
	guarded.HandleFunc("GET /v1/passage", s.passage)
	guarded.HandleFunc("GET /v1/budget/{pipeline}", s.budget)
	for path, mounted := range s.options.Mounts {
		guarded.Handle(path, mounted)
	}
	guarded.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "there are POST /v1/topics/{topic}, GET /v1/topics, /v1/topics/{topic}/records, /v1/state/{pipeline}, /v1/lag/{pipeline}, /v1/dlq/{pipeline}, /v1/rederive, /v1/status, /v1/clients, /v1/passage, /v1/budget/{pipeline}, /metrics, /healthz and /readyz", "no such thing as %s %s", r.Method, r.URL.Path)
	})
	mux.Handle("/", s.guard(guarded))
}
