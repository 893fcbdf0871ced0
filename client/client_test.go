package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/test/seeds"
)

func event(id, payload string) *client.Event {
	return &client.Event{EventID: id, Payload: []byte(payload)}
}

// next returns the next n results.
func next(t testing.TB, c *client.Client, n int) (results []*client.Result) {
	t.Helper()
	for len(results) < n {
		r, err := c.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d results: %v", len(results), err)
		}
		results = append(results, r)
	}
	return results
}

// nothing sees that no result comes for a minute.
func nothing(t testing.TB, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more comes: %+v, %v", r, err)
	}
}

func TestEventsAreAcceptedAndResultsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer w.start(gateway.Options{})()
		c := w.client("ada", client.Options{})
		for i := range 100 {
			w.send(c, fmt.Sprint("e", i), fmt.Sprint(i))
		}
		got := next(t, c, 100)
		w.compare("ada", got)
		c.Close()
		for _, err := range c.Results(t.Context()) {
			if !errors.Is(err, client.ErrClosed) {
				t.Errorf("after its end: %v", err)
			}
		}
		if err := c.Send(t.Context(), event("late", `1`)); !errors.Is(err, client.ErrClosed) {
			t.Errorf("sent after the end: %v", err)
		}

		// Another process goes on where the application was.
		at := got[39]
		again := w.client("ada", client.Options{Cursor: at.Cursor, Seq: at.Seq})
		w.compare("ada", append(got[:40:40], next(t, again, 60)...))
		nothing(t, again)
		again.Close()
		all := w.client("ada", client.Options{Earliest: true})
		w.compare("ada", next(t, all, 100))
		all.Close()
	})
}

func TestConnectionsCutAtRandomBytesLoseAndRepeatNothing(t *testing.T) {
	const clients, events = 4, 40
	seeds.Run(t, 20, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.close()
			defer w.start(gateway.Options{Connections: 1 << 20, PendingLimit: 8})()
			var mu sync.Mutex // of random
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := w.dial(ctx, network, address)
				mu.Lock()
				defer mu.Unlock()
				return &cut{conn, random.Intn(8000), random.Intn(8000)}, err
			}
			var cuts uint64
			for i := range clients {
				name := fmt.Sprint("c", i)
				c := w.client(name, client.Options{Dial: dial, Buffer: 1 << (2 * i)})
				var sends sync.WaitGroup
				for k := range events {
					sends.Go(func() { w.send(c, fmt.Sprint("e", k), fmt.Sprint(k)) })
				}
				got := next(t, c, events)
				sends.Wait()
				got = append(got, w.rest(c, name, events)...)
				w.compare(name, got)
				nothing(t, c)
				cuts += c.Metrics().Connects.Load() - 1
				c.Close()
			}
			if cuts == 0 {
				t.Error("no connection was cut")
			}
		})
	})
}

func TestGatewaysThatComeAndGoLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		options := gateway.Options{DrainWindow: 2 * time.Second}
		stop := w.start(options)
		const clients, events = 5, 120
		var group sync.WaitGroup
		for i := range clients {
			name := fmt.Sprint("c", i)
			c := w.client(name, client.Options{})
			group.Go(func() {
				for k := range events { // for 24 s
					w.send(c, fmt.Sprint("e", k), fmt.Sprint(k))
					time.Sleep(200 * time.Millisecond)
				}
			})
			group.Go(func() {
				var got []*client.Result
				for r, err := range c.Results(t.Context()) {
					if err != nil {
						t.Error(err)
						break
					}
					if got = append(got, r); r.EventID == fmt.Sprint("e", events-1) {
						break
					}
				}
				w.compare(name, got)
				if n := c.Metrics().Connects.Load(); n < 2 {
					t.Errorf("%s was connected %d times", name, n)
				}
				c.Close()
			})
		}
		for range 3 {
			time.Sleep(4 * time.Second)
			stop()
			time.Sleep(time.Second) // without any
			stop = w.start(options)
		}
		group.Wait()
		stop()
	})
}

func TestBackpressureIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer w.start(gateway.Options{PendingLimit: 2})()
		c := w.client("ada", client.Options{})
		defer c.Close()
		began := time.Now()
		var sends sync.WaitGroup
		for i := range 10 {
			sends.Go(func() { w.send(c, fmt.Sprint("e", i), `"slow"`) })
		}
		got := next(t, c, 10)
		sends.Wait()
		w.compare("ada", got)
		if took := time.Since(began); took < 10*time.Second || took > 2*time.Minute {
			t.Errorf("ten events of a second each took %v", took)
		}
		refused, seen := w.metrics().Refused.Load(), c.Metrics().Backpressure.Load()
		if refused == 0 || refused != seen || refused > 300 {
			t.Errorf("%d events were not taken, the client saw %d", refused, seen)
		}
	})
}

