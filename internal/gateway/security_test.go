package gateway_test

import (
	"bytes"
	"compress/flate"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// TestThoseWhoSendSlowlyAreSentAway drips a byte a second where a header, a body
// and a frame should come.
func TestThoseWhoSendSlowlyAreSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		long := frame(fin|opText, bytes.Repeat([]byte{' '}, 60_000))[:10]
		for _, c := range []struct {
			name string
			conn func() net.Conn
			head []byte
			most time.Duration // a tick of the gateway's clock and one byte longer than its limit
			code int           // of the close
		}{
			{"header", w.listener.dial, []byte("GET /v1/stream HTTP/1.1\r\nHost: gateway\r\nX-Slow: "), 6 * time.Second, 0},
			{"body", w.listener.dial, []byte("POST /v1/events HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer acme.ada\r\nContent-Length: 1000\r\n\r\n"), 32 * time.Second, 0},
			{"body that nobody answers for", w.listener.dial, []byte("POST /v1/events HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000\r\n\r\n"), 32 * time.Second, 0},
			{"body that nobody asked for", w.listener.dial, []byte("GET /v1/openapi.json HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000\r\n\r\n"), 32 * time.Second, 0},
			{"body of a poll", w.listener.dial, []byte("GET /v1/results?wait=1s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer acme.ada\r\nContent-Length: 1000\r\n\r\n"), 32 * time.Second, 0},
			{"body of who is refused", w.listener.dial, []byte("GET /v1/stream HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000\r\n\r\n"), 32 * time.Second, 0},
			{"first frame", func() net.Conn {
				conn, _, err := dialRaw(w.listener.dial(), offered)
				w.ok(err)
				return conn
			}, long, 12 * time.Second, 4508},
			{"frame", func() net.Conn {
				conn, _ := w.connect("ada", nil)
				return conn
			}, long, 28 * time.Second, 4503},
		} {
			conn := c.conn()
			go func() { _, _ = io.Copy(io.Discard, conn) }() // it reads, so that it is not that
			began := time.Now()
			_, err := conn.Write(c.head)
			for err == nil && time.Since(began) <= c.most {
				time.Sleep(time.Second)
				_, err = conn.Write([]byte(" "))
			}
			if err == nil {
				t.Errorf("%s: it is served after %v", c.name, time.Since(began))
			}
			if n := w.gateway.Metrics().Closed.Of(c.code); c.code > 0 && n != 1 {
				t.Errorf("%s: %d connections were closed with %d", c.name, n, c.code)
			}
			_ = conn.Close()
		}
		synctest.Wait()
		if m := w.gateway.Metrics(); m.Connections.Load() != 0 || m.Accepted.Load() != 0 {
			t.Errorf("%d connections are open, %d events were accepted", m.Connections.Load(), m.Accepted.Load())
		}
	})
}

// TestCompressionIsNotTaken offers it, and sends what would be 10 MB.
func TestCompressionIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		var bomb bytes.Buffer
		deflate, err := flate.NewWriter(&bomb, flate.BestCompression)
		w.ok(err)
		for range 10 {
			_, err := deflate.Write(make([]byte, 1<<20))
			w.ok(err)
		}
		w.ok(deflate.Flush())
		c, response, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer acme.ada", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
		w.ok(err)
		if got := response.Header.Get("Sec-WebSocket-Extensions"); got != "" {
			t.Errorf("it takes %q", got)
		}
		go func() { _, _ = c.Write(frame(fin|0x40|opText, bomb.Bytes())) }()
		if frames, how := w.ends(c); len(frames) > 0 || how == nil || how.code != 1002 {
			t.Errorf("it is answered by %v, %v", frames, how)
		}
		r := w.request(http.MethodPost, "/v1/events", "ada", "", "Content-Encoding", "gzip")
		if _ = r.Body.Close(); r.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("a request that is compressed: %s", r.Status)
		}
	})
}

// TestThoseWhoOnlyKnockKeepNoClientOut opens thousands of connections that say
// nothing.
func TestThoseWhoOnlyKnockKeepNoClientOut(t *testing.T) {
	knocks := 1000
	if os.Getenv("AFTERBAY_FULL") != "" {
		knocks = 10_000
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Connections: 400, PongTimeout: time.Minute, Origins: []string{"https://chat.example"}})
		defer w.close()
		taken := 0
		for range knocks {
			c, response, err := dialRaw(w.listener.dial(), offered)
			if err == nil {
				taken++
				go func() { _, _ = io.Copy(io.Discard, c) }()
			} else if response == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
				t.Fatalf("%+v, %v", response, err)
			}
			synctest.Wait() // the server has closed a refused connection, which else counts as one of its own limit
		}
		m := w.gateway.Metrics()
		if taken != 50 || m.Connections.Load() != 50 || m.Full.Load() != uint64(knocks-50) {
			t.Errorf("%d were taken, %d are open, %d refused; want an eighth of 400", taken, m.Connections.Load(), m.Full.Load())
		}
		c, _ := w.connect("ada", nil)
		// A page cannot set Authorization: it has a token among its subprotocols.
		page, _, err := dialRaw(w.listener.dial(), offered+", bearer.acme.page", "Origin: https://chat.example")
		w.ok(err)
		w.ok(page.send(&wire.Connect{}))
		if f, ok := w.receive(page).(*wire.Connected); !ok || f.ClientID != "page" {
			t.Errorf("%+v", f)
		}
		_ = page.Close()
		w.ok(c.send(event("e", `1`)))
		for range 2 {
			w.receive(c)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if m.Connections.Load() != 1 || m.Closed.Of(4508) != 50 {
			t.Errorf("%d are open, %d were closed since they said nothing", m.Connections.Load(), m.Closed.Of(4508))
		}
		later, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		w.ok(later.send(&wire.Connect{Token: "acme.later"}))
		if f, ok := w.receive(later).(*wire.Connected); !ok {
			t.Errorf("%+v", f)
		}
	})
}

func TestNothingSecretIsLogged(t *testing.T) {
	var logged bytes.Buffer // written by its handler, a line at a time
	cursor := ""
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		defer w.close()
		_, foreign := w.connect("eve", nil)
		for _, lines := range [][]string{
			{offered, "Authorization: Bearer hush1", "X-Correlation-Id: first"}, {offered + ", bearer.hush2", "X-Correlation-Id: second"}, {offered, "Origin: https://page.example", "Authorization: Bearer hush4"},
		} {
			if _, _, err := dialRaw(w.listener.dial(), lines...); err == nil {
				t.Errorf("%q is served", lines)
			}
		}
		for _, path := range []string{"/v1/results?token=hush5", "/v1/results?cursor=" + foreign.Cursor} {
			r := w.request(http.MethodGet, path, "ada", "")
			if _ = r.Body.Close(); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", path, r.Status)
			}
		}
		c, _, err := dialRaw(w.listener.dial(), offered, "X-Correlation-Id: third")
		w.ok(err)
		w.ok(c.send(&wire.Connect{Token: "hush6"}))
		w.ends(c)
		cursor = foreign.Cursor
	})
	if text := logged.String(); strings.Contains(text, "hush") || strings.Contains(text, cursor) || strings.Count(text, "token refused") != 3 || strings.Count(text, "origin=https://page.example") != 1 {
		t.Errorf("logged:\n%s", text)
	}
	for _, correlation := range []string{"first", "second", "third"} {
		if text := logged.String(); strings.Count(text, "correlation="+correlation) != 1 {
			t.Errorf("it is not said once that the token of %s was refused:\n%s", correlation, text)
		}
	}
}
