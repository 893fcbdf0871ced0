package streamtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Options sizes one simulation. The zero value is a good default.
type Options struct {
	Seed       uint64
	Events     int           // 0 is 500
	Keys       int           // 0 is 7
	Partitions int32         // 0 is 1 to 4, chosen by the seed
	Consumers  int           // concurrent members; 0 is 1 to 4, chosen by the seed
	Faults     FaultyOptions // Seed is not used
	Timeout    time.Duration // for the whole simulation; 0 is 5 minutes
	Remote     bool          // the log has the Remote allowance: inputs are appended without numbers
	Repeats    bool          // outputs are delivered as they are produced: some may repeat, with identical content
}

// Simulate runs consumers that number the events of each key on a Faulty log. It compares all
// committed outputs, state entries and offsets with an exact oracle. The test fails and names the
// seed if an event is lost, repeated or reordered in outputs or state. It also fails if a state is
// older or newer than its offset.
//
// In a testing/synctest bubble, timeouts and delays take no real time. The seed decides the events,
// the faults and the actions of each consumer. The scheduler decides how goroutines interleave.
func Simulate(t *testing.T, newLog func(t *testing.T) stream.Log, o Options) Counts {
	t.Helper()
	log := newLog(t)
	counts, err := simulate(t.Context(), log, o)
	if err = errors.Join(err, log.Close()); err != nil {
		t.Fatalf("seed %d: %v (%v)", o.Seed, err, counts)
	}
	return counts
}

const (
	simulationGroup = "numbers"
	positionKey     = "~next" // key in the state for the offset that the state is current to
)

var simulationInput, simulationOutput = "events", "numbered"

type simulation struct {
	Options
	log    stream.Log
	faulty *Faulty
	keys   []string                      // by event
	want   map[stream.Partition][]string // expected outputs
	counts map[stream.Partition]map[string]int

	cancel context.CancelFunc
	mu     sync.Mutex                         // guards the fields below
	err    error                              // the first error
	ends   map[stream.Partition]stream.Offset // by output partition, the offset after the last expected record
}

func simulate(ctx context.Context, log stream.Log, o Options) (Counts, error) {
	s := newSimulation(log, o)
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.cancel = cancel
	for _, name := range []string{simulationInput, simulationOutput} {
		if err := log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: s.Partitions}); err != nil {
			return nil, err
		}
	}
	var consumers, others sync.WaitGroup
	others.Go(func() { s.fail(s.feed(ctx)) })
	for i := range s.Partitions {
		others.Go(func() { s.fail(s.follow(ctx, stream.Partition{Topic: simulationOutput, Index: i})) })
	}
	running, stop := context.WithCancel(ctx)
	for i := range s.Consumers {
		consumers.Go(func() { s.fail(s.consume(running, rand.New(rand.NewPCG(s.Seed, uint64(i)+1)))) })
	}
	others.Wait() // every output exists
	if s.Repeats {
		s.fail(s.settle(ctx)) // some inputs may not be committed yet
	}
	stop()
	consumers.Wait()
	if s.err == nil {
		s.err = s.verify(ctx)
	}
	return s.faulty.Counts(), s.err
}

func newSimulation(log stream.Log, o Options) *simulation {
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	orDefault := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	o.Events, o.Keys = orDefault(o.Events, 500), orDefault(o.Keys, 7)
	o.Partitions = int32(orDefault(int(o.Partitions), 1+rng.IntN(4)))
	o.Consumers = orDefault(o.Consumers, 1+rng.IntN(4))
	o.Timeout = time.Duration(orDefault(int(o.Timeout), int(5*time.Minute)))
	o.Faults.Seed = o.Seed
	s := &simulation{
		Options: o,
		log:     log,
		faulty:  NewFaulty(log, o.Faults),
		want:    map[stream.Partition][]string{},
		counts:  map[stream.Partition]map[string]int{},
		ends:    map[stream.Partition]stream.Offset{},
	}
	for i := range o.Partitions {
		s.counts[stream.Partition{Topic: simulationInput, Index: i}] = map[string]int{}
	}
	for i := range o.Events {
		key := fmt.Sprint("key", rng.IntN(o.Keys))
		s.keys = append(s.keys, key)
		index := stream.Place([]byte(key), o.Partitions)
		counts := s.counts[stream.Partition{Topic: simulationInput, Index: index}]
		counts[key]++
		out := stream.Partition{Topic: simulationOutput, Index: index}
		s.want[out] = append(s.want[out], numbered(strconv.Itoa(i), counts[key]))
	}
	return s
}

func numbered(value string, count int) string { return fmt.Sprintf("%s [%d]", value, count) }

// fail keeps the first error and ends the simulation.
func (s *simulation) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.cancel()
	}
}