func TestCloseCodesEndTheClientOrBringItBack(t *testing.T) {
	for _, x := range []struct {
		code  uint16
		final bool
	}{
		{4000, true}, {4001, true}, {4003, true}, {4008, true}, {4009, true}, {4010, true}, {4499, true}, {1009, true},
		{4500, false}, {4501, false}, {4502, false}, {4503, false}, {4504, false}, {4508, false}, {4507, false}, {4999, false}, {1000, false}, {1001, false}, {1011, false}, {0, false},
	} {
		t.Run(fmt.Sprint(x.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := scripted(t, func(n int, connect *wire.Connect, p *peer) {
					p.send(hello())
					switch {
					case n > 0:
						if connect.Resume == nil || connect.Resume.Cursor != "c0" {
							t.Errorf("it comes again with %+v", connect.Resume)
						}
						p.send(&wire.ResultFrame{Seq: 1, Cursor: "c1", EventID: "e", Status: wire.StatusOK})
						p.wait()
					case x.code == 0:
						_ = p.conn.NetConn().Close()
					default:
						p.close(x.code)
					}
				})
				c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial})
				var closed *client.CloseError
				if err == nil {
					defer c.Close()
					_, err = c.Next(t.Context())
				}
				if x.final != (err != nil) || x.final && (!errors.As(err, &closed) || closed.Code != int(x.code)) {
					t.Errorf("after %d: %v", x.code, err)
				}
			})
		})
	}
}

func TestRefusedClientsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer w.start(gateway.Options{})()
		eve := w.client("eve", client.Options{})
		w.send(eve, "e", `1`)
		foreign := next(t, eve, 1)[0].Cursor
		eve.Close()

		_, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: w.dial, Cursor: foreign})
		var problem *wire.Error
		if !errors.As(err, &problem) || problem.Code != wire.CodeBadCursor {
			t.Errorf("with the cursor of another: %v", err)
		}
		_, err = client.Dial(t.Context(), "ws://gateway", client.Options{Token: func(context.Context) (string, error) { return "nobody", nil }, Dial: w.dial})
		var status *client.StatusError
		if !errors.As(err, &status) || status.Status != 401 || !strings.Contains(err.Error(), "its log has the error") {
			t.Errorf("with a bad token: %v", err)
		}
		first := w.client("ada", client.Options{SessionID: "tab"})
		defer first.Close()
		second := w.client("ada", client.Options{SessionID: "tab"})
		defer second.Close()
		var closed *client.CloseError
		if _, err := first.Next(t.Context()); !errors.As(err, &closed) || closed.Code != 4009 {
			t.Errorf("replaced: %v", err)
		}

		// What passes by itself is waited for: tokens that cannot be had, gateways that are not there.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		failed := errors.New("no tokens today")
		_, err = client.Dial(ctx, "ws://gateway", client.Options{Token: func(context.Context) (string, error) { return "", failed }, Dial: w.dial})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, failed) {
			t.Errorf("without a token: %v", err)
		}
	})
}

// TestFailuresAreFollowedByWaitsThatGrow has a gateway that ends all connections at
// once, but one after 11 s, and one with a time to come back.
func TestFailuresAreFollowedByWaitsThatGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held, hinted, last = 60, 61, 62
		var begins, ends []time.Time
		finished := make(chan struct{})
		dial := scripted(t, func(n int, _ *wire.Connect, p *peer) {
			begins = append(begins, time.Now())
			p.send(hello())
			switch n {
			case held:
				time.Sleep(11 * time.Second)
			case hinted:
				p.send(&wire.Disconnect{Code: 4501, Reason: "drain", Reconnect: true, RetryAfterMs: 7000})
			case last:
				close(finished)
				p.wait()
				return
			}
			ends = append(ends, time.Now())
			p.close(4507)
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		<-finished
		c.Close()
		var late time.Duration
		for i := range last {
			wait, most := begins[i+1].Sub(ends[i]), 20*time.Second
			switch {
			case i < 6:
				most = 500 * time.Millisecond << i
			case i == held:
				most = 500 * time.Millisecond
			case i == hinted:
				most = 7 * time.Second
			default:
				late += wait
			}
			if wait > most || i == hinted && wait < most {
				t.Errorf("after connection %d it waited %v, want at most %v", i, wait, most)
			}
		}
		if mean := late / (held - 6); mean < 5*time.Second || mean > 15*time.Second {
			t.Errorf("at last it waits %v on average, want 10 s", mean)
		}
	})
}

// TestEventIsGivenUp cancels an event before it has a result.
func TestEventIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer w.start(gateway.Options{})()
		c := w.client("ada", client.Options{})
		w.send(c, "e1", `"never"`)
		w.ok(c.Cancel(t.Context(), "e1"))
		if got := next(t, c, 1); got[0].EventID != "e1" || got[0].Status != wire.StatusRejected || got[0].Error.Code != wire.CodeCancelled {
			t.Errorf("%+v", got[0])
		}
		if err := c.Cancel(t.Context(), "no id"); err == nil {
			t.Error("an id that is none is cancelled")
		}
		c.Close()
	})
}

