package gateway_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// strict is that times are held to what is promised, on a machine that does
// nothing else.
func strict() bool { return os.Getenv("AFTERBAY_PROVE") != "" }

// figure prints a line of a result, and fails where it is more than most.
func figure(t *testing.T, name string, value float64, unit string, most float64) {
	t.Helper()
	fmt.Printf("%s %.4g %s\n", name, value, unit)
	if value > most {
		t.Errorf("%s is %.4g %s, want %.4g at most", name, value, unit, most)
	}
}

// TestResumeBehindTenThousandResults goes on where 10,000 results, among as many
// of others, have not been received.
func TestResumeBehindTenThousandResults(t *testing.T) {
	const behind, parts = 10_000, 10
	c := startChild(t)
	first, connected := c.connect("back", nil, 0)
	_ = first.Close()
	for i := range parts {
		c.ask(fmt.Sprintf("/results?client=back&first=%d&n=%d&bytes=100", 1+i*behind/parts, behind/parts))
		c.ask(fmt.Sprintf("/results?client=other&first=1&n=%d&bytes=100", behind/parts))
	}
	before := c.ask("/resident")
	began := time.Now()
	again, _ := c.connect("back", &wire.Resume{Cursor: connected.Cursor}, 0)
	for seq := range uint64(behind) {
		f, err := again.receive()
		for _, ping := f.(*wire.Ping); ping; _, ping = f.(*wire.Ping) {
			f, err = again.receive()
		}
		if r, ok := f.(*wire.ResultFrame); err != nil || !ok || r.Seq != seq+1 {
			t.Fatalf("%+v, %v; want result %d", f, err, seq+1)
		}
	}
	took, most, room := time.Since(began).Seconds(), 1e9, 64.0 // what the process has beside it moves its collector
	if strict() {
		most, room = 1, 16
	}
	figure(t, "gateway.resume_10000.time", took, "s", most)
	figure(t, "gateway.resume_10000.resident_more", float64(c.ask("/peak")-before)/1024, "MB", room)
}

// TestThoseWhoDoNotReadCostLittle has many connections stand still, each behind by
// more than the network holds for it, while others get results.
func TestThoseWhoDoNotReadCostLittle(t *testing.T) {
	stalled, rounds, window, room, ratio := 200, 1, time.Second, 0.9, 1e9
	if strict() {
		stalled, rounds, window, room, ratio = 1000, 5, 3*time.Second, 0.3, 2
	}
	const clients, each = 10, 1500 // results of 1 KB
	c := startChild(t)
	for i := range clients {
		c.ask(fmt.Sprintf("/results?client=slow%d&first=1&n=%d&bytes=1000", i, each))
	}
	var others []*raw
	for i := range 20 {
		w, _ := c.connect(fmt.Sprint("other", i), nil, 0)
		others = append(others, w)
	}
	var alone, beside []float64
	most := int64(0)
	for round := range rounds {
		alone = append(alone, c.latency(others, round*2, window))
		before, sent := c.ask("/resident"), c.ask("/sent")
		var slow []*raw
		for i := range stalled {
			w, _ := c.connect(fmt.Sprint("slow", i%clients), &wire.Resume{From: wire.FromEarliest}, 4096)
			slow = append(slow, w)
		}
		beside = append(beside, c.latency(others, round*2+1, window))
		most = max(most, c.ask("/peak")-before)
		if n := c.ask("/sent") - sent; n > int64(stalled*each/2) {
			t.Errorf("%d results of %d were sent to those who do not read", n, stalled*each)
		}
		for _, w := range slow {
			_ = w.Close()
		}
	}
	figure(t, fmt.Sprintf("gateway.stalled_%d.resident_more", stalled), float64(most)/1024, "MB", room*float64(stalled))
	figure(t, "gateway.stalled.p99_alone", median(alone), "ms", 1e9)
	figure(t, "gateway.stalled.p99_beside", median(beside), "ms", 1e9)
	figure(t, "gateway.stalled.p99_ratio", median(beside)/median(alone), "x", ratio)
}

