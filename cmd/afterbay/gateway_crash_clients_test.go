package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// totalsPipeline counts and sums what a client sent. An event whose v is no number
// is a dead letter; one in thirteen is filtered after it was counted.
const totalsPipeline = `pipeline: totals
input:
  topic: numbers
  partitions: 4
  key: user
  fields: {user: string, n: int, v: int}
replies: [totals]
steps:
  - features:
      seen:   {windows: [24h], aggregates: [count]}
      newest: {value: v, last: 5, aggregates: [sum]}
  - route:
      quiet: {when: 'n % 13 == 7', steps: drop}
      default:
        steps:
          - emit: {topic: totals, value: [user, n, seen.count_24h, newest.sum]}
`

// expected is the result that an event should have, by arithmetic that has nothing of
// the pipeline.
type expected struct {
	status     wire.Status
	count, sum int // not where it is filtered
	filtered   bool
}

// crowd is clients that send events at a rate of all together, and check what
// comes of each.
type crowd struct {
	t       *testing.T
	every   time.Duration // between events of a client
	roads   []*road       // to gateways
	dials   atomic.Int64
	talkers []*talker
	group   sync.WaitGroup
	life    context.Context //nolint:containedctx // of the test
	end     context.CancelFunc
	enough  atomic.Bool // no new events

	mu       sync.Mutex // guards what follows
	round    context.Context
	endRound context.CancelFunc
	problems []string
}

// talker is one of the clients. It sends one event after the other, and keeps what
// an application would.
type talker struct {
	crowd    *crowd
	name     string
	token    func(context.Context) (string, error)
	numbered bool // its events have sequence numbers

	mu                        sync.Mutex // guards what follows
	want                      []expected // of all events, the newest of which may not be accepted yet
	count                     int
	newest                    []int  // values
	accepted                  int    // events
	ended                     []bool // those with a result
	results, duplicates       int
	cursor                    string // of the newest result
	seq                       uint64
	client                    *client.Client
	resent, connects, repeats uint64 // of clients before
}

func newCrowd(t *testing.T, keys *auth.Keyring, clients int, rate float64, roads ...*road) *crowd {
	c := &crowd{t: t, every: time.Duration(float64(clients) / rate * float64(time.Second)), roads: roads}
	c.life, c.end = context.WithCancel(context.WithoutCancel(t.Context()))
	c.round, c.endRound = context.WithCancel(c.life)
	for i := range clients {
		k := &talker{crowd: c, name: fmt.Sprint("c", i), numbered: i%2 == 0}
		who := auth.Identity{Tenant: fmt.Sprint("t", i%7), Client: k.name}
		k.token = func(context.Context) (string, error) { return keys.Issue("k1", who, time.Hour) }
		c.talkers = append(c.talkers, k)
	}
	t.Cleanup(func() {
		c.end()
		c.group.Wait()
	})
	return c
}

// start has the clients come and talk until the end.
func (c *crowd) start() {
	for _, k := range c.talkers {
		c.group.Go(func() {
			for c.life.Err() == nil {
				c.mu.Lock()
				round := c.round
				c.mu.Unlock()
				if err := k.session(round); err != nil && round.Err() == nil {
					c.problem("%s: %v", k.name, err)
					return
				}
			}
		})
	}
}

// restart ends all clients at once, with events on their way, and has others take
// up what they kept.
func (c *crowd) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endRound()
	c.round, c.endRound = context.WithCancel(c.life)
}

func (c *crowd) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problems = append(c.problems, fmt.Sprintf(format, args...)); len(c.problems) == 20 {
		c.end()
	}
}

// dial connects to one gateway after the other, as what shares them does that knows
// which are there.
func (c *crowd) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	n := int(c.dials.Add(1))
	for i := range c.roads {
		if r := c.roads[(n+i)%len(c.roads)]; i == len(c.roads)-1 {
			return new(net.Dialer).DialContext(ctx, network, r.address())
		} else if is, _ := r.open(); is {
			return new(net.Dialer).DialContext(ctx, network, r.address())
		}
	}
	return nil, net.ErrClosed
}

// balance has clients come to a gateway that has few: some of the others are cut
// off, and half of those come to it.
func (c *crowd) balance(to *road) {
	fair := len(c.talkers) / len(c.roads)
	if _, trips := to.open(); trips > fair/2 {
		return
	}
	for _, r := range c.roads {
		if r != to {
			r.cut(fair)
		}
	}
}

// session is a client from its start to its end.
func (k *talker) session(ctx context.Context) error {
	k.mu.Lock()
	o := client.Options{
		Token: k.token, Dial: k.crowd.dial,
		Cursor: k.cursor, Seq: k.seq, Earliest: k.cursor == "",
	}
	k.mu.Unlock()
	c, err := client.Dial(ctx, "ws://gateways", o)
	if err != nil {
		return err
	}
	defer k.note(c)
	k.mu.Lock()
	k.client = c
	k.mu.Unlock()
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		if err := k.send(ctx, c); err != nil && ctx.Err() == nil {
			k.crowd.problem("%s sends: %v", k.name, err)
		}
	})
	for r, err := range c.Results(ctx) {
		var gap *client.Gap
		switch {
		case errors.As(err, &gap):
			k.crowd.problem("%s: %v", k.name, gap) // nothing is old enough to be gone
		case err != nil:
			return err
		default:
			if err := k.take(r); err != nil {
				k.crowd.problem("%s: result %d of %s: %v: %+v %s", k.name, r.Seq, r.EventID, err, r, r.Payload)
			}
		}
	}
	return nil
}

// note keeps what a client counted that is closed now.
func (k *talker) note(c *client.Client) {
	c.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	m := c.Metrics()
	k.client = nil
	k.resent, k.connects, k.repeats = k.resent+m.Resent.Load(), k.connects+m.Connects.Load(), k.repeats+m.Repeats.Load()
}

