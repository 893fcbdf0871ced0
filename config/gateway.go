package config

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/gateway/sequence"
)

// Gateway is a gateway file: where clients connect, and to which pipeline.
type Gateway struct {
	Name          string          // also that of its topics `<name>.inbox` and `<name>.results` and of its groups
	Listen        string          // host:port for clients; "" is 127.0.0.1:8088
	Cert          string          // a file of the certificate of TLS, PEM
	Key           string          // a file of its key, PEM
	Pipeline      GatewayPipeline // what the clients' events go to, and what comes of them
	Engine        afterbay.Engine // the log that `afterbay gateway` works on; `afterbay run --gateway` has that of the pipeline
	Keys          string          // the file of keys, which says whose tokens are taken
	CursorKey     string          // signs the positions that clients come back with: at least 32 bytes, the same for all gateways of the name
	CursorKeyFile string          // a file of that secret alone; space around it is no part of it
	Origins       []string        // of pages that may connect; "*" is any
	Partitions    int32           // of inbox and results, for ever; 0 is 8
	Epoch         int             // of the log: write another number after records of it were lost, so that clients hear of a gap; 0 is 0
	Limits        GatewayLimits   // bounds what clients may take
	Heartbeat     GatewayHeartbeat
	Drain         time.Duration // the time over which clients are sent away when the process ends; 0 is 30 s

	source *source
	places map[string]place
}

// GatewayPipeline is the topics of a pipeline, or of several in a row.
type GatewayPipeline struct {
	Input       string   // the topic that it reads
	Outputs     []string // topics whose records are results of their event: the first of an event ends it as ok
	Partials    []string // topics of parts of results, which come before
	DeadLetters []string // topics of dead letters: they end an event as dead_lettered
	Late        []string // topics of late events: they end as rejected
	Unanswered  string   // expire: events that nothing answers end when limits.window has passed, as expired
}

// GatewayLimits is what clients may take.
type GatewayLimits struct {
	Connections int           // open at a time; 0 is 10,000
	Pending     int           // events of a connection that wait for their result; 0 is 50
	Message     int           // bytes of a message; 0 is 64 KiB
	Address     GatewayShare  // what one address may take, of IPv6 one /64: 256 connections, 20 new ones a second, 100 at once after a pause
	Tenant      GatewayShare  // what one tenant may take: 10,000 connections, 10,000 connections and events a second, 20,000 at once after a pause
	Held        int           // events of a client that wait for one with a smaller sequence number; 0 is 32
	HeldFor     time.Duration // how long they wait; 0 is 30 s
	Window      time.Duration // how long ids of events are remembered; an event without an outcome ends then, as expired; 0 is 24 h
	IDs         int           // how many ids a partition remembers, the newest; 0 is 1,000,000
}

// GatewayShare is what one of many may take.
type GatewayShare struct {
	Connections int // open at a time
	Rate        int // a second
	Burst       int // at once after a pause
	Keys        int // addresses or tenants that are remembered; 0 is 65,536
}

// GatewayHeartbeat is how clients that are gone are noticed.
type GatewayHeartbeat struct {
	Every   time.Duration // between pings; 0 is 15 s
	Timeout time.Duration // how long a client may leave one unanswered; 0 is 10 s
}

var readTopics = listOf(textOf("a topic"))

var gatewayWords = []word[Gateway]{
	{name: "gateway", required: true, form: field(func(g *Gateway) *string { return &g.Name }, readName), example: "chat"},
	{name: "listen", form: field(func(g *Gateway) *string { return &g.Listen }, textOf("host:port")), example: "0.0.0.0:8088"},
	{name: "cert", form: field(func(g *Gateway) *string { return &g.Cert }, readPath), example: "chat.pem", absent: "no TLS: what is in front of the gateway has it"},
	{name: "key", form: field(func(g *Gateway) *string { return &g.Key }, readPath), example: "chat.key", absent: "required with `cert`"},
	{name: "pipeline", required: true, form: field(func(g *Gateway) *GatewayPipeline { return &g.Pipeline }, words(gatewayPipelineWords)),
		example: "{input: messages, outputs: [decisions], dead_letters: [dlq.moderation]}"},
	{name: "engine", form: field(func(g *Gateway) *afterbay.Engine { return &g.Engine }, readEngine), example: "kafka://broker-1:9092", absent: "that of `--engine` or `AFTERBAY_ENGINE`"},
	{name: "keys", required: true, form: field(func(g *Gateway) *string { return &g.Keys }, readPath), example: "keys.yaml"},
	{name: "cursor_key", required: true, or: "cursor_key_file", form: field(func(g *Gateway) *string { return &g.CursorKey }, secret("cursor_key_file")), example: "${CURSOR_KEY}"},
	{name: "cursor_key_file", form: field(func(g *Gateway) *string { return &g.CursorKeyFile }, readPath), example: "/run/secrets/cursors", absent: "`cursor_key`"},
	{name: "origins", form: field(func(g *Gateway) *[]string { return &g.Origins }, listOf(textOf("an origin such as https://example.org"))), example: "['https://chat.example.org']", absent: "no page may: only clients that are none"},
	{name: "partitions", form: field(func(g *Gateway) *int32 { return &g.Partitions }, whole[int32](1, 1024)), example: "32"},
	{name: "epoch", form: field(func(g *Gateway) *int { return &g.Epoch }, whole[int](0, 1_000_000_000)), example: "1"},
	{name: "limits", form: field(func(g *Gateway) *GatewayLimits { return &g.Limits }, words(gatewayLimitsWords)), example: "{pending: 20, message: 16KiB}", absent: "as below"},
	{name: "heartbeat", form: field(func(g *Gateway) *GatewayHeartbeat { return &g.Heartbeat }, words(gatewayHeartbeatWords)), example: "{every: 30s, timeout: 10s}", absent: "as below"},
	{name: "drain", form: field(func(g *Gateway) *time.Duration { return &g.Drain }, span(time.Millisecond, time.Hour)), example: "10s"},
}

