package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/reload"
	"github.com/afterbay/afterbay/internal/http/server"
)

// DefaultAddress is the default listen address of a server.
const DefaultAddress = "127.0.0.1:8080"

// ServerOptions configures a Server. The zero value listens only on this machine.
type ServerOptions struct {
	Options
	StreamsMax  int // concurrent streams; more get status 429. 0 is 256
	RequestsMax int // other concurrent requests. 0 is 256

	Address  string       // host:port; "" is DefaultAddress, port 0 picks one
	Token    string       // required on every request except health, has the role admin; "" if none
	Insecure bool         // listen on other addresses without a token
	CertFile string       // PEM certificate for TLS, with KeyFile; read again when it changes. "" means no TLS
	KeyFile  string       // PEM
	Logger   *slog.Logger // nil discards

	// Tokens provides the tokens of a token file, with their roles; nil if none.
	Tokens access.Tokens

	// Connections is the maximum number of open connections. 0 is 1,024, or a quarter of the files
	// that the process may open if that is less.
	Connections int

	// Memory limits the memory of requests of the process; nil is a budget of the server's own.
	Memory *server.Budget
}

// Validate returns an error if the options are invalid.
func (o ServerOptions) Validate() error {
	errs := []error{o.Options.Validate()}
	if o.StreamsMax < 0 || o.RequestsMax < 0 {
		errs = append(errs, fmt.Errorf("StreamsMax is %d, RequestsMax %d: use a number above 0, or 0 for the default", o.StreamsMax, o.RequestsMax))
	}
	host, _, err := net.SplitHostPort(o.address())
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("address %q: %w: use host:port, such as %s", o.Address, err, DefaultAddress))
	case !access.Loopback(host) && o.Token == "" && o.Tokens == nil && !o.Insecure:
		errs = append(errs, fmt.Errorf("address %q can be reached from other machines: any client could send requests without a token. Set a token (--token-file, --token or AFTERBAY_TOKEN), listen on 127.0.0.1, or say --insecure", o.Address))
	}
	return errors.Join(append(errs, reload.CheckFiles(o.CertFile, o.KeyFile))...)
}

func (o ServerOptions) address() string {
	if o.Address == "" {
		return DefaultAddress
	}
	return o.Address
}

// Server serves models at an address, over HTTP/1.1 and HTTP/2, with or without TLS; gRPC clients
// can use both. Create one with Listen.
type Server struct {
	options  ServerOptions
	listener net.Listener
	http     *server.Server
	end      context.CancelFunc // ends streams
}

// Listen opens the address; Run serves it.
func Listen(models []Named, o ServerOptions) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	handler, err := New(ctx, models, o.Options)
	if err != nil {
		end()
		return nil, err
	}
	s := &Server{options: o, end: end}
	secure, err := reload.Certificate(o.CertFile, o.KeyFile, o.Logger)
	if err != nil {
		err = fmt.Errorf("load the certificate of TLS: %w: name two files in PEM that belong together", err)
	} else {
		s.listener, err = server.Listen(o.address())
	}
	if err != nil {
		end()
		return nil, err
	}
	var mux *access.Mux
	s.http = server.New(server.Options{
		Name: "scoring", Handler: correlated(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) }), Class: func(r *http.Request) server.Class { return mux.Class(r) }, Refuse: handler.refuseAs,
		Requests: o.RequestsMax, Streams: o.StreamsMax, Connections: o.Connections, Memory: o.Memory, Plain2: true, TLS: secure, Logger: o.Logger,
	})
	mux = access.NewMux(&access.Gate{Token: o.Token, Tokens: o.Tokens, Insecure: o.Insecure}, handler.refuseAs, s.endpoints(handler, o.Tokens)...)
	return s, nil
}

// Address returns the listen address as host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// URL returns the base URL of the server.
func (s *Server) URL() string {
	if s.options.CertFile != "" { // net/http sets TLSConfig on every running server, so it says nothing here
		return "https://" + s.Address()
	}
	return "http://" + s.Address()
}

// Run serves until ctx is done. Then streams end with a last line that says so, and Run waits at
// most 10 s for other requests.
func (s *Server) Run(ctx context.Context) error {
	return s.http.Run(ctx, s.listener, s.end)
}

// endpoints returns the endpoints of the handler, health and metrics.
func (s *Server) endpoints(handler *Handler, tokens access.Tokens) []access.Endpoint {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), server.NewCollector(s.http))
	registry.MustRegister(handler.Collectors()...)
	if tokens != nil {
		registry.MustRegister(access.NewTokensCollector(tokens))
	}
	return append(handler.Endpoints(),
		access.Endpoint{Method: http.MethodGet, Pattern: "/metrics", Role: access.Metrics, Class: server.Operator, Summary: "Metrics, as Prometheus reads them.", Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP},
		access.Endpoint{Method: http.MethodGet, Pattern: "/healthz", Role: access.Public, Class: server.Health, Summary: "Say that the process answers.", Handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok\n")) // an error means that the client has disconnected
		}})
}
