package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lxzan/gws"

	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/test/contracttest"
)

const (
	moderationFile = "../../examples/moderation/pipeline.yaml"
	gatewayKey     = "the key that signs tokens of tests"
	gatewayCursors = "the key that signs cursors of tests"

	gatewayFile = `gateway: chat
listen: 127.0.0.1:0
pipeline: {input: posts, outputs: [decisions], dead_letters: [moderation.dlq]}
keys: keys.yaml
cursor_key: ${CURSOR_KEY}
partitions: 2
drain: 100ms
`
)

// gatewayFolder makes the working directory one with the files of a gateway, and
// returns the moderation example, whose key is no client, and a token of a client.
func gatewayFolder(t *testing.T) (pipeline, token string) {
	t.Helper()
	text, err := os.ReadFile(moderationFile)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(filepath.Dir(moderationFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	pipeline = "moderation.yaml"
	write(t, pipeline, strings.ReplaceAll(string(text), "profanity.yaml", filepath.Join(folder, "profanity.yaml")))
	t.Setenv("GATEWAY_KEY", gatewayKey)
	t.Setenv("CURSOR_KEY", gatewayCursors)
	write(t, "keys.yaml", "keys: [{id: k1, secret: '${GATEWAY_KEY}', audience: chat}]\n")
	write(t, "gateway.yaml", gatewayFile)
	token = strings.TrimSpace(must(t, "", "token", "issue", "--keys", "keys.yaml", "--key", "k1", "--tenant", "acme", "--client", "ada"))
	return pipeline, token
}

// conversation is a client over WebSocket that sends posts and notes their results,
// over one connection after the other.
type conversation struct {
	testing.TB
	token, cursor string
	seq           uint64 // of the newest result
	done          map[string]bool

	conn   *gws.Conn
	frames chan wire.Frame // closed with the connection
}

// listener is what the library tells of a connection.
type listener struct {
	gws.BuiltinEventHandler
	*conversation
	frames chan wire.Frame
}

// OnMessage implements gws.Event.
func (l *listener) OnMessage(_ *gws.Conn, m *gws.Message) {
	defer m.Close()
	if err := contracttest.Server(m.Bytes()); err != nil {
		l.Error(err)
	}
	frame, problem := wire.ParseServer(m.Bytes())
	if problem != nil {
		l.Errorf("%s: %v", m.Bytes(), problem)
		return
	}
	l.frames <- frame
}

// OnClose implements gws.Event.
func (l *listener) OnClose(*gws.Conn, error) { close(l.frames) }

// connect connects to the gateway whose process printed out, after the newest
// result.
func (c *conversation) connect(out *screen) {
	c.Helper()
	out.wait(c, "/v1/stream; events go to")
	_, address, _ := strings.Cut(out.String(), "clients connect to ")
	address, _, _ = strings.Cut(address, ";")
	c.frames = make(chan wire.Frame, 1024)
	var err error
	c.conn, _, err = gws.NewClient(&listener{conversation: c, frames: c.frames}, &gws.ClientOption{Addr: address, RequestHeader: http.Header{
		"Authorization": {"Bearer " + c.token}, "Sec-Websocket-Protocol": {wire.Protocol},
	}})
	if err != nil {
		c.Fatalf("%s: %v: %s", address, err, out)
	}
	go c.conn.ReadLoop() // until the connection ends
	connect := &wire.Connect{ID: 1, Resume: &wire.Resume{Cursor: c.cursor}}
	if c.cursor == "" {
		connect.Resume.From = wire.FromEarliest
	}
	c.send(connect)
	if connected, ok := c.next().(*wire.Connected); !ok || !connected.Recovered || connected.ClientID != "ada" {
		c.Fatalf("connect is answered by %+v", connected)
	}
}

func (c *conversation) send(frame wire.Frame) {
	c.Helper()
	message, err := wire.Encode(frame)
	if err == nil {
		err = c.conn.WriteMessage(gws.OpcodeText, message)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// next returns the next frame, nil at the end of the connection.
func (c *conversation) next() wire.Frame {
	c.Helper()
	select {
	case frame := <-c.frames:
		return frame
	case <-time.After(time.Minute):
		c.Fatalf("no frame came; %d events have results", len(c.done))
		return nil
	}
}

// take notes a frame.
func (c *conversation) take(frame wire.Frame) {
	c.Helper()
	switch f := frame.(type) {
	case *wire.ResultFrame:
		if f.Seq != c.seq+1 {
			c.Errorf("result %d after %d", f.Seq, c.seq)
		}
		if f.Status != wire.StatusOK || !strings.Contains(string(f.Payload), `"post":"`+f.EventID+`"`) || c.done[f.EventID] && !f.Duplicate {
			c.Errorf("%s: %+v, %s", f.EventID, f, f.Payload)
		}
		c.seq, c.cursor, c.done[f.EventID] = f.Seq, f.Cursor, true
	case *wire.Ping:
		c.send(&wire.Pong{})
	case *wire.Accepted, *wire.Backpressure, *wire.Disconnect:
	default:
		c.Fatalf("%+v", f)
	}
}

// submit sends a post.
func (c *conversation) submit(id string) {
	c.Helper()
	var i int
	if _, err := fmt.Sscanf(id, "p%d", &i); err != nil {
		c.Fatal(err)
	}
	c.send(&wire.Submission{EventID: id, Sequence: int64(i + 1), Payload: json.RawMessage(fmt.Sprintf(
		`{"post":%q,"user":"user %d","text":"hello %d","created":%q}`, id, i%5, i, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339)))})
}

const waitsMost = 40 // events of a client for their results, of the 50 that may

// post sends those of the first events that have no result, which may be in the
// log, until done of them have theirs.
func (c *conversation) post(events, done int) {
	c.Helper()
	waiting := map[string]bool{}
	for i := 0; len(c.done) < done; {
		for ; i < events && len(waiting) < waitsMost; i++ {
			if id := fmt.Sprint("p", i); !c.done[id] {
				c.submit(id)
				waiting[id] = true
			}
		}
		frame := c.next()
		if frame == nil {
			c.Fatalf("the connection ended; %d events have results", len(c.done))
		}
		c.take(frame)
		switch f := frame.(type) {
		case *wire.ResultFrame:
			delete(waiting, f.EventID)
		case *wire.Backpressure: // of events that were sent again and have their result twice
			time.Sleep(time.Duration(f.RetryAfterMs) * time.Millisecond)
			c.submit(f.EventID)
		}
	}
}

// end takes what comes until the connection is closed.
func (c *conversation) end() {
	c.Helper()
	for frame := c.next(); frame != nil; frame = c.next() {
		c.take(frame)
	}
}

// TestClientsLoseNothingOverCutsAndRestarts sends 200 events to a pipeline in the
// same process, by a connection that is cut, and to a process that is ended and
// started again.
func TestClientsLoseNothingOverCutsAndRestarts(t *testing.T) {
	pipeline, token := gatewayFolder(t)
	args := []string{"run", pipeline, "--gateway", "gateway.yaml", "--listen", "127.0.0.1:0"}
	if r := command(t, "", "clients"); !strings.Contains(r.stderr, "no gateway runs in data: start it") || strings.Contains(r.stderr, "kafka") {
		t.Errorf("before there is one: %+v", r)
	}
	const events = 200
	c := &conversation{TB: t, token: token, done: map[string]bool{}}
	running, out := killable(t, args...)
	c.connect(out)
	c.post(events, 60)
	_ = c.conn.NetConn().Close() // with events on their way
	c.connect(out)
	c.post(events, 120)
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.end()
	if err := running.Wait(); err != nil {
		t.Fatalf("after SIGTERM: %v: %s", err, out)
	}
	out.wait(t, "clients are disconnected")
	if next := "  afterbay token issue --keys keys.yaml --key ID --tenant NAME --client NAME\n  afterbay tail decisions --follow\n"; !strings.Contains(out.String(), next) {
		t.Errorf("it does not say what to type next: %s", out)
	}
	again, out2 := killable(t, args...)
	c.connect(out2)
	c.post(events, events)

	if got := must(t, "", "clients"); !strings.Contains(got, "gateway chat: 1 clients") || !strings.Contains(got, "acme    ada     websocket") {
		t.Error(got)
	}
	var clients admin.Clients
	if err := json.Unmarshal([]byte(must(t, "", "clients", "--json")), &clients); err != nil || len(clients.Clients) != 1 || clients.Clients[0].Pending != 0 || clients.Clients[0].Behind != 0 {
		t.Errorf("%+v, %v", clients, err)
	}
	if err := again.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.end()
	if err := again.Wait(); err != nil {
		t.Fatalf("after SIGTERM: %v: %s", err, out2)
	}
	write(t, "wider.yaml", strings.Replace(gatewayFile, "partitions: 2", "partitions: 3", 1))
	const want = "wider.yaml:6:13: partitions: topic \"chat.inbox\" has 2 partitions, which cannot change, not 3: write `partitions: 2`"
	if r := command(t, "", "run", pipeline, "--gateway", "wider.yaml", "--listen", "none"); r.code != exitInvalid || !strings.Contains(r.stderr, want) {
		t.Errorf("with other partitions: %+v", r)
	}
	write(t, "others.yaml", strings.NewReplacer("[decisions]", "[other, others.ended]", "[moderation.dlq]", "[others.dlq]").Replace(gatewayFile))
	write(t, "other.yaml", "pipeline: others\ninput: {topic: posts, key: post, fields: {post: string}}\nreplies: [other]\nsteps:\n  - emit: {topic: other, value: [post]}\n")
	const keyed = `others.yaml:3:19: pipeline.input: topic "posts" is keyed by "user", which cannot change, but a pipeline reads it by "post"`
	if r := command(t, "", "run", "other.yaml", "--gateway", "others.yaml", "--listen", "none"); r.code != exitInvalid || !strings.Contains(r.stderr, keyed) || !strings.Contains(r.stderr, "add `repartition: 4`") {
		t.Errorf("of another key: %+v", r)
	}
	if n := strings.Count(must(t, "", "tail", "decisions"), "\n"); n != events || len(c.done) != events {
		t.Errorf("%d decisions, %d events with results, want %d", n, len(c.done), events)
	}
	for _, secret := range []string{token, gatewayKey, gatewayCursors} {
		if strings.Contains(out.String()+out2.String(), secret) {
			t.Errorf("%q was printed", secret)
		}
	}
}

// TestGatewayOfItsOwnProcess runs the pipeline in a process, and the gateway in
// another one, over a broker.
func TestGatewayOfItsOwnProcess(t *testing.T) {
	pipeline, token := gatewayFolder(t)
	engine := fakeEngine(t)
	early := command(t, "", "gateway", "gateway.yaml", "--engine", engine, "--admin", "127.0.0.1:0")
	if early.code != exitInvalid || !strings.Contains(early.stderr, `gateway.yaml:3:19: pipeline.input: there is no topic "posts": start the pipeline first`) {
		t.Errorf("before the pipeline: %+v", early)
	}
	running, endPipeline := background(t, "run", pipeline, "--engine", engine, "--listen", "127.0.0.1:0")
	running.wait(t, "next, in another terminal")
	out, endGateway := background(t, "gateway", "gateway.yaml", "--engine", engine, "--admin", "127.0.0.1:0")
	out.wait(t, "/v1/clients")
	c := &conversation{TB: t, token: token, done: map[string]bool{}}
	c.connect(out)
	c.post(50, 50)

	if got := must(t, "", "clients", "--data", "gateway"); !strings.Contains(got, "acme    ada     websocket") {
		t.Error(got)
	}
	_, admin, _ := strings.Cut(out.String(), "listening on ")
	admin, _, _ = strings.Cut(admin, ": /metrics")
	if got := must(t, "", "clients", "--url", admin); !strings.Contains(got, "1 clients") {
		t.Error(got)
	}
	_, metrics := ask(t, http.MethodGet, admin+"/metrics", "", "")
	for _, want := range []string{"afterbay_gateway_connections 1\n", "afterbay_gateway_events_accepted_total 50\n", "afterbay_gateway_sequence_events_accepted_total 50\n", "afterbay_gateway_sequence_events_ended_total{status=\"ok\"} 50\n", "afterbay_gateway_limit_keys{scope=\"tenant\"} 1\n", "afterbay_gateway_tokens_accepted_total 1\n", "afterbay_gateway_tokens_refused_total{reason=\"expired\"} 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if code := endGateway(); code != exitOK {
		t.Errorf("the gateway ended with %d: %s", code, out)
	}
	c.end()
	if code := endPipeline(); code != exitOK {
		t.Errorf("the pipeline ended with %d: %s", code, running)
	}
}

func TestGatewaysThatCannotRunSayWhy(t *testing.T) {
	pipeline, _ := gatewayFolder(t)
	write(t, "short.yaml", strings.Replace(gatewayFile, "CURSOR_KEY", "SHORT", 1))
	t.Setenv("SHORT", "too short")
	write(t, "nokeys.yaml", strings.Replace(gatewayFile, "keys.yaml", "none.yaml", 1))
	write(t, "topic.yaml", strings.Replace(gatewayFile, "decisions", "decided", 1))
	write(t, "cert.yaml", gatewayFile+"cert: none.pem\nkey: none.key\n")
	write(t, "secret.yaml", strings.Replace(gatewayFile, "${CURSOR_KEY}", gatewayCursors, 1))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"gateway gateway.yaml", exitUsage, "afterbay run PIPELINE --gateway gateway.yaml"},
		{"run PIPELINE --gateway gateway.yaml --until-idle", exitUsage, "leave one out"},
		{"run PIPELINE --gateway none.yaml", exitInvalid, "read gateway: open none.yaml: no such file or directory: name a gateway file that can be read"},
		{"run PIPELINE --gateway short.yaml", exitInvalid, "short.yaml:5:13: cursor_key: the secret has 9 bytes, fewer than 32"},
		{"run PIPELINE --gateway secret.yaml", exitInvalid, "cursor_key: a secret has no place in the file"},
		{"run PIPELINE --gateway nokeys.yaml", exitInvalid, "nokeys.yaml:4:7: keys: read keys: open none.yaml: no such file or directory: name one that can be read, written as docs/reference/keys-file.md"},
		{"run PIPELINE --gateway topic.yaml --listen none", exitInvalid, `topic.yaml:3:36: pipeline.outputs[0]: no pipeline here writes topic "decided": they write decisions, moderation.dlq`},
		{"run PIPELINE --gateway cert.yaml --listen none", exitInvalid, "cert.yaml:8:7: cert: open "},
		{"lint nokeys.yaml", exitInvalid, "nokeys.yaml:4:7: keys: read keys: open none.yaml: no such file"},
		{"run gateway.yaml", exitUsage, "gateway.yaml is a gateway file: name the pipelines, and it by --gateway gateway.yaml"},
		{"run PIPELINE --gateway PIPELINE", exitUsage, "moderation.yaml is not a gateway file: it has no `gateway: NAME`"},
		{"token issue --keys keys.yaml --key b --tenant acme --client ada", exitUsage, `there is no key "b": name one of the file of keys: k1`},
		{"clients", exitFailure, "--url http://host:port"},
		{"clients --url http://127.0.0.1:1", exitFailure, "connection refused: check the address, and that afterbay runs there: use the address in the process's line `listening on`, not the address for clients"},
	} {
		r := command(t, "", strings.Fields(strings.ReplaceAll(c.args, "PIPELINE", pipeline))...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, gatewayCursors) {
			t.Errorf("%s: exit %d: %s\nwant %d: %s", c.args, r.code, r.stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat("gateway"); !os.IsNotExist(err) {
		t.Errorf("a gateway that did not run left its folder: %v", err)
	}
}
