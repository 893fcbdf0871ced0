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

	"github.com/afterbay/afterbay/internal/procfs"
)

var (
	hostileConnections = flag.Int("hostile.connections", 200, "connections that say nothing, and as many that say half a header, to each surface")
	hostileHeld        = flag.Bool("hostile.held", false, "the attackers hold their connections: what they took has to be released within a minute; health has to answer within a second")
)

const hostileRoom = 512 << 20 // that a process may take beyond what it has when idle

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
	ctx, stop := context.WithCancel(t.Context())
	a := &attack{ctx: ctx}
	var watch sync.WaitGroup
	for _, s := range surfaces {
		watch.Go(func() { a.watch(t, s) })
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
	stop()
	watch.Wait()
	a.close()
	a.readers.Wait()
	t.Logf("%s: %d hostile requests and connections; idle %d MiB, peak %d MiB; health within %v; released within %v", surfaces[0].name, len(a.conns), idle>>20, peak>>20, time.Duration(a.slowest.Load()), time.Since(released).Round(time.Millisecond))
	if peak > idle+hostileRoom {
		t.Errorf("%s: the process took %d MiB, %d MiB when idle", surfaces[0].name, peak>>20, idle>>20)
	}
	if slowest := time.Duration(a.slowest.Load()); *hostileHeld && slowest > time.Second {
		t.Errorf("%s: health answered after %v", surfaces[0].name, slowest)
	}
}

// endpointsOf asks a surface what it answers.
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
	ctx     context.Context
	sent    sync.WaitGroup // writes
	readers sync.WaitGroup
	slowest atomic.Int64 // of health

	mu    sync.Mutex // guards conns
	conns []net.Conn
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
		a.send(s, head(token, ""), nil, false) // whose reply is not read
	}
	for _, b := range bodies {
		a.send(s, head(s.token, fmt.Sprintf("%sContent-Length: %d\r\n", b.headers, len(b.content))), b.content, true)
		a.send(s, head(s.token, fmt.Sprintf("%sContent-Length: %d\r\n", b.headers, len(b.content))), b.content, false)
	}
}

// send connects and writes text and content. What comes back is read only if read says so.
func (a *attack) send(s surface, text string, content []byte, read bool) {
	a.sent.Go(func() {
		conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(a.ctx, "tcp", s.address)
		if err != nil {
			return // the server has enough of them
		}
		a.mu.Lock()
		a.conns = append(a.conns, conn)
		a.mu.Unlock()
		if tcp, ok := conn.(*net.TCPConn); ok && !read {
			_ = tcp.SetReadBuffer(4 << 10) // a hint
		}
		if read {
			a.readers.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
		}
		_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(conn, text); err == nil {
			_, _ = conn.Write(content) // the server may close it meanwhile
		}
	})
}

func (a *attack) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, conn := range a.conns {
		_ = conn.Close()
	}
}

// watch asks for health until the attack is over, over a connection of its own each time.
func (a *attack) watch(t *testing.T, s surface) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for a.ctx.Err() == nil {
		began := time.Now()
		reply, err := client.Get("http://" + s.address + s.health)
		for (err != nil || reply.StatusCode == http.StatusTooManyRequests) && time.Since(began) < time.Minute {
			if err == nil { // its connection was turned away, beside thousands that came at once; what it took counts
				_ = reply.Body.Close()
			} // else it made room for others before its request came
			reply, err = client.Get("http://" + s.address + s.health)
		}
		if err != nil {
			t.Errorf("%s: health after %v: %v", s.name, time.Since(began), err)
			return
		}
		_ = reply.Body.Close()
		if took := int64(time.Since(began)); reply.StatusCode != http.StatusOK {
			t.Errorf("%s: health: %s", s.name, reply.Status)
		} else if took > a.slowest.Load() {
			a.slowest.Store(took)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-a.ctx.Done():
		}
	}
}

// released waits until no request is under way and none holds memory.
func (a *attack) released(t *testing.T, s surface) {
	t.Helper()
	if s.name == "gateway" {
		return // the metrics of its process say it
	}
	held := regexp.MustCompile(`(?m)^(afterbay_http_requests\{class="(?:data|stream)",server="[a-z]+"\}|afterbay_http_memory_bytes) (.*)$`)
	for began, limit := time.Now(), time.Minute; ; {
		status, text := ask(t, http.MethodGet, "http://"+s.address+"/metrics", s.token, "")
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
			t.Errorf("%s: after %v, status %d: %s", s.name, limit, status, left)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}
