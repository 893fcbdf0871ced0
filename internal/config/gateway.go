package config

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/spec"
)

// Gateway is a gateway file: the address for clients, and the pipeline that they connect to.
type Gateway struct {
	Name          string          // also the name of its topics `<name>.inbox` and `<name>.results` and of its groups
	Listen        string          // host:port for clients; "" is 127.0.0.1:8088
	Cert          string          // file with the TLS certificate, PEM
	Key           string          // file with the certificate's key, PEM
	Pipeline      GatewayPipeline // input topic of the clients' events, and topics of their results
	Engine        lang.Engine     // the log that `afterbay gateway` works on; `afterbay run --gateway` has that of the pipeline
	Keys          string          // the key file, which defines the accepted tokens
	CursorKey     string          // signs the resume positions of clients: at least 32 bytes, the same for all gateways with the name
	CursorKeyFile string          // a file that contains only this secret; surrounding space is ignored
	Origins       []string        // origins of pages that may connect; "*" stands for any
	Partitions    int32           // partitions of inbox and results, which never change; 0 is 8
	Epoch         int             // epoch of the log: change it after the log lost records, so that clients learn of a gap; 0 is 0
	Limits        GatewayLimits   // limits for clients
	Heartbeat     GatewayHeartbeat
	Drain         time.Duration // time over which clients are disconnected when the process ends; 0 is 30 s

	source *spec.Source
	places map[string]spec.Place
}

// GatewayPipeline holds the topics of a pipeline, or of a chain of pipelines.
type GatewayPipeline struct {
	Input       string   // the topic that the pipeline reads
	Outputs     []string // topics with results: the first record for an event ends it as ok
	Partials    []string // topics with partial results, which precede the result
	DeadLetters []string // topics with dead letters: they end an event as dead_lettered
	Late        []string // topics with late events: they end as rejected
	Unreplied   string   // expire: events without a reply end as expired after limits.window
}

// GatewayLimits are the limits for clients.
type GatewayLimits struct {
	Connections int           // open connections; 0 is 10,000
	Pending     int           // events of a connection that wait for their result; 0 is 50
	Message     int           // bytes in a message; 0 is 64 KiB
	Address     GatewayShare  // limits for one address, or one /64 of IPv6: 256 connections, 20 new ones a second, 100 at once after a pause
	Tenant      GatewayShare  // limits for one tenant: 10,000 connections, 10,000 connections and events a second, 20,000 at once after a pause
	Held        int           // events of a client that wait for one with a smaller sequence number; 0 is 32
	HeldFor     time.Duration // how long these events wait; 0 is 30 s
	Window      time.Duration // how long ids of events are remembered; an event without an outcome then ends as expired; 0 is 24 h
	IDs         int           // ids that a partition remembers, the newest; 0 is 1,000,000
}

// GatewayShare is what one of many may take.
type GatewayShare struct {
	Connections int // open connections
	Rate        int // events or connections a second
	Burst       int // events or connections at once after a pause
	Keys        int // remembered addresses or tenants; 0 is 65,536
}

// GatewayHeartbeat says how to detect clients that are gone.
type GatewayHeartbeat struct {
	Interval time.Duration // time between pings; 0 is 15 s
	Timeout  time.Duration // how long a client may take to answer a ping; 0 is 10 s
}

var readTopics = spec.ListOf(spec.TextOf("a topic"))

