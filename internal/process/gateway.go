package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/reload"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// defaultFront is the address for clients if the gateway file has none.
const defaultFront = "127.0.0.1:8088"

// Gateway is the gateway of a process: the listener for clients, and the sequencer of their events.
type Gateway struct {
	file      *config.Gateway
	warnings  []string // about settings that are valid but may surprise
	key       string   // key that the pipelines of the process read the input by; "" if unknown
	log       *slog.Logger
	secret    []byte
	keys      *auth.Keyring
	addresses *limit.Limiter[netip.Prefix]
	memory    *server.Budget     // memory for the requests of the process
	fault     func(stage string) // nil except in crash tests
	ending    atomic.Bool

	// Set by listen:
	listener  net.Listener
	server    *server.Server
	gateway   *gateway.Gateway
	sequencer *sequence.Sequencer
	sequence  sequence.Metrics

	// Set by start:
	stop context.CancelFunc
	done chan struct{} // closed when err is set
	err  error
}

// NewGateway loads a gateway file, and the keys that it names. fault is as in pipeline.Options.
func NewGateway(path string, kinds lang.Kinds, logger *slog.Logger, fault func(stage string)) (*Gateway, error) {
	file, err := config.LoadGateway(path, kinds)
	if found := new(spec.Errors); errors.As(err, found) && !config.IsGateway(path) {
		return nil, failure.Usage("%s is not a gateway file: it has no `gateway: NAME`; write a pipeline file before --gateway", path)
	}
	if err != nil {
		return nil, failure.Files(err)
	}
	secret, err := file.Secret()
	if err != nil {
		return nil, err
	}
	keys, err := KeysOf(file)
	if err != nil {
		return nil, failure.Files(err)
	}
	addresses, err := limit.New[netip.Prefix](shareOf(file.Limits.Address))
	if err != nil {
		return nil, err
	}
	return &Gateway{file: file, log: logger, secret: secret, keys: keys, addresses: addresses, fault: fault}, nil
}

// OpenKeys opens a file of keys.
func OpenKeys(path string) (*auth.Keyring, error) {
	file, err := config.LoadKeys(path)
	var access *fs.PathError
	if errors.As(err, &access) {
		return nil, fmt.Errorf("%w: name one that can be read, written as docs/reference/keys-file.md says", err)
	} else if err != nil {
		return nil, err
	}
	return file.Open(auth.Options{})
}

// KeysOf opens the file of keys that a gateway file names. If the file cannot be read, the error
// has the place that names it.
func KeysOf(g *config.Gateway) (*auth.Keyring, error) {
	keys, err := OpenKeys(g.Keys)
	var within spec.Errors
	if err == nil || errors.As(err, &within) {
		return keys, err
	}
	return nil, g.Explain(&spec.Problem{Path: "keys", Message: err.Error(), Err: err})
}

func shareOf(s config.GatewayShare) limit.Options {
	return limit.Options{Open: s.Connections, Rate: float64(s.Rate), Burst: s.Burst, Keys: s.Keys}
}

// authenticator identifies the owners of tokens.
type authenticator struct{ keys *auth.Keyring }

// Verify implements gateway.Authenticator.
func (a authenticator) Verify(ctx context.Context, text string) (gateway.Identity, error) {
	who, err := a.keys.Verify(ctx, text)
	var refusal *auth.Error
	if errors.As(err, &refusal) && refusal.Reason == auth.KeysUnavailable {
		return gateway.Identity{}, fmt.Errorf("%w: %w", gateway.ErrUnavailable, err)
	}
	if err != nil {
		return gateway.Identity{}, err
	}
	return gateway.Identity{Tenant: who.Tenant, Client: who.Client, Expires: who.Expires}, nil
}

