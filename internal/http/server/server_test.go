package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/test/memnet"
)

// world is a server on connections in memory, in virtual time.
type world struct {
	*testing.T
	listener *memnet.Listener
	server   *server.Server
	began    time.Time
}

func newWorld(t *testing.T, o server.Options) *world {
	w := &world{T: t, listener: memnet.Listen(), server: server.New(o), began: time.Now()}
	ended := make(chan error, 1)
	go func() { ended <- w.server.Serve(w.listener) }()
	t.Cleanup(func() {
		_ = w.server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return w
}

// from is a connection from an address.
type from struct {
	net.Conn
	address netip.AddrPort
}

func (f from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(f.address) }

// dial connects from an address.
// uploadSlowly wants a body of 8 MiB to be taken that comes with 2 Mbit a second.
func (w *world) uploadSlowly() {
	w.Helper()
	c := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n")
	for range 64 {
		time.Sleep(time.Second / 2)
		_, _ = c.Write(make([]byte, 128<<10))
	}
	if status := c.status(); status != http.StatusOK {
		w.Error(status)
	}
}

func (w *world) dial(address string) *client {
	w.Helper()
	here, there := net.Pipe()
	if err := w.listener.Give(from{there, netip.AddrPortFrom(netip.MustParseAddr(address), 1)}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	w.Cleanup(func() { _ = here.Close() })
	return &client{here, bufio.NewReader(here), w}
}

type client struct {
	net.Conn
	in *bufio.Reader
	w  *world
}

// send writes text; the server may close the connection meanwhile.
func (c *client) send(text string) *client {
	go func() { _, _ = io.WriteString(c, text) }()
	synctest.Wait()
	return c
}

// status returns that of the next reply.
func (c *client) status() int {
	c.w.Helper()
	reply, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.w.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, reply.Body); err != nil {
		c.w.Fatal(err)
	}
	return reply.StatusCode
}

// closed returns how long after the world began the connection was closed.
func (c *client) closed() time.Duration {
	c.w.Helper()
	if n, err := io.Copy(io.Discard, c.in); err != nil || n > 0 {
		c.w.Fatal(n, err)
	}
	return time.Since(c.w.began)
}

// is reports whether the connection is open.
func (c *client) open() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	_, err := c.in.Peek(1)
	return err == nil || !errors.Is(err, io.EOF)
}

func refuse(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }

func TestRefusedRequestIsAnsweredBeforeItsBodyComes(t *testing.T) {
	for name, head := range map[string]string{
		"small":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{",
		"large":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n{",
		"chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"expects": "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, server.Options{Handler: http.HandlerFunc(refuse)})
				c := w.dial("192.0.2.1").send(head)
				if status := c.status(); status != http.StatusUnauthorized || time.Since(w.began) > 0 {
					t.Errorf("%d after %v", status, time.Since(w.began))
				}
				if after := c.closed(); after > time.Second {
					t.Errorf("closed after %v", after)
				}
			})
		})
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if why, ok := server.AsRefusal(err); ok {
		why.Write(w)
		return
	}
	_, _ = w.Write(body)
}

func TestConnectionServesTheNextRequestWhenABodyWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, server.Options{Handler: http.HandlerFunc(echo)})
		c := w.dial("192.0.2.1")
		for range 3 {
			if status := c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").status(); status != http.StatusOK {
				t.Fatal(status)
			}
			time.Sleep(30 * time.Second) // longer than a body may rest, less than a connection
		}
		if after := c.closed(); after != 120*time.Second {
			t.Errorf("an idle connection was closed after %v", after)
		}
	})
}

func TestBodyHasToComeAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, server.Options{Handler: http.HandlerFunc(echo)})
		half := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhalf")
		head := w.dial("192.0.2.2").send("POST / HTTP/1.1\r\nHost:")
		if status := half.status(); status != http.StatusRequestTimeout || time.Since(w.began) != 10*time.Second {
			t.Errorf("half a body: %d after %v", status, time.Since(w.began))
		}
		if head.open() {
			t.Error("half a header is still there")
		}
		slow := w.dial("192.0.2.3").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 655360\r\n\r\n")
		for range 40 {
			slow.send(strings.Repeat("x", 16<<10))
			time.Sleep(2 * time.Second) // 8 KiB a second
		}
		if status := slow.status(); status != http.StatusOK {
			t.Errorf("a slow body: %d", status)
		}
	})
}