// TestResultSaysThatItsEventIsInTheLog has a gateway that says nothing else of it.
func TestResultSaysThatItsEventIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			p.send(hello())
			<-p.frames
			p.send(&wire.ResultFrame{Seq: 1, Cursor: "c1", EventID: "a", Status: wire.StatusOK})
			p.wait()
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Send(ctx, event("a", "1")); err != nil {
			t.Error(err)
		}
	})
}

func TestSilentGatewayIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		came := make(chan time.Duration, 4)
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			came <- time.Since(began)
			p.send(hello())
			p.wait()
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		<-came
		if after := <-came; after < 25*time.Second || after > 26*time.Second {
			t.Errorf("it came again after %v, want 25 s and at most half of one", after)
		}
	})
}

func TestEventsThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			p.send(hello())
			for f := range p.frames {
				e, ok := f.(*wire.Submission)
				if !ok {
					continue
				}
				switch tries++; {
				case e.EventID == "bad":
					p.send(&wire.ErrorFrame{Error: &wire.Error{Code: wire.CodeBadEvent, Message: "no", EventID: e.EventID}})
				case e.EventID == "broken" && tries < 4:
					p.send(&wire.ErrorFrame{Error: &wire.Error{Code: wire.CodeInternal, Message: "the log", EventID: e.EventID, Retryable: true}})
				case e.EventID == "broken":
					p.send(&wire.Accepted{EventID: e.EventID})
				}
			}
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		var problem *wire.Error
		if err := c.Send(t.Context(), event("bad", `1`)); !errors.As(err, &problem) || problem.Code != wire.CodeBadEvent {
			t.Errorf("refused: %v", err)
		}
		if err := c.Send(t.Context(), event("broken", `1`)); err != nil || tries != 4 {
			t.Errorf("the log did not take it at first: %v after %d tries", err, tries)
		}
		if err := c.Send(t.Context(), event("large", `"`+strings.Repeat("x", 64<<10)+`"`)); !errors.As(err, &problem) || problem.Code != wire.CodeTooLarge {
			t.Errorf("too large: %v", err)
		}
		for _, e := range []*client.Event{event("a/b", `1`), event("e", ``), event("e", `{`)} {
			if err := c.Send(t.Context(), e); err == nil {
				t.Errorf("event %q with payload %s was sent", e.EventID, e.Payload)
			}
		}
		// Nobody answers this one.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waits := make(chan error)
		go func() { waits <- c.Send(ctx, event("lost", `1`)) }()
		synctest.Wait()
		if err := c.Send(t.Context(), event("lost", `1`)); err == nil || !strings.Contains(err.Error(), "being sent") {
			t.Errorf("one event twice at a time: %v", err)
		}
		if err := <-waits; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may be in the log") {
			t.Errorf("nobody answers: %v", err)
		}
		go func() { waits <- c.Send(t.Context(), event("lost", `1`)) }()
		synctest.Wait()
		c.Close()
		if err := <-waits; !errors.Is(err, client.ErrClosed) {
			t.Errorf("closed meanwhile: %v", err)
		}
	})
}

func TestConnectionsAreEncrypted(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	defer w.start(gateway.Options{DrainWindow: time.Millisecond})()
	server := httptest.NewUnstartedServer(w.gateway.Handler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	server.StartTLS()
	defer server.Close()
	settings := server.Client().Transport.(*http.Transport).TLSClientConfig
	c, err := client.Dial(t.Context(), server.URL, client.Options{Token: tokenOf("ada"), TLS: settings})
	w.ok(err)
	defer c.Close()
	w.send(c, "e", `1`)
	w.compare("ada", next(t, c, 1))

	// One whose certificate is not known is no gateway: the client comes again.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dials := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == 2 {
			cancel()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	var unknown *tls.CertificateVerificationError
	if _, err := client.Dial(ctx, server.URL, client.Options{Token: tokenOf("ada"), Dial: dial}); !errors.As(err, &unknown) {
		t.Errorf("without its certificate: %v", err)
	}
}

func TestOptionsAndAddressesThatMakeNoSense(t *testing.T) {
	for _, o := range []client.Options{
		{}, {Token: tokenOf("a"), Seq: 1}, {Token: tokenOf("a"), Cursor: "c", Earliest: true}, {Token: tokenOf("a"), Buffer: -1}, {Token: tokenOf("a"), MessageBytes: -1},
	} {
		if _, err := client.Dial(t.Context(), "ws://gateway", o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, address := range []string{"", "gateway:80", "ftp://gateway", "ws://", "://"} {
		if _, err := client.Dial(t.Context(), address, client.Options{Token: tokenOf("a")}); err == nil || !strings.Contains(err.Error(), "address") {
			t.Errorf("address %q: %v", address, err)
		}
	}
}