var gatewayPipelineWords = []word[GatewayPipeline]{
	{name: "input", required: true, form: field(func(p *GatewayPipeline) *string { return &p.Input }, textOf("a topic")), example: "messages"},
	{name: "outputs", required: true, form: field(func(p *GatewayPipeline) *[]string { return &p.Outputs }, readTopics), example: "[decisions]"},
	{name: "partials", form: field(func(p *GatewayPipeline) *[]string { return &p.Partials }, readTopics), example: "[tokens]", absent: "none"},
	{name: "dead_letters", form: field(func(p *GatewayPipeline) *[]string { return &p.DeadLetters }, readTopics), example: "[dlq.moderation]", absent: "none: an event that became one ends as expired"},
	{name: "late", form: field(func(p *GatewayPipeline) *[]string { return &p.Late }, readTopics), example: "[late-messages]", absent: "none"},
	{name: "unanswered", form: field(func(p *GatewayPipeline) *string { return &p.Unanswered }, choice[string]("expire")), example: "expire", absent: "a gateway does not start where it sees that there are any"},
}

var gatewayLimitsWords = []word[GatewayLimits]{
	{name: "connections", form: field(func(l *GatewayLimits) *int { return &l.Connections }, whole[int](1, 1_000_000)), example: "50000"},
	{name: "pending", form: field(func(l *GatewayLimits) *int { return &l.Pending }, whole[int](1, 10_000)), example: "20"},
	{name: "message", form: field(func(l *GatewayLimits) *int { return &l.Message }, size(1<<10, 1<<20)), example: "16KiB"},
	{name: "address", form: field(func(l *GatewayLimits) *GatewayShare { return &l.Address }, words(gatewayShareWords)), example: "{connections: 5000, rate: 1000, burst: 5000}", absent: "as its meaning says"},
	{name: "tenant", form: field(func(l *GatewayLimits) *GatewayShare { return &l.Tenant }, words(gatewayShareWords)), example: "{connections: 500, rate: 200, burst: 1000}", absent: "as its meaning says"},
	{name: "held", form: field(func(l *GatewayLimits) *int { return &l.Held }, whole[int](1, 10_000)), example: "8"},
	{name: "held_for", form: field(func(l *GatewayLimits) *time.Duration { return &l.HeldFor }, span(time.Millisecond, time.Hour)), example: "5s"},
	{name: "window", form: field(func(l *GatewayLimits) *time.Duration { return &l.Window }, span(time.Second, 30*day)), example: "1h"},
	{name: "ids", form: field(func(l *GatewayLimits) *int { return &l.IDs }, whole[int](10_000, 40_000_000)), example: "200000"},
}

var gatewayShareWords = []word[GatewayShare]{
	{name: "connections", form: field(func(s *GatewayShare) *int { return &s.Connections }, whole[int](1, 1_000_000)), example: "500", absent: "as said above"},
	{name: "rate", form: field(func(s *GatewayShare) *int { return &s.Rate }, whole[int](1, 1_000_000)), example: "200", absent: "as said above"},
	{name: "burst", form: field(func(s *GatewayShare) *int { return &s.Burst }, whole[int](1, 1_000_000)), example: "1000", absent: "as said above"},
	{name: "keys", form: field(func(s *GatewayShare) *int { return &s.Keys }, whole[int](1, 10_000_000)), example: "10000"},
}

var gatewayHeartbeatWords = []word[GatewayHeartbeat]{
	{name: "every", form: field(func(h *GatewayHeartbeat) *time.Duration { return &h.Every }, span(time.Second, time.Hour)), example: "30s"},
	{name: "timeout", form: field(func(h *GatewayHeartbeat) *time.Duration { return &h.Timeout }, span(time.Second, time.Hour)), example: "5s"},
}

// IsGateway reports whether a file is a gateway file, be it right or not.
func IsGateway(path string) bool { return isFile(path, &gatewayFiles) }