// options returns the options of the gateway and of its sequencer.
func (f *Gateway) options() (gateway.Options, sequence.Options) {
	file := f.file
	l := file.Limits
	events := sequence.Options{
		Name: file.Name, Partitions: file.Partitions, Input: file.Pipeline.Input, Metrics: &f.sequence, Logger: f.log, Fault: f.fault,
		Limits: sequence.Limits{
			Window: l.Window, IDs: l.IDs, Held: l.Held, HeldFor: l.HeldFor,
			EventBytes: max(l.Message, sequence.DefaultEventBytes), HeldBytes: max(l.Message, sequence.DefaultHeldBytes),
		},
	}
	for _, list := range []struct {
		topics []string
		kind   sequence.Kind
	}{
		{file.Pipeline.Outputs, sequence.Outputs}, {file.Pipeline.Partials, sequence.Partials},
		{file.Pipeline.DeadLetters, sequence.Letters}, {file.Pipeline.Late, sequence.Late},
	} {
		for _, topic := range list.topics {
			events.Sources = append(events.Sources, sequence.Source{Topic: topic, Kind: list.kind})
		}
	}
	return gateway.Options{
		Inbox: sequence.Inbox(file.Name), Results: sequence.Results(file.Name), CursorKey: f.secret, Epoch: uint64(file.Epoch),
		Origins: file.Origins, Connections: l.Connections, PendingLimit: l.Pending, MessageBytes: l.Message,
		Ping: file.Heartbeat.Interval, PongTimeout: file.Heartbeat.Timeout, DrainWindow: file.Drain,
		Tenants: shareOf(l.Tenant), Logger: f.log, Fault: f.fault,
	}, events
}

// listen makes the gateway on a log that has the topics of the pipeline, and listens on the
// address. Clients are served after start.
func (f *Gateway) listen(ctx context.Context, log inspect.Log) error {
	options, events := f.options()
	var err error
	if f.sequencer, err = sequence.New(log, events); err != nil {
		return failure.Files(err)
	}
	if err := f.sequencer.Grown(ctx); err != nil {
		return err
	}
	if err := f.checkTopics(ctx, log); err != nil {
		return err
	}
	if err := f.sequencer.MakeTopics(ctx); err != nil {
		return err
	}
	if f.gateway, err = gateway.New(ctx, log, authenticator{f.keys}, options); err != nil {
		return err
	}
	secure, err := reload.Certificate(f.file.Cert, f.file.Key, options.Logger)
	if err != nil {
		return f.explain("cert", err.Error(), "name the files of a certificate and of its key, PEM")
	}
	listener, err := server.Listen(cmp.Or(f.file.Listen, defaultFront))
	if err != nil {
		return f.explain("listen", fmt.Sprintf("clients cannot connect: %v", err), "write another address as listen, port 0 takes a free one")
	}
	f.listener = limit.Reserve(narrow{listener}, f.addresses)
	o := server.Options{Handler: f.handler(f.gateway.Handler()), Memory: f.memory, TLS: secure, Class: func(r *http.Request) server.Class {
		if r.URL.Path == "/readyz" {
			return server.Health
		}
		return server.Data
	}}
	f.server = f.gateway.Server(o)
	return nil
}

// writeBufferBytes limits the send buffer of the system for a connection that its client does not
// read. By default the system takes megabytes for each, which no limit of the process counts.
const writeBufferBytes = 128 << 10

// narrow is a TCP listener that limits the send buffers of its connections.
type narrow struct{ net.Listener }

// Accept implements net.Listener.
func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		_ = tcp.SetWriteBuffer(writeBufferBytes) // a closed connection reports its error at the next read
	}
	return conn, err
}

func (f *Gateway) explain(path, message, hint string) error {
	return f.file.Explain(&spec.Problem{Path: path, Message: message, Hint: hint})
}

