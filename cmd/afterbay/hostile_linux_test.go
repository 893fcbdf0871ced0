package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/sys/procfs"
)

var (
	hostileConnections = flag.Int("hostile.connections", 200, "connections that say nothing, and as many that say half a header, to each surface")
	hostileHeld        = flag.Bool("hostile.held", false, "the attackers hold their connections: what they took has to be released within a minute; health has to answer within a second")
)

const hostileRoom = 512 << 20 // that a process may take beyond its idle memory

// surface is a server of a process that is attacked.
type surface struct {
	name, address, health string
	token                 string
	endpoints             []string // method and path
}

// TestHostileRequestsLeaveTheProcessStanding sends every kind of hostile request to
// every endpoint of every surface at once: half bodies, none, refused ones with an open
// body, bombs, a million elements, replies that are not read, and many connections.
// Meanwhile health answers, and the process takes little memory.
func TestHostileRequestsLeaveTheProcessStanding(t *testing.T) {
	stump, err := filepath.Abs("testdata/stump.ubj")
	if err != nil {
		t.Fatal(err)
	}
	pipeline, token := gatewayFolder(t)
	running, out := killable(t, "run", pipeline, "--gateway", "gateway.yaml", "--listen", "127.0.0.1:0", "--token", hostileToken)
	defer endProcess(t, running.Process)
	out.wait(t, "afterbay tail")
	serving, served := killable(t, "serve", "--model", "stump="+stump, "--listen", "127.0.0.1:0", "--token", hostileToken)
	defer endProcess(t, serving.Process)
	served.wait(t, "listening on")
	find := func(s *screen, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(s.String())
		if m == nil {
			t.Fatalf("no %s in %s", pattern, s)
		}
		return m[1]
	}
	events := []string{"POST /v1/events", "POST /v1/ack", "GET /v1/results?wait=1s", "GET /v1/openapi.json", "GET /v1/stream", "OPTIONS /v1/events", "GET /readyz"}
	for _, one := range []struct {
		pid      int
		surfaces []surface
	}{
		{running.Process.Pid, []surface{
			{name: "admin", address: find(out, `listening on http://([0-9.]+:[0-9]+)`), health: "/healthz", token: hostileToken},
			{name: "gateway", address: find(out, `clients connect to ws://([0-9.]+:[0-9]+)`), health: "/readyz", token: token, endpoints: events},
		}},
		{serving.Process.Pid, []surface{{name: "scoring", address: find(served, `listening on http://([0-9.]+:[0-9]+)`), health: "/healthz", token: hostileToken}}},
	} {
		attackProcess(t, one.pid, one.surfaces)
	}
}

const hostileToken = "a token of hostile tests, long enough"

func endProcess(t *testing.T, p *os.Process) {
	if err := p.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if state, err := p.Wait(); err != nil || state.ExitCode() != exitOK {
		t.Errorf("%v, %v", state, err)
	}
}

