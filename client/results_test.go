package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

func TestRepeatsAreDroppedAndHolesAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := func(seq uint64, id string, status wire.Status, attempt int) *wire.ResultFrame {
			return &wire.ResultFrame{Seq: seq, Cursor: fmt.Sprint("c", seq), EventID: id, Status: status, Attempt: attempt}
		}
		const ok, partial = wire.StatusOK, wire.StatusPartial
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			p.send(hello(), result(7, "a", ok, 0), result(8, "b", partial, 1), result(8, "b", partial, 1), result(9, "b", partial, 2),
				result(10, "b", partial, 1), // of an attempt that was given up
				result(11, "b", partial, 0), // made once
				result(12, "b", partial, 1), result(13, "b", ok, 0), result(3, "x", ok, 0), result(15, "c", ok, 0),
				result(16, "b", partial, 1), // its id was forgotten, and is another event's
				&wire.ErrorFrame{Seq: 17, Cursor: "c17", Error: &wire.Error{Code: wire.CodeEventIDConflict, EventID: "c"}}, result(18, "d", partial, 2),
				&wire.Gap{Requested: "c18", Earliest: "c20"}, result(21, "d", partial, 1), result(22, "d", ok, 0))
			p.wait()
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial, Cursor: "c6", Seq: 6})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var got []string
		for r, err := range c.Results(t.Context()) {
			var gap *client.Gap
			if errors.As(err, &gap) {
				got = append(got, fmt.Sprintf("gap %d-%d", gap.After, gap.Next))
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(r.Seq, " ", r.EventID, " ", r.Status))
			if r.Seq == 22 {
				break
			}
		}
		want := []string{"7 a ok", "8 b partial", "9 b partial", "11 b partial", "13 b ok", "gap 13-15", "15 c ok", "16 b partial", "17 c error",
			"18 d partial", "gap 18-0", "21 d partial", "22 d ok"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		synctest.Wait()
		if m := c.Metrics(); m.Repeats.Load() != 2 || m.Gaps.Load() != 2 || m.Results.Load() != 13 {
			t.Errorf("%d repeats, %d gaps, %d results", m.Repeats.Load(), m.Gaps.Load(), m.Results.Load())
		}
	})
}

// TestApplicationThatTakesNoResultsCanSend has results that wait for an hour; they
// are received all the same.
func TestApplicationThatTakesNoResultsCanSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer w.start(gateway.Options{})()
		c := w.client("ada", client.Options{Buffer: 4})
		defer c.Close()
		const events = 200
		for i := range events {
			began := time.Now()
			w.send(c, fmt.Sprint("e", i), fmt.Sprint(i))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("event %d took %v", i, took)
			}
		}
		time.Sleep(time.Hour)
		w.compare("ada", next(t, c, events))
		nothing(t, c)
		synctest.Wait()
		if n := c.Metrics().Behind.Load(); n == 0 {
			t.Error("no results were dropped")
		}
		if n := c.Metrics().Gaps.Load(); n != 0 {
			t.Errorf("%d gaps", n)
		}
	})
}

// TestResultsThatWereDroppedComeOnceThereIsRoom has no room for a result behind a
// hole, and then for none while it asks for none.
func TestResultsThatWereDroppedComeOnceThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := func(seq uint64) *wire.ResultFrame {
			return &wire.ResultFrame{Seq: seq, Cursor: fmt.Sprint("c", seq), EventID: fmt.Sprint("e", seq), Status: wire.StatusOK}
		}
		cut := make(chan struct{})
		patient := hello()
		patient.PingMs = time.Hour.Milliseconds()
		asked := make(chan string, 8)
		dial := scripted(t, func(n int, connect *wire.Connect, p *peer) {
			cursor := "none"
			if connect.Resume != nil {
				cursor = connect.Resume.Cursor
			}
			asked <- cursor
			p.send(patient)
			switch n {
			case 0:
				p.send(result(7), result(8), result(9), result(11)) // the hole takes the last place
				time.Sleep(time.Minute)
				p.send(&wire.Gap{Requested: "c11", Earliest: "c11"}, result(12))
				<-cut
				return
			case 2:
				p.send(result(11), result(12))
			}
			p.wait()
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial, Cursor: "c6", Seq: 6, Buffer: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var got []string
		take := func(n int) {
			for range n {
				r, err := c.Next(t.Context())
				var gap *client.Gap
				if errors.As(err, &gap) {
					got = append(got, fmt.Sprintf("gap %d-%d", gap.After, gap.Next))
				} else if err != nil {
					t.Fatal(err)
				} else {
					got = append(got, fmt.Sprint(r.Seq))
				}
			}
		}
		time.Sleep(30 * time.Second)
		take(1) // there is room, but not enough to go on
		time.Sleep(time.Minute)
		close(cut)
		time.Sleep(time.Minute)
		take(5)
		nothing(t, c)
		if want := []string{"7", "8", "9", "gap 9-11", "11", "12"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, want := range []string{"c6", "none", "c9"} {
			if cursor := <-asked; cursor != want {
				t.Errorf("a connection goes on behind %q, want %q", cursor, want)
			}
		}
	})
}

// TestAttemptsAreKnownOfSoManyEvents has attempts of more events than are kept: the
// earlier attempt of one that was forgotten is shown.
func TestAttemptsAreKnownOfSoManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 4096 + 1
		dial := scripted(t, func(_ int, _ *wire.Connect, p *peer) {
			p.send(hello())
			for seq := range uint64(2 * events) {
				p.send(&wire.ResultFrame{Seq: seq + 1, Cursor: "c", EventID: fmt.Sprint("e", seq%events), Status: wire.StatusPartial, Attempt: 2 - int(seq/events)})
			}
			p.close(4400)
			p.wait()
		})
		c, err := client.Dial(t.Context(), "ws://gateway", client.Options{Token: tokenOf("ada"), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		next(t, c, events)
		if r := next(t, c, 1)[0]; r.Attempt != 1 {
			t.Errorf("got attempt %d", r.Attempt)
		}
	})
}
