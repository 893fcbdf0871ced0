package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// fleet is the clients of a run, which send events by a schedule. A latency counts from the time
// when an event was due. So it includes delays of the schedule and waits for a connection.
type fleet struct {
	run     string // first part of the ids of its events
	address string
	resumes bool // clients speak afterbay.v1: they have a cursor, and results have a seq
	again   bool // they resend events without a result over the next connection
	rude    bool // they ignore backpressure
	text    string
	clients []*client

	stop  context.CancelFunc
	group sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	start    time.Time  // when event 0 was due
	every    time.Duration
	took     []time.Duration // of each event; 0 where it has no result
	accepted []bool
	count    counts
	dials    map[*client]time.Time // when each came back first, where that is asked
}

// counts are the counts of a fleet.
type counts struct {
	connected, refused, left  int // connections
	ok, failed                int // events by the status of their first result
	repeats, holes, pushed    int
	strange                   int
	odd                       string // the first unexpected message or refusal
	acceptedEvents, published int
}

// newFleet returns n clients of a run, of so many tenants, for a process. It speaks
// afterbay.v1, or what echo and naive design do.
func (b *bench) newFleet(run string, of *process, n, tenants int, resumes bool) *fleet {
	f := &fleet{run: run, address: of.address, resumes: resumes, again: resumes, text: "a message of a chat, as people write it to each other"}
	for i := range n {
		c := &client{fleet: f, tenant: fmt.Sprintf("%s-%d", run, i%tenants), name: fmt.Sprint("c", i), open: map[int]bool{}}
		c.token = tokenOf(c.tenant, c.name)
		f.clients = append(f.clients, c)
	}
	return f
}

const connectAtOnce = 100

// connect connects all clients, and returns when all are connected.
func (f *fleet) connect(ctx context.Context) error {
	ctx, f.stop = context.WithCancel(ctx)
	for i, c := range f.clients {
		f.group.Go(func() { c.run(ctx) })
		if i%connectAtOnce == connectAtOnce-1 {
			if err := f.wait(ctx, time.Minute, func(c *counts) bool { return c.connected > i-connectAtOnce }); err != nil {
				return fmt.Errorf("%s: connect: %w: %+v", f.run, err, f.counted())
			}
		}
	}
	if err := f.wait(ctx, time.Minute, func(c *counts) bool { return c.connected >= len(f.clients) }); err != nil {
		return fmt.Errorf("%s: connect: %w: %+v", f.run, err, f.counted())
	}
	return nil
}

// end closes the connections.
func (f *fleet) end() {
	f.stop()
	f.group.Wait()
}

// wait returns when the counts are so, or an error after most.
func (f *fleet) wait(ctx context.Context, most time.Duration, so func(*counts) bool) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(most); ; {
		f.mu.Lock()
		done := so(&f.count)
		f.mu.Unlock()
		switch {
		case done:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("not within %v", most)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// publish sends rate events a second for so long, one client after the other.
func (f *fleet) publish(ctx context.Context, rate int, length time.Duration) error {
	n := int(float64(rate) * length.Seconds())
	start, every := time.Now().Add(10*time.Millisecond), time.Second/time.Duration(rate)
	f.mu.Lock()
	f.start, f.every = start, every
	f.took, f.accepted, f.count.published = make([]time.Duration, n), make([]bool, n), n
	f.mu.Unlock()
	for i := range n {
		if ahead := time.Until(start.Add(time.Duration(i) * every)); ahead > 0 {
			select {
			case <-time.After(ahead):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		f.clients[i%len(f.clients)].submit(i)
	}
	return nil
}

// answered waits until all events have a result, for at most the given time. The caller must count
// events without a result.
func (f *fleet) answered(ctx context.Context, most time.Duration) error {
	err := f.wait(ctx, most, func(c *counts) bool { return c.ok+c.failed >= c.published })
	if ctx.Err() != nil {
		return err
	}
	return nil
}

// event returns the message of an event. Its user is its key in the log, so that the pipeline does
// not repartition it. Each text is unique: a journal that keeps answers would repeat them.
func (f *fleet) event(c *client, i int) []byte {
	return fmt.Appendf(nil, `{"type":"event","eventId":"%s.%d","payload":{"user":%q,"text":"%s, number %d"}}`, f.run, i, wire.Key(c.tenant, c.name), f.text, i)
}

// note takes the result of an event.
func (f *fleet) note(i int, now time.Time, status string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i < 0 || i >= len(f.took) || f.took[i] != 0 {
		f.count.repeats++
		return
	}
	f.took[i] = max(1, now.Sub(f.start.Add(time.Duration(i)*f.every)))
	if status == "" || status == "ok" { // an echo has none
		f.count.ok++
	} else {
		f.count.failed++
	}
}

func (f *fleet) accept(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i >= 0 && i < len(f.accepted) && !f.accepted[i] {
		f.accepted[i] = true
		f.count.acceptedEvents++
	}
}

func (f *fleet) add(n *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
}

func (f *fleet) repeat()    { f.add(&f.count.repeats) }
func (f *fleet) hole()      { f.add(&f.count.holes) }
func (f *fleet) pushBack()  { f.add(&f.count.pushed) }
func (f *fleet) connected() { f.add(&f.count.connected) }
func (f *fleet) left()      { f.add(&f.count.left) }

func (f *fleet) strange(message []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count.strange++; f.count.odd == "" {
		f.count.odd = string(message)
	}
}

func (f *fleet) refused(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count.refused++; f.count.odd == "" {
		f.count.odd = err.Error()
	}
}

func (f *fleet) dialed(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, before := f.dials[c]; f.dials != nil && !before {
		f.dials[c] = time.Now()
	}
}

// countDials records when each client reconnects first.
func (f *fleet) countDials() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = map[*client]time.Time{}
}

// firstDials returns when the clients came back, in order.
func (f *fleet) firstDials() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.dials), time.Time.Compare)
}

func (f *fleet) counted() counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// lost returns how many events have no result, and how many of those were accepted.
func (f *fleet) lost() (events, accepted int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, took := range f.took {
		if took == 0 {
			events++
			if f.accepted[i] {
				accepted++
			}
		}
	}
	return events, accepted
}

// latencies returns the latencies of the events except a first part, in ms and sorted. An event
// without a result has an infinite latency.
func (f *fleet) latencies(without float64) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []float64
	for _, took := range f.took[int(without*float64(len(f.took))):] {
		if took == 0 {
			list = append(list, math.Inf(1))
			continue
		}
		list = append(list, float64(took)/float64(time.Millisecond))
	}
	slices.Sort(list)
	return list
}

// sound returns an error that a design without losses must not have, or nil.
func (f *fleet) sound() error {
	c := f.counted()
	lost, accepted := f.lost()
	if lost > 0 || c.holes > 0 || c.strange > 0 || c.failed > 0 {
		return fmt.Errorf("%s: of %d events %d have no result (%d were accepted), %d failed; %d holes, %d strange messages: %s",
			f.run, c.published, lost, accepted, c.failed, c.holes, c.strange, strings.TrimSpace(c.odd))
	}
	return nil
}

// quantile returns that of sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return quantile(sorted, 0.5)
}

// sortedFinite returns the latencies of events that have a result.
func sortedFinite(values []float64) []float64 {
	return slices.Sorted(func(yield func(float64) bool) {
		for _, v := range values {
			if !math.IsInf(v, 1) && !yield(v) {
				return
			}
		}
	})
}
