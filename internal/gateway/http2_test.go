package gateway_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/http/server"
)

// TestStreamsOverHTTP2GoOn has server-sent events pause for longer than a client may
// take to read them.
func TestStreamsOverHTTP2GoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		l := newListener(t)
		server := w.gateway.Server(server.Options{Plain2: true})
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial2(), nil }}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway/v1/results", nil)
		w.ok(err)
		request.Header.Set("Authorization", "Bearer acme.ada")
		response, err := transport.RoundTrip(request)
		w.ok(err)
		if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", response.Proto, response.Status)
		}
		lines := make(chan string, 100)
		go func() { // until the body is closed
			defer close(lines)
			for s := bufio.NewScanner(response.Body); s.Scan(); {
				lines <- s.Text()
			}
		}()
		time.Sleep(time.Minute) // pings are every 15 s
		w.lines(w.request(http.MethodPost, "/v1/events", "ada", `{"type":"event","eventId":"e1","payload":1}`))
		for line := ""; !strings.Contains(line, `"eventId":"e1"`); {
			var more bool
			if line, more = <-lines; !more {
				t.Fatal("the stream has ended")
			}
		}
		_ = response.Body.Close()
		transport.CloseIdleConnections()
		w.ok(server.Close())
		<-ended
	})
}

// dial2 is dial without the check of what is sent, which is of HTTP/1.
func (l *listener) dial2() net.Conn {
	client, server := net.Pipe()
	_ = l.Give(server)
	return client
}
