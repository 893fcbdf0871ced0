package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/log/memory"
)

// broken is a body that panics.
type broken struct{ io.ReadCloser }

func (broken) Read([]byte) (int, error) { panic(http.ErrAbortHandler) }

// TestTenantWhoseRequestsPanicIsReadOn has more requests panic than a tenant has readers.
func TestTenantWhoseRequestsPanicIsReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		server := w.gateway.Server(server.Options{})
		for range 32 {
			func() {
				defer func() { _ = recover() }()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/events", nil)
				r.Header.Set("Authorization", "Bearer acme.ada")
				r.Body = broken{r.Body}
				server.ServeHTTP(httptest.NewRecorder(), r)
				t.Error("the request did not panic")
			}()
		}
		r := w.request(http.MethodPost, "/v1/events", "ada", `{"type":"event","eventId":"e1","payload":1}`)
		if answers := w.lines(r); r.StatusCode != http.StatusOK || len(answers) != 1 {
			t.Errorf("%s, %d answers", r.Status, len(answers))
		}
	})
}

// TestTenantWhoseBodiesDoNotComeHoldsUpNoOther announces the bodies of many requests,
// and sends none.
func TestTenantWhoseBodiesDoNotComeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		for range 100 {
			conn := w.listener.dial()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			_, err := io.WriteString(conn, "POST /v1/events HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer acme.ada\r\nContent-Length: 1000\r\n\r\n")
			w.ok(err)
		}
		synctest.Wait()
		began := time.Now()
		posted := w.lines(w.request(http.MethodPost, "/v1/events", "", `{"type":"event","eventId":"e","payload":1}`, "Authorization", "Bearer other.eve"))
		if f, ok := posted[0].(*wire.Accepted); !ok || time.Since(began) != 0 {
			t.Errorf("%+v, after %v", f, time.Since(began))
		}
		time.Sleep(time.Minute) // which no body may take
		posted = w.lines(w.request(http.MethodPost, "/v1/events", "ada", `{"type":"event","eventId":"e","payload":1}`))
		if f, ok := posted[0].(*wire.Accepted); !ok {
			t.Errorf("the tenant itself, when they have ended: %+v", f)
		}
	})
}

// TestRequestHasSoManyEvents sends more, which would take a hundred times their bytes.
func TestRequestHasSoManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		for _, c := range []struct {
			body   string
			header []string
			status int
		}{
			{strings.Repeat("1\n", 4096), nil, http.StatusOK},
			{strings.Repeat("1\n", 4097), nil, http.StatusRequestEntityTooLarge},
			{"[" + strings.Repeat("{},", 4095) + "{}]", []string{"Content-Type", batched}, http.StatusBadRequest},
			{"[" + strings.Repeat("{},", 4096) + "{}]", []string{"Content-Type", batched}, http.StatusRequestEntityTooLarge},
		} {
			r := w.request(http.MethodPost, "/v1/events", "ada", c.body, c.header...)
			if r.StatusCode != c.status {
				t.Errorf("%d bytes, %v: %s, want %d", len(c.body), c.header, r.Status, c.status)
			}
			w.ok(r.Body.Close())
		}
	})
}