// LoadGateway reads a gateway file, of at most 1 MiB, and the environment variables
// that its values name. The paths in it are relative to its folder: in the result
// they are joined with it. An error is Errors where the file was read but is not
// right.
func LoadGateway(path string) (*Gateway, error) {
	g, err := LoadGatewayPartly(path)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// LoadGatewayPartly is LoadGateway for who wants to find all that is wrong: beside an
// error of type Errors it returns the valid parts of the file, if any.
func LoadGatewayPartly(path string) (*Gateway, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read gateway: %w: name a gateway file that can be read", err)
	}
	g, err := parseGateway(path, data, os.LookupEnv)
	if g != nil {
		e := &g.Engine
		beside(path, &g.Cert, &g.Key, &g.Keys, &g.CursorKeyFile, &e.CA, &e.Cert, &e.Key, &e.PasswordFile, &e.TokenFile)
	}
	return g, err
}

func parseGateway(filename string, data []byte, lookup Lookup) (*Gateway, error) {
	g := &Gateway{}
	r, _, err := readOne(&gatewayFiles, filename, data, lookup, gatewayWords, g)
	if err != nil {
		return nil, err
	}
	g.source, g.places = r.source, r.places
	g.check(r)
	return g, r.errors.sorted()
}

var aGatewayName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)

// check reports what no word alone shows.
func (g *Gateway) check(r *reader) {
	at := func(path string) int { return r.places[path].offset }
	if g.Name != "" && !aGatewayName.MatchString(g.Name) {
		r.fail(at("gateway"), "gateway", shorten(g.Name)+" cannot be the name of topics", "use 1 to 100 of the characters A-Z a-z 0-9 . _ -")
	}
	if _, _, err := net.SplitHostPort(g.Listen); g.Listen != "" && err != nil {
		r.fail(at("listen"), "listen", shorten(g.Listen)+" is no host:port", "write 127.0.0.1:8088, or 0.0.0.0:8088 for clients of other machines")
	}
	for i, origin := range g.Origins {
		if path := fmt.Sprintf("origins[%d]", i); origin != "" && origin != "*" && origin != originOf(origin) {
			r.fail(at(path), path, shorten(origin)+" is no origin: no browser sends it", "write it as browsers do, https://example.org or http://localhost:3000, without a path and without the scheme's own port")
		}
	}
	if g.Cert == "" && g.Key != "" {
		r.fail(at("key"), "key", "a key without its certificate", "name the file of the certificate with `cert`")
	}
	if g.Cert != "" && g.Key == "" {
		r.fail(at("cert"), "cert", "a certificate without its key", "name the file of the key with `key`")
	}
	seen := map[string]string{g.Name + ".inbox": "the gateway itself", g.Name + ".results": "the gateway itself"}
	for path, topic := range g.Topics() {
		if before, twice := seen[topic]; twice && topic != "" {
			r.fail(at(path), path, "topic "+shorten(topic)+" is that of "+before, "name each topic once, and none that the gateway writes")
			continue
		}
		seen[topic] = "`" + path + "`"
	}
	_, written := r.places["limits.held_for"]
	switch l := g.Limits; {
	case l.Window == 0, l.HeldFor == 0 && written: // left out, or what is wrong with it was said
	case cmp.Or(l.HeldFor, sequence.DefaultHeldFor) < l.Window:
	case l.HeldFor == 0:
		r.fail(at("limits.window"), "limits.window", fmt.Sprintf("events would be held for longer, %v, than they are remembered", sequence.DefaultHeldFor), "write `held_for`, less than the `window`, or a longer one")
	default:
		r.fail(at("limits.held_for"), "limits.held_for", "events would be held for longer than they are remembered", "write less than the `window`")
	}
}

// originOf returns the origin of an address as browsers write it (RFC 6454), "" where
// it has none.
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

// Topics yields the topics of the pipeline, and where the file names them.
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

// Secret returns the key that signs cursors. An error is Errors, with its place in
// the file, and shows no part of it.
func (g *Gateway) Secret() ([]byte, error) {
	path, key := "cursor_key", g.CursorKey
	if g.CursorKeyFile != "" {
		path = "cursor_key_file"
		data, err := os.ReadFile(g.CursorKeyFile)
		if err != nil {
			return nil, g.Explain(&afterbay.Error{Path: path, Message: err.Error(), Hint: "write a file of the secret alone: openssl rand -hex 32", Err: err})
		}
		key = strings.TrimSpace(string(data))
	}
	if len(key) < cursorKeyLeast {
		return nil, g.Explain(&afterbay.Error{Path: path, Message: fmt.Sprintf("the secret has %d bytes, fewer than %d: it could be guessed", len(key), cursorKeyLeast), Hint: "make one by openssl rand -hex 32"})
	}
	return []byte(key), nil
}

// Explain turns errors about fields of the file into Errors with their places. Any
// other error is returned as it is.
func (g *Gateway) Explain(err error) error {
	var found afterbay.Errors
	var single *afterbay.Error
	switch {
	case errors.As(err, &found):
	case errors.As(err, &single):
		found = afterbay.Errors{single}
	default:
		return err
	}
	var explained Errors
	for _, e := range found {
		explained = append(explained, g.source.explain(g.places, e))
	}
	return explained.sorted()
}