// TestClientsMayNotRest has clients that move much at first.
func TestClientsMayNotRest(t *testing.T) {
	t.Run("body", func(t *testing.T) {
		for name, drip := range map[string]string{"silent": "", "drips": "x"} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, server.Options{Handler: http.HandlerFunc(echo)})
					c := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 1<<20))
					for range 3 {
						time.Sleep(4 * time.Second)
						if drip != "" {
							c.send(drip)
						}
					}
					if status := c.status(); status != http.StatusRequestTimeout || time.Since(w.began) > 12*time.Second {
						t.Errorf("%d after %v", status, time.Since(w.began))
					}
					time.Sleep(time.Second) // for as long as the server waits to close
				})
			})
		}
	})
	t.Run("reply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			done := make(chan error, 1)
			w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(make([]byte, 8<<20))
				done <- err
			})})
			c := w.dial("192.0.2.1").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			_, _ = io.CopyN(io.Discard, c, 1<<20)
			go func() {
				for { // 4 KiB a second
					if _, err := io.CopyN(io.Discard, c, 4<<10); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			if err := <-done; err == nil || time.Since(w.began) > time.Minute {
				t.Errorf("%v after %v", err, time.Since(w.began))
			}
			_ = c.Close()
			time.Sleep(2 * time.Second) // the client ends
		})
	})
	t.Run("busy handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = r.Body.Read(make([]byte, 1))
				time.Sleep(time.Minute)
				echo(w, r)
			})})
			c := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
			if status := c.status(); status != http.StatusOK {
				t.Error(status)
			}
		})
	})
}

// TestMemoryIsHeldForAboutAMinute has clients that move much at first, and then as little
// as small requests may.
func TestMemoryIsHeldForAboutAMinute(t *testing.T) {
	slowly := func(move func(n int64) error) {
		for move(8<<10) == nil {
			time.Sleep(time.Second)
		}
	}
	t.Run("body", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := server.ReadBody(r, 64<<20)
				if why, ok := server.AsRefusal(err); ok {
					why.Write(w)
				}
			})})
			c := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n" + strings.Repeat("x", 16<<20))
			go slowly(func(n int64) error {
				_, err := c.Write(make([]byte, n))
				return err
			})
			if status := c.status(); status != http.StatusRequestTimeout || time.Since(w.began) > 20*time.Second || w.server.Memory().Used() > 0 {
				t.Errorf("%d after %v, %d bytes are held", status, time.Since(w.began), w.server.Memory().Used())
			}
			_ = c.Close()
			time.Sleep(2 * time.Second) // the client ends
		})
	})
	t.Run("reply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			done := make(chan error, 1)
			w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = server.RoomOf(r.Context()).Reserve(32 << 20)
				_, err := w.Write(make([]byte, 32<<20))
				done <- err
			})})
			c := w.dial("192.0.2.1").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			_, _ = io.CopyN(io.Discard, c, 16<<20)
			go slowly(func(n int64) error {
				_, err := io.CopyN(io.Discard, c, n)
				return err
			})
			if err := <-done; err == nil || time.Since(w.began) > 30*time.Second {
				t.Errorf("%v after %v", err, time.Since(w.began))
			}
			_ = c.Close()
			time.Sleep(2 * time.Second) // the client ends
		})
	})
	t.Run("fast enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := server.ReadBody(r, 8<<20); err != nil || len(body) != 8<<20 {
					w.WriteHeader(http.StatusBadRequest)
				}
			})})
			w.uploadSlowly()
		})
	})
}