var gatewayFields = []spec.Field[Gateway]{
	{Name: "gateway", Required: true, Form: spec.Into(func(g *Gateway) *string { return &g.Name }, spec.ReadName), Example: "chat"},
	{Name: "listen", Form: spec.Into(func(g *Gateway) *string { return &g.Listen }, spec.TextOf("host:port")), Example: "0.0.0.0:8088"},
	{Name: "cert", Form: spec.Into(func(g *Gateway) *string { return &g.Cert }, spec.ReadPath), Example: "chat.pem", Absent: "no TLS: a proxy in front of the gateway may add it"},
	{Name: "key", Form: spec.Into(func(g *Gateway) *string { return &g.Key }, spec.ReadPath), Example: "chat.key", Absent: "required with `cert`"},
	{Name: "pipeline", Required: true, Form: spec.Into(func(g *Gateway) *GatewayPipeline { return &g.Pipeline }, spec.MappingOf(gatewayPipelineFields)),
		Example: "{input: messages, outputs: [decisions], dead_letters: [moderation.dlq]}"},
	{Name: "engine", // fieldsOfGateway sets its form, which depends on the kinds of logs
		Example: "kafka://broker-1:9092", Absent: "that of `--engine` or `AFTERBAY_ENGINE`",
		Help: "kafka://HOST:PORT[,HOST:PORT...], kafka+tls:// for an encrypted connection, or embedded, the log of a data directory"},
	{Name: "keys", Required: true, Form: spec.Into(func(g *Gateway) *string { return &g.Keys }, spec.ReadPath), Example: "keys.yaml"},
	{Name: "cursor_key", Required: true, Or: "cursor_key_file", Form: spec.Into(func(g *Gateway) *string { return &g.CursorKey }, spec.Secret("cursor_key_file")), Example: "${CURSOR_KEY}"},
	{Name: "cursor_key_file", Form: spec.Into(func(g *Gateway) *string { return &g.CursorKeyFile }, spec.ReadPath), Example: "/run/secrets/cursors", Absent: "`cursor_key`"},
	{Name: "origins", Form: spec.Into(func(g *Gateway) *[]string { return &g.Origins }, spec.ListOf(spec.TextOf("an origin such as https://example.org"))), Example: "['https://chat.example.org']", Absent: "no page may connect, only clients outside browsers"},
	{Name: "partitions", Form: spec.Into(func(g *Gateway) *int32 { return &g.Partitions }, spec.Whole[int32](1, 1024)), Example: "32"},
	{Name: "epoch", Form: spec.Into(func(g *Gateway) *int { return &g.Epoch }, spec.Whole[int](0, 1_000_000_000)), Example: "1"},
	{Name: "limits", Form: spec.Into(func(g *Gateway) *GatewayLimits { return &g.Limits }, spec.MappingOf(gatewayLimitsFields)), Example: "{pending: 20, message: 16KiB}", Absent: "as below"},
	{Name: "heartbeat", Form: spec.Into(func(g *Gateway) *GatewayHeartbeat { return &g.Heartbeat }, spec.MappingOf(gatewayHeartbeatFields)), Example: "{interval: 30s, timeout: 10s}", Absent: "as below"},
	{Name: "drain", Form: spec.Into(func(g *Gateway) *time.Duration { return &g.Drain }, spec.Span(time.Millisecond, time.Hour)), Example: "10s"},
}

// fieldsOfGateway returns the fields of a gateway. Its engine may be of any of the kinds.
func fieldsOfGateway(kinds Kinds) []spec.Field[Gateway] {
	fields := slices.Clone(gatewayFields)
	engine := slices.IndexFunc(fields, func(f spec.Field[Gateway]) bool { return f.Name == "engine" })
	fields[engine].Form = spec.Into(func(g *Gateway) *lang.Engine { return &g.Engine }, kinds.EngineForm())
	return fields
}

var gatewayPipelineFields = []spec.Field[GatewayPipeline]{
	{Name: "input", Required: true, Form: spec.Into(func(p *GatewayPipeline) *string { return &p.Input }, spec.TextOf("a topic")), Example: "messages"},
	{Name: "outputs", Required: true, Form: spec.Into(func(p *GatewayPipeline) *[]string { return &p.Outputs }, readTopics), Example: "[decisions]"},
	{Name: "partials", Form: spec.Into(func(p *GatewayPipeline) *[]string { return &p.Partials }, readTopics), Example: "[tokens]", Absent: "none"},
	{Name: "dead_letters", Form: spec.Into(func(p *GatewayPipeline) *[]string { return &p.DeadLetters }, readTopics), Example: "[moderation.dlq]", Absent: "none: an event that became a dead letter ends as expired"},
	{Name: "late", Form: spec.Into(func(p *GatewayPipeline) *[]string { return &p.Late }, readTopics), Example: "[late-messages]", Absent: "none"},
	{Name: "unreplied", Form: spec.Into(func(p *GatewayPipeline) *string { return &p.Unreplied }, spec.Choice[string]("expire")), Example: "expire", Absent: "a gateway does not start if it finds such an event"},
}

