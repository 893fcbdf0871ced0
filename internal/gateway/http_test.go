package gateway_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// request makes a request of a client over a connection of its own.
func (w *world) request(method, path, client, body string, header ...string) *http.Response {
	w.Helper()
	transport := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return w.listener.dial(), nil },
		DisableKeepAlives: true,
	}
	r, err := http.NewRequestWithContext(w.Context(), method, "http://gateway"+path, strings.NewReader(body))
	w.ok(err)
	r.Header.Set("Authorization", "Bearer acme."+client)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := transport.RoundTrip(r)
	w.ok(err)
	return response
}

// lines returns the frames of an answer.
func (w *world) lines(r *http.Response) (frames []wire.Frame) {
	w.Helper()
	body, err := io.ReadAll(r.Body)
	w.ok(err)
	w.ok(r.Body.Close())
	for line := range strings.Lines(string(body)) {
		f, problem := wire.ParseServer([]byte(line))
		if problem != nil {
			w.Fatalf("%s: %v", line, problem)
		}
		frames = append(frames, f)
	}
	return frames
}

// sse is a reader of server-sent events.
type sse struct {
	*world
	events chan sent
	body   io.Closer
	pings  atomic.Int64
	id     string // of the last event that next returned
}

type sent struct{ id, name, data string }

func (w *world) listen(client string, header ...string) *sse {
	w.Helper()
	response := w.request(http.MethodGet, "/v1/results", client, "", header...)
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		w.Fatalf("%s, %v", response.Status, response.Header)
	}
	s := &sse{world: w, events: make(chan sent, 100), body: response.Body}
	go func() {
		defer close(s.events)
		var e sent
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if lines.Text() == ": ping" {
				s.pings.Add(1)
			}
			switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				if e.data != "" { // no comment
					s.events <- e
				}
				e = sent{}
			}
		}
	}()
	return s
}

// next returns the next event.
func (s *sse) next() wire.Frame {
	s.Helper()
	e, ok := <-s.events
	if !ok {
		s.Fatal("the stream has ended")
	}
	f, problem := wire.ParseServer([]byte(e.data))
	if problem != nil || f.Name() != e.name {
		s.Fatalf("%+v: %v", e, problem)
	}
	s.id = cmp.Or(e.id, s.id)
	return f
}

func TestEventsAndResultsGoOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		s := w.listen("ada")
		connected, ok := s.next().(*wire.Connected)
		if !ok || s.id != connected.Cursor {
			t.Fatalf("%+v", connected)
		}
		answers := w.lines(w.request(http.MethodPost, "/v1/events", "ada",
			`{"type":"event","eventId":"e1","payload":1}`+"\n\n"+`{"type":"event","eventId":"e 2","payload":2}`+"\n"+`{"type":"ping"}`+"\n"+`{"type":"event","eventId":"e3","payload":3}`,
			"X-Correlation-Id", "c-9"))
		for i, want := range []string{"e1", "error", "error", "e3"} {
			got := answers[i].Name()
			if a, ok := answers[i].(*wire.Accepted); ok {
				got = a.EventID
			}
			if got != want {
				t.Errorf("line %d is answered by %+v, want %s", i, answers[i], want)
			}
		}
		for seq, id := range []string{"e1", "e3"} {
			f, ok := s.next().(*wire.ResultFrame)
			if !ok || f.EventID != id || f.Seq != uint64(seq+1) || f.CorrelationID != "c-9" || f.Cursor != s.id {
				t.Errorf("%+v", f)
			}
			if seq == 0 {
				connected.Cursor = f.Cursor
			}
		}
		w.ok(s.body.Close())

		again := w.listen("ada", "Last-Event-ID", connected.Cursor)
		again.next()
		if f, ok := again.next().(*wire.ResultFrame); !ok || f.EventID != "e3" {
			t.Errorf("after the resume: %+v", f)
		}
		time.Sleep(40 * time.Second) // comments keep it open
		w.lines(w.request(http.MethodPost, "/v1/events", "ada", `{"type":"event","eventId":"e4","payload":4}`))
		if f, ok := again.next().(*wire.ResultFrame); !ok || f.EventID != "e4" {
			t.Errorf("live: %+v", f)
		}
		ack := w.request(http.MethodPost, "/v1/ack", "ada", `{"type":"ack","cursor":"`+again.id+`"}`)
		if w.ok(ack.Body.Close()); ack.StatusCode != http.StatusNoContent {
			t.Errorf("ack: %s", ack.Status)
		}
		go w.finish()
		if f, ok := again.next().(*wire.Disconnect); !ok || f.Code != 4501 || !f.Reconnect {
			t.Errorf("%+v", f)
		}
	})
}

func TestLongPollsHaveEachResultOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		began := time.Now()
		empty := w.request(http.MethodGet, "/v1/results?wait=20s", "ada", "")
		cursor := empty.Header.Get(gateway.CursorHeader)
		if frames := w.lines(empty); len(frames) > 0 || cursor == "" || time.Since(began) != 20*time.Second {
			t.Errorf("%d frames, cursor %q, after %v", len(frames), cursor, time.Since(began))
		}
		var got []string
		for i := range 5 {
			for j := range i + 1 {
				w.lines(w.request(http.MethodPost, "/v1/events", "ada", fmt.Sprintf(`{"type":"event","eventId":"e%d.%d","payload":1}`, i, j)))
			}
			synctest.Wait()
			r := w.request(http.MethodGet, "/v1/results?wait=20s&cursor="+cursor, "ada", "")
			cursor = r.Header.Get(gateway.CursorHeader)
			for _, f := range w.lines(r) {
				got = append(got, f.(*wire.ResultFrame).EventID)
			}
		}
		want := w.resultsOf("ada", 0)
		if len(got) != 15 || len(want) != 15 {
			t.Fatalf("%d results, %d in the log", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i].Event {
				t.Errorf("result %d is of %s, want %s", i, got[i], want[i].Event)
			}
		}
	})
}

// TestHeadOfResultsIsRefusedAtOnce asks for what has no end, and for a cursor without
// its results.
func TestHeadOfResultsIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		for _, query := range []string{"", "?wait=20s"} {
			began := time.Now()
			r := w.request(http.MethodHead, "/v1/results"+query, "ada", "")
			w.ok(r.Body.Close())
			synctest.Wait()
			if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, OPTIONS" || time.Since(began) > 0 || len(w.gateway.Clients()) > 0 {
				t.Errorf("%q after %v: %s, %v; %d are connected", query, time.Since(began), r.Status, r.Header, len(w.gateway.Clients()))
			}
		}
	})
}

// TestStreamTellsProxiesToHandItOn looks at what nginx, and proxies that compress, go by.
func TestStreamTellsProxiesToHandItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		r := w.request(http.MethodGet, "/v1/results", "ada", "", "Accept-Encoding", "gzip, br")
		w.ok(r.Body.Close())
		if h := r.Header; h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-transform") || h.Get("Content-Encoding") != "" {
			t.Errorf("%v", h)
		}
	})
}

// TestEmptyPollsGoOn has a client poll whose partition has results of another one only.
func TestEmptyPollsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		other := "bob"
		for resultsAt(other) != resultsAt("ada") {
			other += "b"
		}
		query := "from=earliest"
		for range 3 {
			w.lines(w.request(http.MethodPost, "/v1/events", other, `{"type":"event","eventId":"`+rand.Text()+`","payload":1}`))
			synctest.Wait()
			r := w.request(http.MethodGet, "/v1/results?wait=1s&"+query, "ada", "")
			cursor := r.Header.Get(gateway.CursorHeader)
			at, err := wire.ParseCursor(cursors, "acme", "ada", cursor)
			if frames := w.lines(r); err != nil || len(frames) > 0 || at.Offset != w.end("ada")-1 {
				t.Errorf("%+v, a cursor behind %d (%v), want %d", frames, at.Offset, err, w.end("ada")-1)
			}
			query = "cursor=" + cursor
		}
	})
}

func TestPagesOfAllowedOriginsMayRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const page = "https://example.org"
		w := newWorld(t, gateway.Options{Origins: []string{page}})
		defer w.close()
		for _, c := range []struct {
			method, path, origin string
			status               int
		}{
			{http.MethodOptions, "/v1/results", page, http.StatusNoContent},
			{http.MethodOptions, "/v1/events", page, http.StatusNoContent},
			{http.MethodOptions, "/v1/ack", page, http.StatusNoContent},
			{http.MethodOptions, "/v1/events", "https://example.org.evil", http.StatusForbidden},
			{http.MethodOptions, "/v1/events", "null", http.StatusForbidden},
			{http.MethodGet, "/v1/results?wait=0s", page, http.StatusOK},
			{http.MethodGet, "/v1/results?wait=soon", page, http.StatusBadRequest}, // a page may read why
			{http.MethodPost, "/v1/events", page, http.StatusBadRequest},           // it has no event
			{http.MethodPost, "/v1/events", "https://evil.org", http.StatusForbidden},
		} {
			r := w.request(c.method, c.path, "ada", "", "Origin", c.origin, "Access-Control-Request-Headers", "authorization")
			w.ok(r.Body.Close())
			want := ""
			if c.origin == page {
				want = page
			}
			if got := r.Header.Get("Access-Control-Allow-Origin"); r.StatusCode != c.status || got != want || r.Header.Get("Vary") != "Origin" {
				t.Errorf("%s %s from %s: %s, allowed %q, vary %q; want %d, %q", c.method, c.path, c.origin, r.Status, got, r.Header.Get("Vary"), c.status, want)
			}
			methods := r.Header.Get("Access-Control-Allow-Methods")
			sends := r.Header.Get("Access-Control-Allow-Headers")
			if preflight := c.status == http.StatusNoContent; preflight != (methods != "") || preflight && !(strings.Contains(sends, "Authorization") && strings.Contains(sends, "Traceparent")) {
				t.Errorf("%s %s from %s: methods %q, headers %q", c.method, c.path, c.origin, methods, sends)
			}
		}
		r := w.request(http.MethodGet, "/v1/results?wait=0s", "ada", "")
		w.ok(r.Body.Close())
		if r.Header.Get("Access-Control-Allow-Origin") != "" || r.Header.Get("Vary") != "Origin" {
			t.Errorf("without an origin: %v", r.Header)
		}
	})
}

