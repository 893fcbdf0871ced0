package gateway_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// TestClientThatSendsMeanwhileHearsWhyItIsSentAway has clients send without an end
// over TCP while they are sent away: each reads the close frame, and can still send then,
// though much of what it sent was never read.
func TestClientThatSendsMeanwhileHearsWhyItIsSentAway(t *testing.T) {
	const clients = 25 // of each kind
	small := frame(fin|opText, []byte(`{"type":"event","eventId":"e","payload":"never"}`))
	large := frame(fin|opText, bytes.Repeat([]byte{' '}, 2000))
	for _, c := range []struct {
		name   string
		secure bool
		sent   []byte // again and again
		code   int
	}{
		{"drain", false, small, 4501},
		{"drain over TLS", true, small, 4501},
		{"too large", false, large, 1009},
		{"bad frames", false, frame(fin|opText, []byte(`{`)), 4506},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, gateway.Options{MessageBytes: 1000, DrainWindow: time.Second, Ping: time.Hour, Tenants: limit.Options{Rate: 1, Burst: 3 * clients}})
			defer w.close()
			dial := w.listenTCP(t, c.secure)
			conns := make([]*raw, clients)
			for i := range conns {
				conns[i] = dial(i)
			}
			var group sync.WaitGroup
			ends := make(chan error, clients)
			for _, conn := range conns {
				group.Go(func() {
					for err := error(nil); err == nil; time.Sleep(time.Millisecond) { // which leaves a busy machine to those who read
						_, err = conn.Write(c.sent)
					}
					_ = conn.Close() // as clients do that cannot send
				})
				group.Go(func() {
					_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
					var err error
					for err == nil {
						_, _, err = conn.next()
					}
					time.Sleep(50 * time.Millisecond)
					if _, cut := conn.Write(c.sent); cut != nil {
						err = fmt.Errorf("it cannot send any more: %w, %s", cut, err)
					}
					ends <- err
					_ = conn.Close()
				})
			}
			if c.code == 4501 {
				w.finish()
			}
			told := 0
			for range clients {
				var how *closed
				if err := <-ends; errors.As(err, &how) && how.code == c.code {
					told++
				} else {
					t.Log(err)
				}
			}
			group.Wait()
			if told != clients {
				t.Errorf("%d of %d clients were told %d", told, clients, c.code)
			}
		})
	}
}

// listenTCP serves the gateway over TCP, or TLS, behind the bounds of addresses. What
// it returns connects client i.
func (w *world) listenTCP(t *testing.T, secure bool) (dial func(i int) *raw) {
	t.Helper()
	addresses, err := limit.New[netip.Prefix](limit.Options{Open: 1000, Burst: 1000})
	w.ok(err)
	server := httptest.NewUnstartedServer(w.gateway.Handler())
	server.Listener = limit.Listen(server.Listener, addresses)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return func(i int) *raw {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		w.ok(err)
		if secure {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // its certificate is of the test
		}
		t.Cleanup(func() { _ = conn.Close() })
		c, _, err := dialRaw(conn, offered, fmt.Sprintf("Authorization: Bearer acme.c%d", i))
		w.ok(err)
		w.ok(c.send(&wire.Connect{}))
		w.receive(c)
		return c
	}
}