// checkTopics returns an error if a topic of the gateway file is missing or does not fit the file.
// It also returns an error if the file omits the dead letters or the ends of a pipeline.
func (f *Gateway) checkTopics(ctx context.Context, log inspect.Log) error {
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	for path, name := range f.file.Topics() {
		if !slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == name }) {
			return f.explain(path, fmt.Sprintf("there is no topic %q", name), "start the pipeline first, which creates its topics, or name existing topics")
		}
	}
	for _, t := range topics {
		own := t.Name == sequence.Inbox(f.file.Name) || t.Name == sequence.Results(f.file.Name)
		if want := cmp.Or(f.file.Partitions, sequence.DefaultPartitions); own && t.Partitions != want {
			return f.explain("partitions", fmt.Sprintf("topic %q has %d partitions, which cannot change, not %d", t.Name, t.Partitions, want),
				fmt.Sprintf("write `partitions: %d`, or give the gateway another name, so that it starts with new topics", t.Partitions))
		}
		switch {
		case t.Name != f.file.Pipeline.Input:
		case t.Key == "":
			return f.explain("pipeline.input", fmt.Sprintf("no pipeline has read topic %q yet, so its key is unknown", t.Name), "start the pipeline first")
		case f.key != "" && t.Key != f.key:
			return f.explain("pipeline.input", fmt.Sprintf("topic %q is keyed by %q, which cannot change, but a pipeline reads it by %q: events of clients would be dead letters", t.Name, t.Key, f.key),
				copyBy(f.key)+" of the pipeline, or have it and the gateway name another topic")
		}
	}
	var unread spec.Problems
	for _, e := range newAnswering(f.file, nil).unread(topics) {
		if f.file.Pipeline.Unreplied == "expire" {
			f.log.Warn("gateway: "+e.Message, "gateway", f.file.Name)
			continue
		}
		unread = append(unread, e)
	}
	if unread != nil {
		return failure.Files(f.file.Explain(unread))
	}
	return nil
}

// handler serves clients, and tells load balancers whether this gateway takes more clients.
func (f *Gateway) handler(clients http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/readyz" || r.Method != http.MethodGet && r.Method != http.MethodHead:
			clients.ServeHTTP(w, r)
		case f.ending.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "ending\n")
		default:
			_, _ = io.WriteString(w, "ok\n")
		}
	})
}

// File returns the gateway file.
func (f *Gateway) File() *config.Gateway { return f.file }

// Warnings returns warnings about settings that are valid but may surprise.
func (f *Gateway) Warnings() []string { return f.warnings }

// Address returns the address for clients, or "" before there is a listener.
func (f *Gateway) Address() string {
	if f.listener == nil {
		return ""
	}
	if f.file.Cert != "" {
		return "wss://" + f.listener.Addr().String()
	}
	return "ws://" + f.listener.Addr().String()
}

// shown returns the gateway as the HTTP server shows it, or nil if f is nil.
func (f *Gateway) shown() *admin.Gateway {
	if f == nil {
		return nil
	}
	return &admin.Gateway{Name: f.file.Name, Topics: slices.Collect(maps.Values(maps.Collect(f.file.Topics()))), Server: f.gateway, HTTP: f.server, Sequence: &f.sequence, Addresses: f.addresses.Stats, Tokens: f.keys.Stats, Ended: f.ended}
}

// ended returns the error of a gateway that ended alone, or nil while it runs. It may be called
// after start or fail.
func (f *Gateway) ended() error {
	select {
	case <-f.done:
		if pipeline.Outgrown(f.err) {
			return f.err
		}
	default:
	}
	return nil
}

// fail replaces start for a gateway that cannot be served: the gateway has ended with why.
func (f *Gateway) fail(why error) {
	f.done, f.stop, f.err = make(chan struct{}), func() {}, why
	close(f.done)
}

// start serves clients until ctx is done, and then disconnects them.
func (f *Gateway) start(ctx context.Context) {
	ctx, f.stop = context.WithCancel(ctx)
	f.done = make(chan struct{})
	go func() { // wait waits for this goroutine
		defer close(f.done)
		f.err = f.run(ctx)
	}()
}

// wait ends the gateway and returns its error. It may be called before start.
func (f *Gateway) wait() error {
	switch {
	case f.done != nil:
		f.stop()
		<-f.done
		return f.err
	case f.listener != nil:
		return f.listener.Close()
	}
	return nil
}

// run serves clients until ctx is done. It still sends results while it disconnects clients, so
// that waiting clients may get theirs.
func (f *Gateway) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	group.Go(func() error { return f.sequencer.Run(working) })
	group.Go(func() error {
		if err := f.server.Serve(f.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve clients: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		f.ending.Store(true)
		f.log.Info("gateway: clients are disconnected", "gateway", f.file.Name, "connections", f.gateway.Metrics().Connections.Load())
		return nil
	})
	group.Go(func() error {
		defer stopWorking()
		err := f.gateway.Run(ctx)
		// Requests that remain after the clients are gone are cut after 10 s. That is not an error
		// of the process.
		_ = f.server.Shutdown(ctx)
		return err
	})
	return group.Wait()
}