// TestPayloadsAreUTF8OnEveryTransport sends what json.Valid takes for JSON, and
// reads it from a log that has it.
func TestPayloadsAreUTF8OnEveryTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		bad := []byte("{\"type\":\"event\",\"eventId\":\"e1\",\"payload\":{\"text\":\"caf\xe9\"}}")
		half := bytes.IndexByte(bad, 0xe9)
		answers := w.lines(w.request(http.MethodPost, "/v1/events", "ada", string(bad)))
		if f, ok := answers[0].(*wire.ErrorFrame); !ok || f.Error.Code != wire.CodeBadEvent || f.Error.EventID != "e1" || !strings.Contains(f.Error.Message, "UTF-8") {
			t.Errorf("POST: %+v", answers[0])
		}
		_, none := w.connect("ada", nil)
		for name, message := range map[string][]byte{
			"whole": frame(fin|opText, bad), "in parts": append(frame(opText, bad[:half]), frame(fin|opContinue, bad[half:])...),
		} {
			c, _ := w.connect("ada", nil)
			go func() { _, _ = c.Write(message) }()
			if frames, how := w.ends(c); how == nil || how.code != 1007 {
				t.Errorf("WebSocket, %s: %+v, %+v", name, frames, how)
			}
		}
		if n := w.gateway.Metrics().Accepted.Load(); n != 0 {
			t.Errorf("%d events were accepted", n)
		}

		w.ok(w.log.Append(t.Context(), wire.ResultRecord("results", &wire.Result{
			Tenant: "acme", Client: "ada", Event: "e1", Seq: 1, Status: wire.StatusOK, Payload: json.RawMessage("\"caf\xe9\""), Time: time.Unix(1_750_000_000, 0),
		})))
		c, _ := w.connect("ada", &wire.Resume{From: wire.FromEarliest})
		s := w.listen("ada", "Last-Event-ID", none.Cursor)
		s.next()
		polled := w.lines(w.request(http.MethodGet, "/v1/results?from=earliest&wait=20s", "ada", ""))
		for name, got := range map[string]wire.Frame{"WebSocket": w.receive(c), "server-sent events": s.next(), "long poll": polled[0]} {
			if f, ok := got.(*wire.ResultFrame); !ok || string(f.Payload) != "\"caf�\"" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{MessageBytes: 100})
		defer w.close()
		_, foreign := w.connect("eve", nil)
		for _, c := range []struct {
			method, path, client, body string
			status                     int
		}{
			{"GET", "/v1/results", "a/b", "", http.StatusUnauthorized},
			{"GET", "/v1/results?token=acme.ada", "ada", "", http.StatusBadRequest},
			{"GET", "/v1/stream?access_token=acme.ada", "ada", "", http.StatusBadRequest},
			{"GET", "/v1/results?wait=soon", "ada", "", http.StatusBadRequest},
			{"GET", "/v1/results?wait=2h", "ada", "", http.StatusBadRequest},
			{"GET", "/v1/results?cursor=" + foreign.Cursor, "ada", "", http.StatusBadRequest},
			{"GET", "/v1/results?cursor=%20", "ada", "", http.StatusBadRequest},
			{"GET", "/v1/results?from=here", "ada", "", http.StatusBadRequest},
			{"POST", "/v1/events", "ada", strings.Repeat("x", 101), http.StatusRequestEntityTooLarge},
			{"POST", "/v1/events", "ada", strings.Repeat("\n", 2<<20), http.StatusRequestEntityTooLarge},
			{"POST", "/v1/ack", "ada", `{"type":"ack","cursor":"` + foreign.Cursor + `"}`, http.StatusBadRequest},
			{"POST", "/v1/ack", "ada", `{"type":"pong"}`, http.StatusBadRequest},
			{"POST", "/v1/ack", "ada", `{`, http.StatusBadRequest},
		} {
			r := w.request(c.method, c.path, c.client, c.body)
			if _ = r.Body.Close(); r.StatusCode != c.status {
				t.Errorf("%s %s: %s, want %d", c.method, c.path, r.Status, c.status)
			}
		}
		if n := w.gateway.Metrics().Accepted.Load(); n != 0 {
			t.Errorf("%d events were accepted", n)
		}
	})
}

// TestRefusalsSayWhatToDo makes the mistakes of those who begin.
func TestRefusalsSayWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		upgrade := []string{"Sec-WebSocket-Protocol", wire.Protocol, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
		for _, c := range []struct {
			path   string
			header []string
			status int
			want   string
		}{
			{"/v1/results", []string{"Authorization", ""}, http.StatusUnauthorized, `"the request has no token","hint":"send it as Authorization: Bearer TOKEN"`},
			{"/v1/results", []string{"Authorization", "Bearer nobody"}, http.StatusUnauthorized, `"the token is not valid","hint":"get a new token"`},
			{"/v1/results?from=here", nil, http.StatusBadRequest, "or ?from=latest or ?from=earliest"},
			{"/v1/stream", nil, http.StatusBadRequest, "the subprotocol afterbay.v1 is missing"},
			{"/v1/stream", upgrade[:2], http.StatusBadRequest, "the request does not ask for a WebSocket of RFC 6455"},
			{"/v1/stream", upgrade, http.StatusBadRequest, "the request does not ask for a WebSocket of RFC 6455"},
			{"/v1/stream", append(upgrade, "Sec-WebSocket-Version", "12"), http.StatusBadRequest, "the request does not ask for a WebSocket of RFC 6455"},
		} {
			r := w.request(http.MethodGet, c.path, "ada", "", c.header...)
			body, err := io.ReadAll(r.Body)
			w.ok(err)
			w.ok(r.Body.Close())
			if r.StatusCode != c.status || !strings.Contains(string(body), c.want) || (c.status == http.StatusUnauthorized) != (r.Header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s %q: %s, %v, %s; want %d, %s", c.path, c.header, r.Status, r.Header, body, c.status, c.want)
			}
		}
	})
}