// TestBodiesThatAreNotTakenAreToldWhy sends too much, too little and nothing.
func TestBodiesThatAreNotTakenAreToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{MessageBytes: 1000})
		defer w.close()
		line := func(bytes int) string {
			const head, tail = `{"type":"event","eventId":"e","payload":"`, `"}`
			return head + strings.Repeat("x", bytes-len(head)-len(tail)) + tail
		}
		for _, c := range []struct {
			body   string
			status int
			want   string
		}{
			{line(1000), http.StatusOK, `{"type":"accepted"`}, {line(1000) + "\n", http.StatusOK, `{"type":"accepted"`},
			{line(1001), http.StatusRequestEntityTooLarge, "too large: one of its lines"},
			{strings.Repeat(line(999)+"\n", 1049), http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB"},
			{"", http.StatusBadRequest, "no event"}, {" \n\n", http.StatusBadRequest, "no event"},
		} {
			r := w.request(http.MethodPost, "/v1/events", "ada", c.body)
			got, err := io.ReadAll(r.Body)
			if w.ok(err); r.StatusCode != c.status || !strings.Contains(string(got), c.want) {
				t.Errorf("%d bytes: %s %s; want %d %s", len(c.body), r.Status, got, c.status, c.want)
			}
		}
		conn := w.listener.dial()
		_, err := io.WriteString(conn, "POST /v1/events HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer acme.ada\r\nTransfer-Encoding: chunked\r\n\r\nbytes\r\n")
		w.ok(err)
		if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != http.StatusBadRequest {
			t.Errorf("a body that is none is answered by %+v, %v", r, err)
		}
		w.ok(conn.Close())
		time.Sleep(time.Second) // for which a server waits that has not read all
	})
}

// gate keeps tokens that end in .held from being verified, and cannot say anything
// of one that is down.
type gate struct {
	tokens
	held chan struct{}
}

func (g gate) Verify(ctx context.Context, token string) (gateway.Identity, error) {
	if token == "down" {
		return gateway.Identity{}, fmt.Errorf("the keys: %w", gateway.ErrUnavailable)
	}
	token, held := strings.CutSuffix(token, ".held")
	if held {
		<-g.held
	}
	return g.tokens.Verify(ctx, token)
}

func newGatedWorld(t *testing.T) (*world, gate) {
	g := gate{held: make(chan struct{})}
	return newWorldWith(t, g, memory.New(memory.Options{}), gateway.Options{}), g
}

// TestNewestConnectionOfASessionStays has the first connection of a session, which its
// client has given up, be verified after the second one.
func TestNewestConnectionOfASessionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := newGatedWorld(t)
		defer w.close()
		connect := func(token string) *raw {
			time.Sleep(time.Second)
			c, _, err := dialRaw(w.listener.dial(), offered)
			w.ok(err)
			w.ok(c.send(&wire.Connect{Token: token, SessionID: "tab"}))
			return c
		}
		first := connect("acme.ada.held")
		second := connect("acme.ada")
		if f, ok := w.receive(second).(*wire.Connected); !ok {
			t.Fatalf("%+v", f)
		}
		close(gate.held)
		if _, how := w.ends(first); how == nil || how.code != 4009 {
			t.Errorf("the first ends by %v", how)
		}
		w.ok(second.send(event("e", `"never"`))) // a result might come before
		if f, ok := w.receive(second).(*wire.Accepted); !ok {
			t.Errorf("%+v", f)
		}
		third := connect("acme.ada")
		if f, ok := w.receive(third).(*wire.Connected); !ok {
			t.Errorf("%+v", f)
		}
		if _, how := w.ends(second); how == nil || how.code != 4009 {
			t.Errorf("the second ends by %v", how)
		}
	})
}

// TestKeysThatCannotBeReadEndNoClient says of no token that it is wrong.
func TestKeysThatCannotBeReadEndNoClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newGatedWorld(t)
		defer w.close()
		_, response, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer down")
		if err == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("%+v, %v", response, err)
		}
		if r := w.request(http.MethodGet, "/v1/results", "", "", "Authorization", "Bearer down"); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s, %v", r.Status, r.Header)
		}
		c, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		w.ok(c.send(&wire.Connect{Token: "down"}))
		frames, how := w.ends(c)
		if how == nil || how.code != 4507 || len(frames) != 1 {
			t.Fatalf("%+v, %v", frames, how)
		}
		if f, ok := frames[0].(*wire.Disconnect); !ok || !f.Reconnect || f.RetryAfterMs <= 0 {
			t.Errorf("%+v", frames[0])
		}
		ada, _ := w.connect("ada", nil)
		w.ok(ada.send(&wire.Refresh{ID: 2, Token: "down"}))
		if f, ok := w.receive(ada).(*wire.ErrorFrame); !ok || f.ID != 2 || !f.Error.Retryable {
			t.Errorf("%+v", f)
		}
	})
}