// latency returns the 99th percentile of the times from an event to its result, in
// ms, of connections that send one every 20 ms.
func (c *child) latency(conns []*raw, round int, window time.Duration) float64 {
	var mu sync.Mutex
	var times []float64
	var group sync.WaitGroup
	until := time.Now().Add(window)
	for _, w := range conns {
		group.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for i := 0; time.Now().Before(until); i++ {
				<-pace.C
				began := time.Now()
				if err := w.exchange(submissions(round, i, 1), 1); err != nil {
					c.Error(err)
					return
				}
				mu.Lock()
				times = append(times, time.Since(began).Seconds()*1000)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if len(times) == 0 {
		c.Fatal("nothing was measured")
	}
	slices.Sort(times)
	return times[len(times)*99/100]
}

// submissions returns the frames of n events.
func submissions(round, first, n int) []byte {
	var b []byte
	for i := first; i < first+n; i++ {
		b = append(b, frame(fin|opText, fmt.Appendf(nil, `{"type":"event","eventId":"e%04d.%06d","payload":{"text":"a message of a chat, as people write it to each other","user":"u%06d"}}`, round, i, i))...)
	}
	return b
}

// exchange sends frames and waits for so many results, and that all are accepted.
func (w *raw) exchange(frames []byte, n int) error {
	if _, err := w.Write(frames); err != nil {
		return err
	}
	for results, accepted := 0, 0; results < n || accepted < n; {
		_ = w.SetReadDeadline(time.Now().Add(time.Minute))
		_, message, err := w.next()
		switch {
		case err != nil:
			return err
		case bytes.HasPrefix(message, []byte(`{"type":"result"`)):
			results++
		case bytes.HasPrefix(message, []byte(`{"type":"accepted"`)):
			accepted++
		case bytes.HasPrefix(message, []byte(`{"type":"ping"`)):
			if err := w.send(&wire.Pong{}); err != nil {
				return err
			}
		default:
			return fmt.Errorf("it is answered by %s", message)
		}
	}
	return nil
}

// echoed sends n frames and waits for what the echo answers each by.
func (w *raw) echoed(frames []byte, n int) error {
	if _, err := w.Write(frames); err != nil {
		return err
	}
	for range 2 * n {
		_ = w.SetReadDeadline(time.Now().Add(time.Minute))
		if _, _, err := w.next(); err != nil {
			return err
		}
	}
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// TestEventsCostAFewEchoes compares the CPU of an event in and its accepted and
// result out with that of a message which the library alone answers by two as long,
// in one process, by turns; one event of a connection at a time, and many.
func TestEventsCostAFewEchoes(t *testing.T) {
	// An echo reads and writes; an event is parsed, judged, appended and answered
	// by goroutines that wake each other. The bounds are against growing.
	rounds, events, most := 3, 100, [...]float64{10, 6}
	if strict() {
		rounds, events, most = 15, 300, [...]float64{3, 1.5}
	}
	const conns = 20
	c := startChild(t)
	var ours, bare []*raw
	for i := range conns {
		w, _ := c.connect(fmt.Sprint("c", i), nil, 0)
		ours, bare = append(ours, w), append(bare, c.dial("/echo", "nobody", 0))
	}
	connected := bytesOf(ours)
	round := 0
	for i, depth := range []int{1, 32} {
		n := max(10, events/depth)
		var costs, echoes, ratios []float64
		for range rounds {
			round++
			event := c.cpu(ours, n, func(w *raw, i int) error { return w.exchange(submissions(round, i*depth, depth), depth) }) / float64(depth)
			echo := c.cpu(bare, n, func(w *raw, i int) error { return w.echoed(submissions(round, i*depth, depth), depth) }) / float64(depth)
			costs, echoes, ratios = append(costs, event), append(echoes, echo), append(ratios, event/echo)
		}
		name := fmt.Sprintf("gateway.cpu_%d_at_a_time.", depth)
		figure(t, name+"event", median(costs), "us", 1e9)
		figure(t, name+"echo", median(echoes), "us", 1e9)
		figure(t, name+"ratio", median(ratios), "x", most[i])
	}
	if came, echoed := bytesOf(ours)-connected, bytesOf(bare); math.Abs(float64(came-echoed)) > 0.02*float64(came) {
		t.Errorf("%d bytes answered the events, %d those of the echo: it is to send as many", came, echoed)
	}
}

func bytesOf(conns []*raw) (n int) {
	for _, w := range conns {
		n += w.bytes
	}
	return n
}

// cpu returns the CPU of the child, in us, for each of n calls of do for each
// connection.
func (c *child) cpu(conns []*raw, n int, do func(w *raw, i int) error) float64 {
	c.Helper()
	before := c.ask("/cpu")
	var group sync.WaitGroup
	for _, w := range conns {
		group.Go(func() {
			for i := range n {
				if err := do(w, i); err != nil {
					c.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return float64(c.ask("/cpu")-before) / 1000 / float64(n*len(conns))
}