var gatewayLimitsFields = []spec.Field[GatewayLimits]{
	{Name: "connections", Form: spec.Into(func(l *GatewayLimits) *int { return &l.Connections }, spec.Whole[int](1, 1_000_000)), Example: "50000"},
	{Name: "pending", Form: spec.Into(func(l *GatewayLimits) *int { return &l.Pending }, spec.Whole[int](1, 10_000)), Example: "20"},
	{Name: "message", Form: spec.Into(func(l *GatewayLimits) *int { return &l.Message }, spec.Size(1<<10, 1<<20)), Example: "16KiB"},
	{Name: "address", Form: spec.Into(func(l *GatewayLimits) *GatewayShare { return &l.Address }, spec.MappingOf(gatewayShareFields)), Example: "{connections: 5000, rate: 1000, burst: 5000}", Absent: "as its meaning says"},
	{Name: "tenant", Form: spec.Into(func(l *GatewayLimits) *GatewayShare { return &l.Tenant }, spec.MappingOf(gatewayShareFields)), Example: "{connections: 500, rate: 200, burst: 1000}", Absent: "as its meaning says"},
	{Name: "held", Form: spec.Into(func(l *GatewayLimits) *int { return &l.Held }, spec.Whole[int](1, 10_000)), Example: "8"},
	{Name: "held_for", Form: spec.Into(func(l *GatewayLimits) *time.Duration { return &l.HeldFor }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "window", Form: spec.Into(func(l *GatewayLimits) *time.Duration { return &l.Window }, spec.Span(time.Second, 30*spec.Day)), Example: "1h"},
	{Name: "ids", Form: spec.Into(func(l *GatewayLimits) *int { return &l.IDs }, spec.Whole[int](10_000, 40_000_000)), Example: "200000"},
}

var gatewayShareFields = []spec.Field[GatewayShare]{
	{Name: "connections", Form: spec.Into(func(s *GatewayShare) *int { return &s.Connections }, spec.Whole[int](1, 1_000_000)), Example: "500", Absent: "as said above"},
	{Name: "rate", Form: spec.Into(func(s *GatewayShare) *int { return &s.Rate }, spec.Whole[int](1, 1_000_000)), Example: "200", Absent: "as said above"},
	{Name: "burst", Form: spec.Into(func(s *GatewayShare) *int { return &s.Burst }, spec.Whole[int](1, 1_000_000)), Example: "1000", Absent: "as said above"},
	{Name: "keys", Form: spec.Into(func(s *GatewayShare) *int { return &s.Keys }, spec.Whole[int](1, 10_000_000)), Example: "10000"},
}

var gatewayHeartbeatFields = []spec.Field[GatewayHeartbeat]{
	{Name: "interval", Form: spec.Into(func(h *GatewayHeartbeat) *time.Duration { return &h.Interval }, spec.Span(time.Second, time.Hour)), Example: "30s"},
	{Name: "timeout", Form: spec.Into(func(h *GatewayHeartbeat) *time.Duration { return &h.Timeout }, spec.Span(time.Second, time.Hour)), Example: "5s"},
}

// IsGateway reports whether a file is a gateway file, valid or not.
func IsGateway(path string) bool { return spec.IsFile(path, &spec.GatewayFiles) }

// LoadGateway reads a gateway file of at most 1 MiB, and the environment variables that its values
// name. Paths in the file are relative to its folder; in the result they are joined with it. If the
// file was read but is invalid, the error is of type Errors.
func LoadGateway(path string, kinds Kinds) (*Gateway, error) {
	g, err := LoadGatewayPartly(path, kinds)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// LoadGatewayPartly is LoadGateway, but with an error of type Errors it also returns the
// valid parts of the file, if any.
func LoadGatewayPartly(path string, kinds Kinds) (*Gateway, error) {
	data, err := spec.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read gateway: %w: name a gateway file that can be read", err)
	}
	return parseGateway(path, data, os.LookupEnv, kinds, filepath.Dir(path))
}

// parseGateway reads the text of a gateway file. It joins relative paths with folder, unless folder
// is empty.
func parseGateway(filename string, data []byte, lookup spec.Lookup, kinds Kinds, folder string) (*Gateway, error) {
	g := &Gateway{}
	r, _, err := spec.ReadOneIn(folder, &spec.GatewayFiles, filename, data, lookup, fieldsOfGateway(kinds), g)
	if err != nil {
		return nil, err
	}
	g.source, g.places = r.Source, r.Places
	g.check(r)
	return g, r.Errors.Sorted()
}

var aGatewayName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// check reports errors that involve several fields.
func (g *Gateway) check(r *spec.Reader) {
	at := func(path string) int { return r.Places[path].Offset }
	if g.Name != "" && !aGatewayName.MatchString(g.Name) {
		r.Fail(at("gateway"), "gateway", spec.Shorten(g.Name)+" cannot begin the names of topics", "use 1 to 100 of the characters A-Z a-z 0-9 _ -")
	}
	if _, _, err := net.SplitHostPort(g.Listen); g.Listen != "" && err != nil {
		r.Fail(at("listen"), "listen", spec.Shorten(g.Listen)+" is not a host:port", "write 127.0.0.1:8088, or 0.0.0.0:8088 for clients of other machines")
	}
	for i, origin := range g.Origins {
		if path := fmt.Sprintf("origins[%d]", i); origin != "" && origin != "*" && origin != originOf(origin) {
			r.Fail(at(path), path, spec.Shorten(origin)+" is not an origin: no browser sends it", "write it as browsers do, https://example.org or http://localhost:3000, without a path and without the scheme's own port")
		}
	}
	if g.Cert == "" && g.Key != "" {
		r.Fail(at("key"), "key", "a key without its certificate", "name the file of the certificate with `cert`")
	}
	if g.Cert != "" && g.Key == "" {
		r.Fail(at("cert"), "cert", "a certificate without its key", "name the file of the key with `key`")
	}
	seen := map[string]string{sequence.Inbox(g.Name): "the gateway itself", sequence.Results(g.Name): "the gateway itself"}
	if in := g.Pipeline.Input; naming.Reserved(g.Name, in) && seen[in] == "" { // the gateway writes this topic
		r.Fail(at("pipeline.input"), "pipeline.input", "topic "+spec.Shorten(in)+" has a name that is reserved for topics of the engine", "use another name, such as "+naming.Instead(in))
	}
	for path, topic := range g.Topics() {
		if before, twice := seen[topic]; twice && topic != "" {
			r.Fail(at(path), path, "topic "+spec.Shorten(topic)+" is that of "+before, "name each topic once, and none that the gateway writes")
			continue
		}
		seen[topic] = "`" + path + "`"
	}
	_, written := r.Places["limits.held_for"]
	switch l := g.Limits; {
	case l.Window == 0, l.HeldFor == 0 && written: // not written, or an error was reported
	case cmp.Or(l.HeldFor, sequence.DefaultHeldFor) < l.Window:
	case l.HeldFor == 0:
		r.Fail(at("limits.window"), "limits.window", fmt.Sprintf("events would be held for %v, which is longer than the window of their ids", sequence.DefaultHeldFor), "write `held_for`, less than the `window`, or a longer one")
	default:
		r.Fail(at("limits.held_for"), "limits.held_for", "events would be held for longer than the window of their ids", "write less than the `window`")
	}
}

// originOf returns the origin of an address as browsers write it (RFC 6454), or "" if it has none.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host
}