// TestPollWaitsLongerThanABodyMay has no body.
func TestPollWaitsLongerThanABodyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		began := time.Now()
		r := w.request(http.MethodGet, "/v1/results?wait=50s", "ada", "")
		if frames := w.lines(r); r.StatusCode != http.StatusOK || len(frames) != 0 || time.Since(began) != 50*time.Second {
			t.Errorf("%s after %v: %v", r.Status, time.Since(began), frames)
		}
	})
}

// TestStreamEndsWithItsTokenHoweverMuchThereIs has a client read less than comes.
func TestStreamEndsWithItsTokenHoweverMuchThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Hub: hub.Options{QueueBytes: 4 << 10}})
		defer w.close()
		var body strings.Builder
		for i := range 500 {
			fmt.Fprintf(&body, `{"type":"event","eventId":"e%d","payload":%q}`+"\n", i, strings.Repeat("x", 1000))
		}
		w.lines(w.request(http.MethodPost, "/v1/events", "ada", body.String()))
		synctest.Wait()
		token := fmt.Sprintf("Bearer acme.ada.%d", time.Now().Add(20*time.Second).Unix())
		response := w.request(http.MethodGet, "/v1/results?from=earliest", "", "", "Authorization", token)
		text := ""
		for part := make([]byte, 1<<10); !strings.Contains(text, "event: disconnect"); time.Sleep(time.Second) {
			n, err := response.Body.Read(part)
			if text += string(part[:n]); err != nil {
				t.Fatal(err)
			}
		}
		w.ok(response.Body.Close())
		if n := strings.Count(text, "event: result"); n < 20 || n > 200 || !strings.Contains(text, `"code":4502`) {
			t.Errorf("%d results, then %s", n, text[max(0, len(text)-300):])
		}
	})
}

// TestEventThatIsTooLargeForTheLogKeepsNoOtherOut appends it with others.
func TestEventThatIsTooLargeForTheLogKeepsNoOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, memory.New(memory.Options{MaxRecordBytes: 2000}), gateway.Options{})
		defer w.close()
		long := `"` + strings.Repeat("x", 3000) + `"`
		check := func(how string, got wire.Frame, large bool) {
			t.Helper()
			problem, refused := got.(*wire.ErrorFrame)
			if _, ok := got.(*wire.Accepted); ok == large || large && (!refused || problem.Error.Code != wire.CodeBadEvent || problem.Error.Retryable) {
				t.Errorf("%s: %+v, %+v", how, got, problem)
			}
		}
		body := `{"type":"event","eventId":"e1","payload":"never"}` + "\n" + `{"type":"event","eventId":"e2","payload":` + long + `}` + "\n" + `{"type":"event","eventId":"e3","payload":"never"}`
		r := w.request(http.MethodPost, "/v1/events", "ada", body)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s, which is to be sent again", r.Status)
		}
		for i, answer := range w.lines(r) {
			check("POST", answer, i == 1)
		}
		log := &stuck{w.log, make(chan struct{})}
		w.finish()
		w.reads = log
		stop := w.start(gateway.Options{CursorKey: []byte(cursorKey)})
		defer stop()
		c, _ := w.connect("ada", nil)
		for i, payload := range []string{`"never"`, `"never"`, long, `"never"`} {
			w.ok(c.send(event(fmt.Sprint("s", i), payload)))
			synctest.Wait() // the first is being appended, the others wait
		}
		close(log.released)
		for i := range 4 {
			check("WebSocket", w.receive(c), i == 2)
		}
		if n := w.gateway.Clients()[0].Pending; n != 3 {
			t.Errorf("%d events wait for a result, want those 3 that are in the log", n)
		}
	})
}
