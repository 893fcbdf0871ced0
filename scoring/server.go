package scoring

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
)

// DefaultAddress is where a server listens when nothing else is said.
const DefaultAddress = "127.0.0.1:8080"

// ServerOptions of a Server. The zero value listens for this machine alone.
type ServerOptions struct {
	Options
	StreamsMax  int // streams at once; more are refused with 429. 0 is 256
	RequestsMax int // other requests at once. 0 is 256

	Address  string       // host:port; "" is DefaultAddress, port 0 picks one
	Token    string       // that every request but health has to bring; "" is none
	Insecure bool         // listen beyond this machine without a token
	CertFile string       // PEM of TLS, with KeyFile; "" is no TLS
	KeyFile  string       // PEM
	Logger   *slog.Logger // nil discards

	// Connections may be open at once; 0 is 1,024, or a quarter of the files that the
	// process may open where that is less.
	Connections int

	// Memory bounds what requests of the process need; nil is a budget of the server's
	// own.
	Memory *server.Budget
}

// Validate returns why a server cannot have these options.
func (o ServerOptions) Validate() error {
	errs := []error{o.Options.Validate()}
	if o.StreamsMax < 0 || o.RequestsMax < 0 {
		errs = append(errs, fmt.Errorf("StreamsMax is %d, RequestsMax %d: use a number above 0, or 0 for the default", o.StreamsMax, o.RequestsMax))
	}
	host, _, err := net.SplitHostPort(o.address())
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("address %q: %w: use host:port, such as %s", o.Address, err, DefaultAddress))
	case !access.Loopback(host) && o.Token == "" && !o.Insecure:
		errs = append(errs, fmt.Errorf("address %q can be reached from other machines, and without a token anybody there could ask: set a token (--token or AFTERBAY_TOKEN), listen on 127.0.0.1, or say --insecure", o.Address))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("TLS needs a certificate and a key: give both files"))
	}
	return errors.Join(errs...)
}

func (o ServerOptions) address() string {
	if o.Address == "" {
		return DefaultAddress
	}
	return o.Address
}

// Server answers for models at an address, by HTTP/1.1 and HTTP/2: with TLS or,
// for clients of gRPC too, without. Make one with Listen.
type Server struct {
	options  ServerOptions
	listener net.Listener
	http     *server.Server
	end      context.CancelFunc // of streams
}

// Listen takes the address; Run serves it.
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
	mux := http.NewServeMux()
	all := server.Options{Name: "scoring", Handler: s.guard(handler, mux), Class: handler.Class, Refuse: handler.refuseAs, Requests: o.RequestsMax, Streams: o.StreamsMax, Connections: o.Connections, Memory: o.Memory, Plain2: true, Logger: o.Logger}
	if o.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			end()
			return nil, fmt.Errorf("load the certificate of TLS: %w", err)
		}
		all.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	if s.listener, err = server.Listen(o.address()); err != nil {
		end()
		return nil, err
	}
	s.http = server.New(all)
	s.route(handler, mux)
	return s, nil
}

// Address returns the host:port that is listened on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// URL returns where the server can be asked.
func (s *Server) URL() string {
	if s.options.CertFile != "" { // net/http gives every server a TLSConfig once it runs
		return "https://" + s.Address()
	}
	return "http://" + s.Address()
}

// Run serves until ctx is done. Then streams end with a last line that says so, and
// other requests are waited for, at most 10 s.
func (s *Server) Run(ctx context.Context) error {
	return s.http.Run(ctx, s.listener, s.end)
}

// route makes the paths of the server: those of the handler, health and metrics.
func (s *Server) route(handler *Handler, mux *http.ServeMux) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), handler, server.Collector{s.http})
	mux.Handle("/", handler)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n")) // the error of a client that is gone has no reader
	})
}

// guard lets requests in that bring the token, and where there is none those that
// no web page can have sent: a page may be able to reach this machine's loopback by
// a name of its own, or by a form. Health is for everybody.
func (s *Server) guard(next *Handler, mux http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := access.Token(r)
		switch o := &s.options; {
		case r.URL.Path == "/healthz", strings.HasPrefix(r.URL.Path, "/v2/health/"):
		case o.Token != "" && !access.Equal(given, o.Token):
			w.Header().Set("WWW-Authenticate", `Bearer realm="afterbay"`)
			next.refusal(r, http.StatusUnauthorized, "unauthorized", "the token is missing or wrong: send Authorization: Bearer with the token that the process was started with").write(w)
			return
		case o.Token == "" && !o.Insecure && !access.Loopback(access.HostOf(r)):
			next.refusal(r, http.StatusForbidden, "forbidden", "requests for host %q are not taken: use 127.0.0.1 or localhost, or give the process a token", r.Host).write(w)
			return
		case o.Token == "" && origin.Check(r) != nil:
			next.refusal(r, http.StatusForbidden, "forbidden", "requests of other web pages are not taken: give the process a token and send it").write(w)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