// attackProcess attacks the surfaces of a process together.
func attackProcess(t *testing.T, pid int, surfaces []surface) {
	t.Helper()
	for i := range surfaces {
		if surfaces[i].endpoints == nil {
			surfaces[i].endpoints = endpointsOf(t, surfaces[i])
		}
	}
	idle, err := procfs.Memory(pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	a := &attack{ctx: t.Context()}
	var watched []func() health
	for _, s := range surfaces {
		watched = append(watched, watchHealth(t, s))
	}
	bodies := hostileBodies(t)
	for _, s := range surfaces {
		for range *hostileConnections {
			a.send(s, "", nil, false)
			a.send(s, "GET / HTTP/1.1\r\nHo", nil, false)
		}
		for _, endpoint := range s.endpoints {
			a.all(s, endpoint, bodies)
		}
	}
	a.sent.Wait()
	if !*hostileHeld {
		<-time.After(2 * time.Second) // of the attack
		a.close()
	}
	released := time.Now()
	for _, s := range surfaces {
		a.released(t, s)
	}
	peak, err := procfs.Memory(pid, "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(released).Round(time.Millisecond)
	a.close()
	a.readers.Wait()
	for i, s := range surfaces {
		seen := watched[i]()
		t.Logf("%s: %d probes of health, the slowest took %v: %s", s.name, seen.Probes, seen.Slowest, seen.Tries)
		if seen.Failed != "" {
			t.Errorf("%s: health: %s", s.name, seen.Failed)
		} else if *hostileHeld && seen.Slowest > time.Second {
			t.Errorf("%s: health answered after %v", s.name, seen.Slowest)
		}
	}
	t.Logf("%s: %d hostile connections, %d replies; idle %d MiB, peak %d MiB; released within %v", surfaces[0].name, a.made.Load(), a.answered.Load(), idle>>20, peak>>20, took)
	if peak > idle+hostileRoom {
		t.Errorf("%s: the process took %d MiB, %d MiB when idle", surfaces[0].name, peak>>20, idle>>20)
	}
}

// endpointsOf asks a surface for its endpoints.
func endpointsOf(t *testing.T, s surface) (list []string) {
	t.Helper()
	status, text := ask(t, http.MethodGet, "http://"+s.address+"/", s.token, "")
	var index struct {
		Endpoints []struct{ Method, Path string }
	}
	if err := json.Unmarshal([]byte(text), &index); err != nil || status != http.StatusOK || len(index.Endpoints) < 10 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	names := strings.NewReplacer("{topic}", "posts", "{pipeline}", "moderation", "{key...}", "key", "{do}", "drop", "{version}", "1", "{method}", "ModelInfer")
	for _, e := range index.Endpoints {
		path := names.Replace(e.Path)
		for _, model := range []string{"stump", "profanity"} {
			full := strings.NewReplacer("{call}", model+":predict-stream", "{name}", model).Replace(path)
			list = append(list, e.Method+" "+full)
			if full == path {
				break
			}
		}
	}
	return list
}

// hostileBody is one, and its headers.
type hostileBody struct {
	headers string
	content []byte
}

func hostileBodies(t *testing.T) []hostileBody {
	t.Helper()
	var list []hostileBody
	elements := []byte(`{"inputs":[` + strings.Repeat("{},", 1_000_000) + `{}]}`)
	lines, zeros := bytes.Repeat([]byte("{}\n"), 20<<20), make([]byte, 64<<20)
	list = append(list, hostileBody{"", elements}, hostileBody{"", bytes.Repeat([]byte("[],"), 1_000_000)}, hostileBody{"Content-Type: text/csv\r\n", bytes.Repeat([]byte("a,"), 1_000_000)})
	for _, text := range [][]byte{elements, lines, zeros} {
		var packed, small bytes.Buffer
		w := gzip.NewWriter(&packed)
		z, err := zstd.NewWriter(&small)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range []io.WriteCloser{w, z} {
			if _, err := out.Write(text); err != nil {
				t.Fatal(err)
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []string{"application/json", "application/x-ndjson"} {
			list = append(list, hostileBody{"Content-Encoding: gzip\r\nContent-Type: " + kind + "\r\n", packed.Bytes()}, hostileBody{"Content-Encoding: zstd\r\nContent-Type: " + kind + "\r\n", small.Bytes()})
		}
	}
	return list
}

// attack is what hostile clients hold.
type attack struct {
	ctx      context.Context
	sent     sync.WaitGroup // writes
	readers  sync.WaitGroup
	made     atomic.Int64 // connections
	answered atomic.Int64 // requests that had a reply, of those that read it

	mu    sync.Mutex // guards conns
	conns []net.Conn
	over  bool
}

// all sends every kind of request to an endpoint.
func (a *attack) all(s surface, endpoint string, bodies []hostileBody) {
	head := func(token, more string) string {
		return endpoint + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n" + more + "\r\n"
	}
	for _, token := range []string{s.token, "wrong"} {
		a.send(s, head(token, "Content-Length: 16777216\r\nContent-Type: application/x-ndjson\r\n"), []byte(`{"half":true`), true)
		a.send(s, head(token, "Content-Length: 16777216\r\nContent-Type: application/x-ndjson\r\n"), nil, true)
		a.send(s, head(token, "Transfer-Encoding: chunked\r\nContent-Type: application/x-ndjson\r\n"), []byte("1\r\n{\r\n"), true)
		a.send(s, head(token, "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"), nil, true)
		a.send(s, head(token, ""), nil, false) // the reply is not read
	}
	for _, b := range bodies {
		a.send(s, head(s.token, fmt.Sprintf("%sContent-Length: %d\r\n", b.headers, len(b.content))), b.content, true)
		a.send(s, head(s.token, fmt.Sprintf("%sContent-Length: %d\r\n", b.headers, len(b.content))), b.content, false)
	}
}

// send connects and writes text and content. What comes back is read only if read says so.
// Where nothing comes back the server had no room, and the request is sent again.
func (a *attack) send(s surface, text string, content []byte, read bool) {
	a.sent.Go(func() {
		conn := a.connect(s, text, content, read)
		if !read {
			return
		}
		a.readers.Go(func() {
			for tries := 1; conn != nil; tries++ {
				n, _ := conn.Read(make([]byte, 1)) // an error is that it was closed
				if n > 0 {
					a.answered.Add(1)
					_, _ = io.Copy(io.Discard, conn) // until it is closed
				}
				_ = conn.Close()
				if n > 0 || tries == hostileTries {
					return
				}
				conn = a.connect(s, text, content, read)
			}
		})
	})
}

const hostileTries = 20

// connect sends a request over a new connection. It returns nil if it gets none.
func (a *attack) connect(s surface, text string, content []byte, read bool) net.Conn {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(a.ctx, "tcp", s.address)
	if err != nil {
		return nil // the server has enough of them
	}
	if !a.hold(conn) {
		_ = conn.Close()
		return nil
	}
	if tcp, ok := conn.(*net.TCPConn); ok && !read {
		_ = tcp.SetReadBuffer(4 << 10) // a hint
	}
	_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err == nil {
		_, _ = conn.Write(content) // the server may close it meanwhile
	}
	return conn
}

// hold reports whether the attack is not over.
func (a *attack) hold(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made.Add(1)
	a.conns = append(a.conns, conn)
	return !a.over
}

func (a *attack) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for _, conn := range a.conns {
		_ = conn.Close()
	}
}

// released waits until no request is under way and none holds memory.
func (a *attack) released(t *testing.T, s surface) {
	t.Helper()
	if s.name == "gateway" {
		return // the metrics of its process say it
	}
	held := regexp.MustCompile(`(?m)^(afterbay_http_requests_in_flight\{class="(?:data|stream)",server="[a-z]+"\}|afterbay_http_memory_bytes) (.*)$`)
	limit := 5 * time.Minute // of a busy machine
	if *hostileHeld {
		limit = time.Minute
	}
	for began := time.Now(); ; {
		status, text, err := tryMetrics(s)
		left, found := "", held.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			if n, err := strconv.ParseFloat(m[2], 64); err != nil || n > 0 {
				left += m[0] + "\n"
			}
		}
		if status == http.StatusOK && len(found) > 0 && left == "" {
			return
		}
		if time.Since(began) > limit {
			t.Errorf("%s: after %v, status %d, %v: %s", s.name, limit, status, err, left)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// tryMetrics may be turned away while the attack goes on.
func tryMetrics(s surface) (status int, text string, err error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Close = true
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(body), err
}
