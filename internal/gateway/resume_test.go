package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/test/seeds"
	"github.com/afterbay/afterbay/stream"
)

// losing is a log whose retention goes on when it is told to.
type losing struct {
	engine
	mu     sync.Mutex
	firsts [partitions]stream.Offset // of the results
}

func (l *losing) first(p stream.Partition) stream.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Topic != "results" {
		return 0
	}
	return l.firsts[p.Index]
}

func (l *losing) lose(p stream.Partition, first stream.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.firsts[p.Index] = max(l.firsts[p.Index], first)
}

func (l *losing) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for r, err := range l.engine.Tail(ctx, p, from) {
			if first := l.first(p); err == nil && r.Offset < first {
				r, err = stream.Record{}, fmt.Errorf("offset %d, the first is %d: %w", from, first, stream.ErrTrimmed)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (l *losing) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	_, next, err = l.engine.Offsets(ctx, p)
	return l.first(p), next, err
}

func (l *losing) Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	return l.engine.Peek(ctx, p, max(from, l.first(p)))
}

// place is a cursor that a client was given.
type place struct {
	text  string
	at    int64
	epoch uint64
}

// schedule is clients that come, are cut, acknowledge and come again to either of two
// gateways, which end and begin, while retention goes on.
type schedule struct {
	*world
	random *rand.Rand
	log    *losing
	epoch  uint64
	served [2]*listener
	stops  [2]func()
	events int
	conns  []*talking

	mu       sync.Mutex // guards what follows
	places   map[string][]place
	accepted map[string][]string
	talks    []*talk
	seen     map[string]int // what happened, over all seeds
}

// talking is a connection that is read by a goroutine of its own.
type talking struct {
	*raw
	*talk
	session, acks, stalls bool
	cut                   bool
	done                  chan struct{}
}

var schedulers = []string{"ada", "bob", "eve", "kim"}

func TestRandomSchedulesOfCutsAcksRestartsAndRetention(t *testing.T) {
	n := int64(40)
	switch {
	case os.Getenv("AFTERBAY_PROVE") != "":
		n = 1000
	case testing.Short():
		n = 10 // the race detector takes ten times as long
	}
	seen := map[string]int{}
	all := seeds.Run(t, n, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			s := newSchedule(t, random, seen)
			for range 120 {
				s.step()
			}
			s.finish()
		})
	})
	if t.Logf("%v", seen); !all {
		return
	}
	for _, what := range []string{"result", "gap", "cut", "restart", "epoch", "lose", "stall", "foreign", "replaced", "slow", "drain", "duplicate"} {
		if seen[what] == 0 {
			t.Errorf("%s never happened: %v", what, seen)
		}
	}
}

func newSchedule(t *testing.T, random *rand.Rand, seen map[string]int) *schedule {
	s := &schedule{random: random, places: map[string][]place{}, accepted: map[string][]string{}, seen: seen}
	s.world = newWorld(t, gateway.Options{})
	s.world.finish()
	s.log = &losing{engine: s.world.log}
	s.world.reads = s.log
	for i := range s.served {
		s.begin(i)
	}
	return s
}

// begin has gateway i serve.
func (s *schedule) begin(i int) {
	s.stops[i] = s.start(gateway.Options{
		CursorKey: []byte(cursorKey), Epoch: s.epoch, DrainWindow: time.Second, Logger: slog.New(slog.DiscardHandler), PendingLimit: 200,
		Tenants: limit.Options{Open: 1e6, Rate: 1e6, Burst: 1e6},
		Hub:     hub.Options{QueueBytes: 1 + s.random.Intn(4<<10), IndexRecords: 1 + s.random.Intn(400), Replays: 1 + s.random.Int63n(2)},
	})
	s.served[i] = s.listener
}

func (s *schedule) happened(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[what]++
}

// published returns the results of a client that are or were in the log.
func (s *schedule) published(client string) (list []published) {
	s.Helper()
	p := resultsAt(client)
	for at := stream.Offset(0); ; at++ {
		r, found, err := s.log.engine.Peek(s.Context(), p, at)
		s.ok(err)
		if !found {
			return list
		}
		at = r.Offset
		if result, err := wire.ParseResult(&r); err != nil {
			s.Fatal(err)
		} else if result.Client == client {
			list = append(list, published{result.Event, int64(r.Offset)})
		}
	}
}

