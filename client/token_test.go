package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// TestTokensAreRenewed has a token that ends after 100 s: there is none when it is
// asked for first, the next one is refused, then one is taken, and one is for ever.
func TestTokensAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		ends := func() time.Time { return time.Now().Add(100 * time.Second) }
		brought := make(chan string, 10)
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			h := hello()
			h.PingMs, h.ExpiresAt = 1_000_000, ends()
			p.send(h)
			n := 0
			for f := range p.frames {
				refresh, ok := f.(*wire.Refresh)
				if !ok {
					t.Errorf("it sends %+v", f)
					continue
				}
				brought <- fmt.Sprint(refresh.Token, " after ", time.Since(began).Truncate(time.Second))
				switch n++; n {
				case 1:
					p.send(&wire.ErrorFrame{ID: refresh.ID, Error: &wire.Error{Code: wire.CodeBadToken, Message: "no"}})
				case 2:
					p.send(&wire.Refreshed{ID: refresh.ID, ExpiresAt: ends()})
				default:
					p.send(&wire.Refreshed{ID: refresh.ID})
				}
			}
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Dial: dial, Token: func(context.Context) (string, error) {
			if asked++; asked == 2 {
				return "", errors.New("no tokens today")
			}
			return fmt.Sprint("t", asked), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(400 * time.Second)
		c.Close()
		close(brought)
		var got []string
		for b := range brought {
			got = append(got, b)
		}
		if want := []string{"t3 after 1m33s", "t4 after 1m43s", "t5 after 2m58s"}; !slices.Equal(got, want) {
			t.Errorf("tokens are brought %q, want %q", got, want)
		}
		if m := c.Metrics(); m.Connects.Load() != 1 || m.Renewals.Load() != 3 {
			t.Errorf("%d connections, %d renewals", m.Connects.Load(), m.Renewals.Load())
		}
	})
}

// TestConnectionsOutliveTheirTokens has tokens of a minute, and for an hour none.
func TestConnectionsOutliveTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer w.start(gateway.Options{})()
		began := time.Now()
		var asked atomic.Int32
		c := w.client("ada", client.Options{Token: func(context.Context) (string, error) {
			asked.Add(1)
			if since := time.Since(began); since > time.Hour && since < 2*time.Hour {
				return "", errors.New("no tokens")
			}
			return fmt.Sprintf("acme.ada~%d", time.Now().Add(time.Minute).Unix()), nil
		}})
		defer c.Close()
		w.send(c, "e0", `1`)
		time.Sleep(time.Hour)
		w.send(c, "e1", `1`)
		if m := c.Metrics(); m.Connects.Load() != 1 || asked.Load() < 79 || asked.Load() > 83 { // one each 45 s
			t.Errorf("%d connections and %d tokens in an hour", m.Connects.Load(), asked.Load())
		}
		time.Sleep(2 * time.Minute)
		if n := w.metrics().Closed.Of(4502); n != 1 {
			t.Errorf("%d connections were closed since their token had ended", n)
		}
		w.send(c, "e2", `1`) // an hour later
		if since := time.Since(began); since < 2*time.Hour || since > 2*time.Hour+time.Minute || c.Metrics().Connects.Load() != 2 {
			t.Errorf("after %v, by %d connections", since, c.Metrics().Connects.Load())
		}
		w.compare("ada", next(t, c, 3))
	})
}

// TestTokenThatHardlyEndsIsNotRenewed has one that ends in 150 years.
func TestTokenThatHardlyEndsIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			h := hello()
			h.PingMs, h.ExpiresAt = 10_000_000, time.Now().AddDate(150, 0, 0)
			p.send(h)
			for range p.frames {
				t.Error("it sends something")
			}
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Dial: dial, Token: func(context.Context) (string, error) { return "t", nil }})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.Close()
		if n := c.Metrics().Renewals.Load(); n != 0 {
			t.Errorf("%d renewals in an hour", n)
		}
	})
}