// feed appends the events while consumers run. It appends some of them repeatedly.
func (s *simulation) feed(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(s.Seed, 1<<32))
	for from := 0; from < s.Events; {
		again := rng.IntN(from + 1) // 0 to from events that the log already holds
		if rng.IntN(4) != 0 {
			again = 0
		}
		until := min(s.Events, from+1+rng.IntN(20))
		var records []stream.Record
		for i := from - again; i < until; i++ {
			records = append(records, stream.Record{
				Partition: stream.Partition{Topic: simulationInput, Index: stream.ByKey},
				Key:       []byte(s.keys[i]),
				Value:     strconv.AppendInt(nil, int64(i), 10),
			})
		}
		repeated, err := again, error(nil)
		if s.Remote { // numbers would leave gaps in the offsets, and the state is compared with offsets
			err = s.log.Append(ctx, records[again:]...)
		} else {
			repeated, err = s.log.AppendOnce(ctx, "feed", int64(from-again)+1, records...)
		}
		if err != nil || repeated != again {
			return fmt.Errorf("feed: %d records repeated, %w; want %d", repeated, err, again)
		}
		from = until
		pause(ctx, time.Duration(rng.Int64N(int64(2*time.Millisecond))))
	}
	return nil
}

// follow reads out to its end, as a sink does, and compares it with the expected outputs.
func (s *simulation) follow(ctx context.Context, out stream.Partition) error {
	want := s.want[out]
	if len(want) == 0 {
		return nil
	}
	i, next := 0, stream.Offset(0)
	for record, err := range s.log.Tail(ctx, out, 0) {
		if err != nil {
			return fmt.Errorf("%v: %d of %d outputs: %w", out, i, len(want), err)
		}
		if s.Repeats && slices.Contains(want[:i], string(record.Value)) {
			continue
		}
		if record.Offset < next || record.Offset > next && !s.Remote || string(record.Value) != want[i] {
			return fmt.Errorf("%v: output %d is %q at offset %d, want %q", out, i, record.Value, record.Offset, want[i])
		}
		next = record.Offset + 1
		if i++; i == len(want) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[out] = next
	return nil
}

// settle waits until every event is committed.
func (s *simulation) settle(ctx context.Context) error {
	inspector, ok := s.log.(stream.Inspector)
	if !ok {
		return fmt.Errorf("%T is not a stream.Inspector", s.log)
	}
	for p := range s.counts {
		end := stream.Offset(len(s.want[stream.Partition{Topic: simulationOutput, Index: p.Index}]))
		for committed := stream.Offset(-1); committed < end && ctx.Err() == nil; pause(ctx, time.Millisecond) {
			var err error
			if committed, err = inspector.Committed(ctx, simulationGroup, p); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// verify compares the stored outputs, state and offsets after all consumers ended.
func (s *simulation) verify(ctx context.Context) error {
	inspector, ok := s.log.(stream.Inspector)
	if !ok {
		return fmt.Errorf("%T is not a stream.Inspector", s.log)
	}
	for p, counts := range s.counts {
		out := stream.Partition{Topic: simulationOutput, Index: p.Index}
		end := stream.Offset(len(s.want[out]))
		if _, next, err := inspector.Offsets(ctx, out); err != nil || next != s.ends[out] && !s.Repeats {
			return fmt.Errorf("%v holds outputs up to %d, %w; want %d", out, next, err, s.ends[out])
		}
		if committed, err := inspector.Committed(ctx, simulationGroup, p); err != nil || committed != end {
			return fmt.Errorf("%v is committed to %d, %w; want %d", p, committed, err, end)
		}
		state, err := inspector.State(ctx, simulationGroup, p)
		if err != nil {
			return err
		}
		entries := 0
		for e, err := range state.Scan(nil) {
			if err != nil {
				return err
			}
			entries++
			want := counts[string(e.Key)]
			if string(e.Key) == positionKey {
				want = int(end)
			}
			if string(e.Value) != strconv.Itoa(want) {
				return fmt.Errorf("state beside %v: %q is %q, want %d", p, e.Key, e.Value, want)
			}
		}
		if want := len(counts) + min(1, len(counts)); entries != want {
			return fmt.Errorf("state beside %v: %d entries, want %d", p, entries, want)
		}
	}
	return nil
}

// caughtUp checks that a state holds every transaction before next and none after it: each event
// added one to one count.
func caughtUp(a stream.Assigned) error {
	sum, position := 0, []byte("0")
	for e, err := range a.State.Scan(nil) {
		if err != nil {
			return err
		}
		if string(e.Key) == positionKey {
			position = e.Value
			continue
		}
		n, err := strconv.Atoi(string(e.Value))
		if err != nil {
			return fmt.Errorf("state beside %v: %w", a.Partition, err)
		}
		sum += n
	}
	next := strconv.AppendInt(nil, int64(a.Next), 10)
	if sum != int(a.Next) || !bytes.Equal(position, next) {
		return fmt.Errorf("%v was assigned from %d with the state of %d events at position %s", a.Partition, a.Next, sum, position)
	}
	return nil
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