func (s *schedule) step() {
	switch s.random.Intn(20) {
	case 0, 1, 2, 3:
		if len(s.conns) < 8 {
			s.come(schedulers[s.random.Intn(len(schedulers))], nil)
		}
	case 4, 5, 6, 7, 8:
		s.send()
	case 9, 10:
		s.publish()
	case 11, 12:
		s.ack()
	case 13, 14:
		s.cut()
	case 15, 16:
		time.Sleep(time.Duration(s.random.Intn(30_000)) * time.Millisecond)
	case 17:
		synctest.Wait()
	case 18:
		s.stall()
	case 19:
		s.fault()
	}
}

// fault is of the gateways or their log.
func (s *schedule) fault() {
	switch n := s.random.Intn(6); n {
	case 0, 1, 2:
		at := stream.Partition{Topic: "results", Index: int32(s.random.Intn(partitions))}
		_, next, err := s.log.Offsets(s.Context(), at)
		s.ok(err)
		s.log.lose(at, s.log.first(at)+stream.Offset(s.random.Int63n(int64(next-s.log.first(at))+1)))
		s.happened("lose")
	case 3, 4:
		i := s.random.Intn(len(s.stops))
		s.stops[i]()
		s.begin(i)
		s.happened("restart")
	case 5:
		s.epoch++
		for i := range s.stops {
			s.stops[i]()
			s.begin(i)
		}
		s.happened("epoch")
	}
}

// come connects a client that goes on at a place that it was given, of any age, or
// at either end; never is what it is not to have.
func (s *schedule) come(client string, at *place) {
	s.Helper()
	k := &talk{client: client, earliest: true, first: int64(s.log.first(resultsAt(client))), least: len(s.published(client))}
	connect := &wire.Connect{Resume: &wire.Resume{From: wire.FromEarliest}}
	given := s.had(client)
	switch n := s.random.Intn(8); {
	case at == nil && n == 0:
		connect.Resume, k.latest, k.earliest = nil, true, false
	case at == nil && n == 1:
	case at == nil && len(given) > 0:
		at = &given[len(given)-1-s.random.Intn(1+s.random.Intn(len(given)))]
	}
	if at != nil {
		connect.Resume = &wire.Resume{Cursor: at.text}
		k.after, k.earliest, k.otherEpoch = at.at, false, at.epoch != s.epoch
	}
	c := &talking{talk: k, session: s.random.Intn(3) == 0, acks: s.random.Intn(4) == 0, done: make(chan struct{})}
	if c.session {
		connect.SessionID = "tab"
	}
	if c.acks {
		connect.AckEvery = 5
	}
	var err error
	c.raw, _, err = dialRaw(s.served[s.random.Intn(2)].dial(), offered, "Authorization: Bearer acme."+client)
	s.ok(err)
	if s.random.Intn(10) == 0 {
		s.foreign(c, client)
	}
	s.ok(c.send(connect))
	connected, ok := s.receive(c.raw).(*wire.Connected)
	if !ok {
		s.Fatalf("connect %+v is answered by %+v", connect, connected)
	}
	k.connected, k.recovered, k.most, k.open = s.given(client, connected.Cursor), connected.Recovered, len(s.published(client)), true
	s.talks = append(s.talks, k)
	s.conns = append(s.conns, c)
	go s.listenTo(c, rand.New(rand.NewSource(s.random.Int63())))
}

// foreign asks for results behind a cursor of another client.
func (s *schedule) foreign(c *talking, client string) {
	for _, other := range schedulers {
		given := s.had(other)
		if other == client || len(given) == 0 {
			continue
		}
		s.ok(c.send(&wire.Connect{Resume: &wire.Resume{Cursor: given[0].text}}))
		if f, ok := s.receive(c.raw).(*wire.ErrorFrame); !ok || f.Error.Code != wire.CodeBadCursor {
			s.Errorf("the cursor of %s is answered to %s by %+v", other, client, f)
		}
		s.happened("foreign")
		return
	}
}

// given notes a cursor, and returns its place.
func (s *schedule) given(client, text string) int64 {
	c, err := wire.ParseCursor(cursors, "acme", client, text)
	if err != nil || c.Partition != resultsAt(client).Index {
		s.Errorf("cursor %q of %s: %+v, %v", text, client, c, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[client] = append(s.places[client], place{text, int64(c.Offset), c.Epoch})
	return int64(c.Offset)
}

// had returns the places that a client was given, the oldest first.
func (s *schedule) had(client string) []place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.places[client])
}