// Topics yields the paths and names of the topics of the pipeline.
func (g *Gateway) Topics() iter.Seq2[string, string] {
	return func(yield func(path, topic string) bool) {
		p := &g.Pipeline
		if !yield("pipeline.input", p.Input) {
			return
		}
		for _, list := range []struct {
			word   string
			topics []string
		}{{"outputs", p.Outputs}, {"partials", p.Partials}, {"dead_letters", p.DeadLetters}, {"late", p.Late}} {
			for i, topic := range list.topics {
				if !yield(fmt.Sprintf("pipeline.%s[%d]", list.word, i), topic) {
					return
				}
			}
		}
	}
}

const cursorKeyLeast = 32

// Secret returns the key that signs cursors. An error is Errors with a position in the file. It
// shows no part of the key.
func (g *Gateway) Secret() ([]byte, error) {
	path, key := "cursor_key", g.CursorKey
	if g.CursorKeyFile != "" {
		path = "cursor_key_file"
		data, err := os.ReadFile(g.CursorKeyFile)
		if err != nil {
			return nil, g.Explain(&spec.Problem{Path: path, Message: err.Error(), Hint: "write a file of the secret alone: openssl rand -hex 32", Err: err})
		}
		key = strings.TrimSpace(string(data))
	}
	if len(key) < cursorKeyLeast {
		return nil, g.Explain(&spec.Problem{Path: path, Message: fmt.Sprintf("the secret has %d bytes, fewer than %d: it could be guessed", len(key), cursorKeyLeast), Hint: "make one by openssl rand -hex 32"})
	}
	return []byte(key), nil
}

// Explain converts errors about fields of the file into Errors with positions. It returns any other
// error unchanged.
func (g *Gateway) Explain(err error) error {
	var found spec.Problems
	var single *spec.Problem
	switch {
	case errors.As(err, &found):
	case errors.As(err, &single):
		found = spec.Problems{single}
	default:
		return err
	}
	var explained spec.Errors
	for _, e := range found {
		explained = append(explained, g.source.Explain(g.places, e))
	}
	return explained.Sorted()
}