// send sends events until there are enough; one that was perhaps accepted of a
// client before comes first.
func (k *talker) send(ctx context.Context, c *client.Client) error {
	first := time.NewTimer(rand.N(k.crowd.every))
	defer first.Stop()
	tick := time.NewTicker(k.crowd.every)
	defer tick.Stop()
	for at := first.C; ; at = tick.C {
		select {
		case <-at:
		case <-ctx.Done():
			return nil
		}
		e := k.next()
		if e == nil {
			return nil
		}
		if err := c.Send(ctx, e); err != nil {
			return err
		}
		k.mu.Lock()
		k.accepted++
		k.mu.Unlock()
	}
}

func (k *talker) next() *client.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.accepted
	if n == len(k.want) && k.crowd.enough.Load() {
		return nil
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, k.name, " ", n)
	v := int(hash.Sum32() % 1000)
	e := &client.Event{EventID: fmt.Sprint("e", n), Payload: fmt.Appendf(nil, `{"user":%q,"n":%d,"v":%d}`, k.name, n, v)}
	bad := n%17 == 5
	if bad {
		e.Payload = fmt.Appendf(nil, `{"user":%q,"n":%d,"v":"many"}`, k.name, n)
	}
	if k.numbered {
		e.Sequence = int64(n + 1)
	}
	if n == len(k.want) {
		k.expect(n, v, bad)
	}
	return e
}

func (k *talker) expect(n, v int, bad bool) {
	want := expected{status: wire.StatusOK, filtered: n%13 == 7}
	if bad {
		want = expected{status: wire.StatusDeadLettered, filtered: true}
	} else {
		k.count++
		if k.newest = append(k.newest, v); len(k.newest) > 5 {
			k.newest = k.newest[1:]
		}
		want.count = k.count
		for _, v := range k.newest {
			want.sum += v
		}
	}
	k.want, k.ended = append(k.want, want), append(k.ended, false)
}

// take checks a result: it is the one after the newest, and the first of its event
// or marked as a duplicate, and what the event should have become.
func (k *talker) take(r *client.Result) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Seq != k.seq+1 {
		return fmt.Errorf("it comes after %d", k.seq)
	}
	k.seq, k.cursor = r.Seq, r.Cursor
	var n int
	if _, err := fmt.Sscanf(r.EventID, "e%d", &n); err != nil || n >= len(k.want) {
		return errors.New("no such event was sent")
	}
	if r.Duplicate != k.ended[n] {
		return fmt.Errorf("marked as a duplicate %v, but there was one before: %v", r.Duplicate, k.ended[n])
	}
	if k.results++; r.Duplicate {
		k.duplicates++
	}
	k.ended[n] = true
	want := k.want[n]
	if r.Status != want.status || want.filtered != (len(r.Payload) == 0) {
		return fmt.Errorf("want %+v", want)
	}
	if want.filtered {
		return nil
	}
	var got struct {
		User            string
		N, Seen, Newest int
		Seen24h         int `json:"seen_count_24h"`
		NewestSum       int `json:"newest_sum"`
	}
	if err := json.Unmarshal(r.Payload, &got); err != nil || got.User != k.name || got.N != n || got.Seen24h != want.count || got.NewestSum != want.sum {
		return fmt.Errorf("want %+v: %v", want, err)
	}
	return nil
}

// crowdCounts are those of all clients.
type crowdCounts struct {
	accepted, ended, duplicates int
	resent, connects, repeats   uint64
}

func (k *talker) counts() (n crowdCounts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n = crowdCounts{k.accepted, k.results - k.duplicates, k.duplicates, k.resent, k.connects, k.repeats}
	if k.client != nil {
		m := k.client.Metrics()
		n.resent, n.connects, n.repeats = n.resent+m.Resent.Load(), n.connects+m.Connects.Load(), n.repeats+m.Repeats.Load()
	}
	return n
}

func (c *crowd) counts() (n crowdCounts) {
	for _, k := range c.talkers {
		m := k.counts()
		n.accepted, n.ended, n.duplicates = n.accepted+m.accepted, n.ended+m.ended, n.duplicates+m.duplicates
		n.resent, n.connects, n.repeats = n.resent+m.resent, n.connects+m.connects, n.repeats+m.repeats
	}
	return n
}

// must fails the test where a client found something wrong.
func (c *crowd) must() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) > 0 {
		c.t.Fatalf("seed %d: clients say:\n%s", *gatewaySeed, strings.Join(c.problems, "\n"))
	}
}

// settled returns how many clients have not had as many results as events of them
// were accepted before.
func (c *crowd) unsettled(before []int) (clients int) {
	for i, k := range c.talkers {
		if k.counts().ended < before[i] {
			clients++
		}
	}
	return clients
}

func (c *crowd) acceptedEach() (each []int) {
	for _, k := range c.talkers {
		each = append(each, k.counts().accepted)
	}
	return each
}

// check wants each accepted event to have its one result, and says what is missing.
func (c *crowd) check() {
	c.t.Helper()
	c.must()
	for _, k := range c.talkers {
		k.mu.Lock()
		if len(k.want) != k.accepted {
			c.t.Errorf("seed %d: %s: %d events were sent and %d accepted", *gatewaySeed, k.name, len(k.want), k.accepted)
		}
		for n, ended := range k.ended {
			if !ended {
				c.t.Errorf("seed %d: %s: event %d was accepted and has no result", *gatewaySeed, k.name, n)
			}
		}
		if k.seq != uint64(k.results) {
			c.t.Errorf("seed %d: %s: %d results, the newest is number %d", *gatewaySeed, k.name, k.results, k.seq)
		}
		k.mu.Unlock()
	}
}