// listenTo reads a connection until it ends.
func (s *schedule) listenTo(c *talking, random *rand.Rand) {
	defer close(c.done)
	for {
		f, err := c.receive()
		if err != nil {
			s.ended(c, err)
			return
		}
		first := int64(s.log.first(resultsAt(c.client)))
		switch f := f.(type) {
		case *wire.Ping:
			_ = c.send(&wire.Pong{}) // it may be closed, and why not be read yet
		case *wire.ResultFrame:
			c.heard = append(c.heard, heard{seq: int(f.Seq), event: f.EventID, cursor: s.given(c.client, f.Cursor), first: first})
			s.happened("result")
			if f.Duplicate {
				s.happened("duplicate")
			}
		case *wire.Gap:
			c.heard = append(c.heard, heard{gap: true, to: s.given(c.client, f.Earliest) + 1, first: first})
			s.happened("gap")
		case *wire.Accepted:
			s.mu.Lock()
			s.accepted[c.client] = append(s.accepted[c.client], f.EventID)
			s.mu.Unlock()
		case *wire.ErrorFrame:
			s.Errorf("%s: %+v", c.client, f.Error)
		}
		if random.Intn(8) == 0 {
			time.Sleep(time.Duration(random.Intn(200)) * time.Millisecond)
		}
		s.mu.Lock()
		stalls := c.stalls
		s.mu.Unlock()
		if stalls {
			time.Sleep(12 * time.Second)
		}
	}
}

// ended judges how a connection ended.
func (s *schedule) ended(c *talking, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var how *closed
	c.open = false
	switch {
	case c.cut || c.stalls:
	case !errors.As(err, &how):
		s.Errorf("%s: the connection ended with %v", c.client, err)
	case how.code == 4501:
		s.seen["drain"]++
	case how.code == 4009 && c.session:
		s.seen["replaced"]++
	case how.code == 4504 && c.acks:
		s.seen["slow"]++
	default:
		s.Errorf("%s: the connection ended with %v", c.client, how)
	}
}

// any returns a connection that is open, if there is one.
func (s *schedule) any() *talking {
	var left []*talking
	for _, c := range s.conns {
		select {
		case <-c.done:
		default:
			left = append(left, c)
		}
	}
	if s.conns = left; len(left) == 0 {
		return nil
	}
	return left[s.random.Intn(len(left))]
}

// send sends events, new ones and old ones.
func (s *schedule) send() {
	c := s.any()
	for range s.random.Intn(5) {
		if c != nil {
			_ = c.send(event(s.id(), `"x"`)) // it may be closed
		}
	}
}

func (s *schedule) id() string {
	s.events++
	return fmt.Sprint("e", s.events-s.random.Intn(2)*s.random.Intn(min(s.events, 20)))
}

// publish has events of a client come over another gateway.
func (s *schedule) publish() {
	client := schedulers[s.random.Intn(len(schedulers))]
	for range s.random.Intn(40) {
		s.ok(s.log.Append(s.Context(), wire.Submit("inbox", &wire.Event{Tenant: "acme", Client: client, ID: s.id(), Payload: []byte(`"y"`)})))
	}
}

// ack acknowledges at any place, again and again perhaps.
func (s *schedule) ack() {
	if c := s.any(); c != nil {
		given := s.had(c.client)
		_ = c.send(&wire.Ack{Cursor: given[s.random.Intn(len(given))].text})
	}
}

func (s *schedule) cut() {
	if c := s.any(); c != nil {
		s.mu.Lock()
		c.cut = true
		s.mu.Unlock()
		_ = c.Close()
		s.happened("cut")
	}
}

// stall has a connection stand still from its next frame on, for longer than the
// gateway waits.
func (s *schedule) stall() {
	if c := s.any(); c != nil && s.random.Intn(2) == 0 {
		s.mu.Lock()
		c.stalls = true
		s.mu.Unlock()
		s.happened("stall")
	}
}

// finish waits until all is quiet, has each client come once more, and judges all
// that was heard.
func (s *schedule) finish() {
	time.Sleep(10 * time.Minute)
	for _, client := range schedulers {
		if given := s.had(client); len(given) > 0 {
			s.come(client, &given[len(given)-1])
		}
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	s.mu.Lock()
	for i, k := range s.talks {
		results := s.published(k.client)
		if err := k.check(results); err != nil {
			s.Errorf("connection %d, of %s behind %d (latest %v, other epoch %v): %v\nheard %+v", i, k.client, k.after, k.latest, k.otherEpoch, err, k.heard)
		}
	}
	for _, client := range schedulers {
		answered := map[string]bool{}
		for _, r := range s.published(client) {
			answered[r.event] = true
		}
		for _, id := range s.accepted[client] {
			if !answered[id] {
				s.Errorf("event %s of %s was accepted and has no result", id, client)
			}
		}
	}
	for _, c := range s.conns {
		c.cut = true
	}
	s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
		<-c.done
	}
	for _, stop := range s.stops {
		stop()
	}
	s.close()
}