// TestFewRoomsWork has many rooms work, rest, wait for a body and wait for memory.
func TestFewRoomsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var works, most atomic.Int64
		w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			room := server.RoomOf(r.Context())
			body, err := room.OpenBody(r, 1<<20)
			if err != nil {
				t.Error(err)
				return
			}
			_ = room.Work()
			_, _ = body.Read(make([]byte, 1)) // it does not come yet
			most.Store(max(most.Load(), works.Add(1)))
			time.Sleep(time.Second)
			works.Add(-1)
			room.Rest()
		})})
		var all []*client
		limit := 2 * runtime.GOMAXPROCS(0)
		for range 10 * limit {
			all = append(all, w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"))
		}
		for _, c := range all {
			c.send("x")
		}
		for _, c := range all {
			if status := c.status(); status != http.StatusOK {
				t.Error(status)
			}
		}
		if most.Load() != int64(limit) || time.Since(w.began) != 10*time.Second {
			t.Errorf("%d of %d worked at a time, all in %v", most.Load(), limit, time.Since(w.began))
		}
	})
}

func TestContextOfARequestOutlivesThePaceOfItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
				w.WriteHeader(http.StatusNoContent)
			}
		})})
		if status := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").status(); status != http.StatusNoContent {
			t.Error(status)
		}
	})
}

func TestReplyThatIsNotReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			done <- err
		})})
		w.dial("192.0.2.1").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if err := <-done; err == nil || time.Since(w.began) > 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(w.began))
		}
	})
}

// classOf serves /healthz beside data.
func classOf(r *http.Request) server.Class {
	if r.URL.Path == "/healthz" {
		return server.Health
	}
	return server.Data
}

const health = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

func TestHealthAnswersBesideManyConnections(t *testing.T) {
	for name, head := range map[string]string{"silent": "", "half a header": "GET / HT", "half a body": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{"} {
		for _, same := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " of one address ", same), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, server.Options{Class: classOf, Connections: 20, Requests: 100, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/" {
							_, _ = io.Copy(io.Discard, r.Body)
						}
					})})
					for i := range 300 {
						address := "192.0.2.1"
						if !same {
							address = fmt.Sprintf("10.0.%d.%d", i/100, i%100)
						}
						w.dial(address).send(head)
					}
					began := time.Now()
					if status := w.dial("192.0.2.1").send(health).status(); status != http.StatusOK || time.Since(began) > time.Second {
						t.Errorf("%d after %v", status, time.Since(began))
					}
				})
			})
		}
	}
}

// TestHealthAnswersBehindAFlood has as many connections wait to be accepted as the system
// queues, while all places have requests under way.
func TestHealthAnswersBehindAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, server.Options{Class: classOf, Connections: 1024, Requests: 1024, Handler: http.HandlerFunc(echo)})
		for range 768 {
			w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{")
		}
		queued := func(head string) *client {
			here, there := net.Pipe()
			t.Cleanup(func() { _ = here.Close() })
			go func() { _ = w.listener.Give(from{there, netip.MustParseAddrPort("192.0.2.1:1")}) }()
			synctest.Wait()
			go func() { _, _ = io.WriteString(here, head) }()
			return &client{here, bufio.NewReader(here), w}
		}
		for range 4096 {
			queued("GET / HT")
		}
		began := time.Now()
		if status := queued(health).status(); status != http.StatusOK || time.Since(began) > time.Second {
			t.Errorf("%d after %v", status, time.Since(began))
		}
	})
}

func TestIdleConnectionsOfAnAddressMakeRoomForIts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, server.Options{Connections: 10, ConnectionsEach: 2, Handler: http.HandlerFunc(echo)})
		other, first, second := w.dial("192.0.2.9"), w.dial("192.0.2.1"), w.dial("192.0.2.1")
		third := w.dial("192.0.2.1")
		time.Sleep(time.Second) // for as long as connections are fresh
		if first.open() || !second.open() || !third.open() || !other.open() {
			t.Error(first.open(), second.open(), third.open(), other.open())
		}
	})
}

func TestDataIsRefusedInTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, server.Options{Class: classOf, Connections: 4, ConnectionsEach: 4, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				<-release
			}
		})})
		defer close(release)
		for range 4 {
			w.dial("192.0.2.1").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		if status := w.dial("192.0.2.2").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status(); status != http.StatusServiceUnavailable {
			t.Errorf("data: %d", status)
		}
		if status := w.dial("192.0.2.2").send(health).status(); status != http.StatusOK {
			t.Errorf("health: %d", status)
		}
	})
}

func TestRequestsOverTheirBoundAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, server.Options{Class: classOf, Requests: 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				<-release
			}
		})})
		for range 2 {
			w.dial("192.0.2.1").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		c := w.dial("192.0.2.1").send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
		if status := c.status(); status != http.StatusTooManyRequests || c.closed() > time.Second {
			t.Errorf("%d, closed after %v", status, time.Since(w.began))
		}
		if status := w.dial("192.0.2.1").send(health).status(); status != http.StatusOK {
			t.Error(status)
		}
		close(release)
		synctest.Wait()
		if status := w.dial("192.0.2.1").send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status(); status != http.StatusOK {
			t.Error(status)
		}
	})
}

func TestRefusedStreamLeavesTheOthersOfItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, server.Options{Requests: 1, Connections: 2, ConnectionsEach: 2, Plain2: true, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })})
		transport := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(context.Context, string, string) (net.Conn, error) { return w.dial("192.0.2.1").Conn, nil }}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		status := make(chan int, 2)
		for range 2 {
			go func() {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil) // the URL is right
				reply, err := transport.RoundTrip(r)
				if err != nil {
					t.Error(err)
					status <- 0
					return
				}
				_ = reply.Body.Close()
				status <- reply.StatusCode
			}()
			time.Sleep(time.Second)
		}
		if got := <-status; got != http.StatusTooManyRequests {
			t.Errorf("the second: %d", got)
		}
		for range 3 {
			w.dial("192.0.2.1")
			time.Sleep(time.Second)
		}
		close(release)
		if got := <-status; got != http.StatusOK {
			t.Errorf("the first: %d", got)
		}
		time.Sleep(time.Minute) // the connections end
	})
}

// TestDeadlineMayComeAfterTheHandler sets one as the end of a context does, which is on
// its way when the handler returns.
func TestDeadlineMayComeAfterTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := make(chan *http.ResponseController, 1)
		w := newWorld(t, server.Options{Plain2: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { after <- http.NewResponseController(w) })})
		transport := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(context.Context, string, string) (net.Conn, error) { return w.dial("192.0.2.1").Conn, nil }}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil) // the URL is right
		reply, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		control := <-after
		if err := errors.Join(control.SetReadDeadline(time.Now()), control.SetWriteDeadline(time.Now())); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestMemoryIsChargedBySizeAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := server.NewBudget(4 << 20)
		hold := make(chan struct{})
		w := newWorld(t, server.Options{Memory: budget, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			var n int64
			_, _ = fmt.Sscan(r.URL.Query().Get("need"), &n)
			if err := server.RoomOf(r.Context()).Take(n); err != nil {
				why, _ := server.AsRefusal(err)
				why.Write(w)
				return
			}
			if r.URL.Query().Has("hold") {
				<-hold
			}
		})})
		ask := func(query string, body int) *client {
			return w.dial("192.0.2.1").send(fmt.Sprintf("POST /?%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", query, body, strings.Repeat("x", body)))
		}
		for _, c := range []struct {
			need, body, status int
		}{{600 << 10, 0, 200}, {1 << 20, 0, 413}, {1 << 20, 10 << 10, 200}, {2 << 20, 10 << 10, 413}, {4 << 20, 100 << 10, 200}, {5 << 20, 100 << 10, 413}} {
			if status := ask(fmt.Sprint("need=", c.need), c.body).status(); status != c.status {
				t.Errorf("%d of %d bytes: %d", c.need, c.body, status)
			}
		}
		holder := ask("hold&need=3900000", 100<<10)
		before := time.Now()
		if status := ask("need=600000", 0).status(); status != http.StatusServiceUnavailable || time.Since(before) != 2*time.Second {
			t.Errorf("%d after %v", status, time.Since(before))
		}
		close(hold)
		if status := holder.status(); status != http.StatusOK || budget.Used() != 0 {
			t.Errorf("%d, %d bytes in use", status, budget.Used())
		}
	})
}
