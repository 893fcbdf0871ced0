package order_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

const meets, results, group = "p.repartition", "results", "p"

// TestKilledReadersReleaseTheSameSequence has events copied to partitions of a log, with
// marks, events without a place, and events behind what their marks say. Readers that
// are killed at random release them, and commit what they released up to anywhere. The
// results of each partition are those of one reader that read all at once.
func TestKilledReadersReleaseTheSameSequence(t *testing.T) {
	runs := 0
	for seed := range seedsOf(300) {
		r, bound := rand.New(rand.NewPCG(seed, 4)), order.Options{Bytes: bounds[seed%3]}
		log := memory.New(memory.Options{})
		numbers, partitions := 1+r.IntN(5), int32(1+r.IntN(3))
		written := write(t, log, r, numbers, partitions)
		var sources []int32
		for i := range numbers {
			sources = append(sources, order.Number(i/3, int32(i%3)))
		}
		kills := r.IntN(3) * r.IntN(20)
		var want [][]string
		events := 0
		for _, list := range written {
			want = append(want, sequence(list, sources))
			events += len(want[len(want)-1])
		}
		runs += read(t, log, bound, sources, r, events, kills, func() { mustShowWhatWaits(t, log, seed, written) })
		ends(t, log, order.NewLog(log, meets, bound, sources...), partitions)
		for i, want := range want {
			got := texts(t, log, stream.Partition{Topic: results, Index: int32(i)})
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: partition %d, %d kills: released\n%v, want\n%v", seed, i, kills, got, want)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if runs < 50 {
		t.Errorf("only %d runs of held events were written", runs)
	}
}

// bounds are of what a member holds in memory: none, a few records, and nothing.
var bounds = [3]int64{0, 8 << 10, 1}

// copied is a record of the topic where sources meet, as the test knows it.
type copied struct {
	text  string
	key   order.Key
	plain bool        // it says no place
	marks order.Marks // it is no event
}

// write fills the topic, and returns what is in each partition. At the end all sources are
// far ahead.
func write(t *testing.T, log stream.Log, r *rand.Rand, sources int, partitions int32) [][]copied {
	t.Helper()
	for _, topic := range []string{meets, results} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	rules := order.Rules{Wait: int64(r.IntN(3) * 10)}
	rules.Lateness = rules.Wait
	list := make([][]copied, partitions)
	var state []order.Source
	for i := range sources {
		state = append(state, order.NewSource(order.Number(i/3, int32(i%3))))
	}
	add := func(index int32, c copied) {
		record := c.record(0)
		record.Partition.Index = index
		if err := log.Append(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		list[index] = append(list[index], c)
	}
	broadcast := func(marks order.Marks) {
		for i := range partitions {
			add(i, copied{marks: marks})
		}
	}
	named := 0
	name := func(what string) string { // of its own: two of one time may be in one partition
		named++
		return fmt.Sprint(what, " ", named)
	}
	for now := int64(1000); now < 1000+int64(r.IntN(2000)); now += int64(r.IntN(20)) {
		s := &state[r.IntN(sources)]
		for range r.IntN(4) {
			at := now - int64(r.IntN(30))
			k := s.Place(rules, s.Next, at, at).Key
			if r.IntN(8) == 0 {
				continue // it was a dead letter, and is not copied
			}
			add(r.Int32N(partitions), copied{text: fmt.Sprint(k.Source, "@", k.Offset), key: k})
		}
		if r.IntN(2) == 0 {
			s.Silent = max(s.Silent, now-int64(r.IntN(40))) // which is wrong for some events
		}
		broadcast(order.Marks{s.Mark(rules)})
		if r.IntN(20) == 0 { // what goes back counts for nothing
			broadcast(order.Marks{{Key: order.Key{Time: now - 300, Source: s.Number, Offset: -1}, Silent: now - 300}})
		}
		switch r.IntN(20) {
		case 0:
			add(r.Int32N(partitions), copied{text: name("plain"), plain: true})
		case 1: // of another version, or of a source that is not known
			add(r.Int32N(partitions), copied{text: name("behind"), key: order.Key{Time: now - 500, Source: s.Number, Offset: s.Next}})
		}
	}
	var last order.Marks
	for i := range state {
		state[i].Silent = 1 << 40
		last = append(last, state[i].Mark(rules))
	}
	broadcast(last)
	return list
}

// TestPollDoesNotWaitForWhatItHolds: where more may be released than one Poll returns, the
// next one returns at once.
func TestPollDoesNotWaitForWhatItHolds(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	p := stream.Partition{Topic: meets}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: meets, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	for i := range int64(5) {
		c := order.Copy{Placed: order.Placed{Key: order.Key{Time: i, Offset: i}}}
		records = append(records, stream.Record{Partition: p, Headers: []stream.Header{{Key: header.Order, Value: c.Append(nil)}}})
	}
	records = append(records, stream.Record{Partition: p, Headers: []stream.Header{{Key: header.Frontier, Value: order.Marks{{Key: order.Key{Time: 9}}}.Append(nil)}}})
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	m, err := order.NewLog(log, meets, order.Options{}, 0).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	limit := 2 // the mark comes in the third Poll, and releases all
	for n := stream.Offset(0); n < 5; {
		batch, err := m.Poll(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Records) > limit {
			t.Fatalf("%d records, at most %d were asked for", len(batch.Records), limit)
		}
		for _, r := range batch.Records {
			if r.Offset != n {
				t.Fatalf("event %d, want %d", r.Offset, n)
			}
			n++
		}
		m.Pause(p) // and what is paused is not released
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if batch, err := m.Poll(soon, 1); err == nil && len(batch.Records) > 0 {
			t.Fatalf("%+v of a partition that is paused", batch.Records)
		}
		cancel()
		m.Resume(p)
	}
}

// copiedAt is an event of a source, whose value is its time, copied to the first partition.
func copiedAt(source int32, at, offset int64) stream.Record {
	c := order.Copy{Placed: order.Placed{Key: order.Key{Time: at, Source: source, Offset: offset}}}
	return stream.Record{Partition: stream.Partition{Topic: meets}, Value: fmt.Append(nil, at), Headers: []stream.Header{{Key: header.Order, Value: c.Append(nil)}}}
}

// marked says that no event of a source comes before a time.
func marked(source int32, at int64) stream.Record {
	return order.Marks{{Key: order.Key{Time: at, Source: source, Offset: 9}, Silent: order.NoMark.Silent}}.Record(stream.Partition{Topic: meets}, time.UnixMicro(at))
}

// TestAnEventOfASilentSourceKeepsItsPlaceWhileAnotherHoldsIt has a source be silent, and then bring
// an event. No later event has had its turn, as a third source holds them all.
func TestAnEventOfASilentSourceKeepsItsPlaceWhileAnotherHoldsIt(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	silent := order.Marks{order.Skip(1, 20)}.Record(stream.Partition{Topic: meets}, time.UnixMicro(20))
	if err := errors.Join(log.CreateTopic(t.Context(), stream.Topic{Name: meets, Partitions: 1}), log.Append(t.Context(),
		marked(2, 10), copiedAt(0, 11, 0), copiedAt(0, 15, 1), marked(0, 15), silent, copiedAt(1, 13, 0), copiedAt(1, 9, 1), marked(2, 12), marked(1, 30), marked(0, 30), copiedAt(1, 14, 2), marked(2, 30))); err != nil {
		t.Fatal(err)
	}
	m, err := order.NewLog(log, meets, order.Options{}, 0, 1, 2).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var got []string
	for len(got) < 5 {
		batch, err := m.Poll(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range batch.Records {
			if header.MovesTime(&r) {
				continue
			}
			c, err := order.ParseCopy(header.Value(&r, header.Order))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(string(r.Value), " ", c.Forced))
		}
	}
	if want := []string{"9 true", "11 false", "13 false", "14 false", "15 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAReaderThatKnowsMoreSourcesHasTheirFrontiers has a partition be added to a topic. A reader that
// does not know it reads its events and marks, and the next reader knows it: no mark comes again.
func TestAReaderThatKnowsMoreSourcesHasTheirFrontiers(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	if err := errors.Join(log.CreateTopic(t.Context(), stream.Topic{Name: meets, Partitions: 1}), log.CreateTopic(t.Context(), stream.Topic{Name: results, Partitions: 1}), log.Append(t.Context(), copiedAt(0, 10, 0), marked(0, 10), copiedAt(1, 15, 0), marked(1, 15))); err != nil {
		t.Fatal(err)
	}
	for _, known := range [][]int32{{0}, {0, 1}} {
		m, err := order.NewLog(log, meets, order.Options{}, known...).Join(t.Context(), group, meets)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for len(got) < 2 {
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			batch, err := m.Poll(soon, 100)
			cancel()
			if err != nil {
				t.Fatalf("%d sources are known: %v, after %q", len(known), err, got)
			}
			for _, r := range batch.Records {
				if !header.MovesTime(&r) {
					got = append(got, string(r.Value))
				}
			}
			if len(batch.Records) > 0 {
				commit(t, m, batch.Records)
			}
		}
		if want := [][]string{{"10", "15"}, {"12", "14"}}[len(known)-1]; !slices.Equal(got, want) {
			t.Errorf("%d sources are known: %q, want %q", len(known), got, want)
		}
		if err := errors.Join(m.Close(), log.Append(t.Context(), copiedAt(0, 12, 1), copiedAt(0, 14, 2), marked(0, 14))); err != nil {
			t.Fatal(err)
		}
	}
}

// sequence is the definition: what is read at once, from nothing.
func sequence(list []copied, sources []int32) []string {
	s := newSorted(sources)
	for at, c := range list {
		for _, m := range c.marks {
			s.mark(m)
		}
		if c.marks != nil {
			continue
		}
		if _, known := s.frontier[c.key.Source]; c.plain || !known {
			c.key = leastOf(s.frontier) // which it is not before
		}
		s.most = later(s.most, s.place(at, c.key, c.text).key)
	}
	return s.texts()
}

// leastOf is the frontier of all sources.
func leastOf(frontier map[int32]order.Key) order.Key {
	least := order.Last
	for _, k := range frontier {
		least = earlier(least, k)
	}
	return least
}

func later(a, b order.Key) order.Key {
	if a.Before(b) {
		return b
	}
	return a
}

func earlier(a, b order.Key) order.Key {
	if a.Before(b) {
		return a
	}
	return b
}

// slow is a log whose commits are under way until the test ends them.
type slow struct {
	*memory.Log
	*slowMember // that joined last
}

type slowMember struct {
	stream.Member
	step    stream.Transaction
	pending *stream.Pending
}

func (s *slow) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	m, err := s.Log.Join(ctx, group, topics...)
	s.slowMember = &slowMember{Member: m}
	return s.slowMember, err
}

func (s *slow) Close() error { return s.Log.Close() }

func (m *slowMember) Commit(step stream.Transaction) *stream.Pending {
	m.step, m.pending = step, stream.NewPending()
	return m.pending
}

// end ends the commit that is under way, and returns how many outputs it wrote.
func (m *slowMember) end(t *testing.T) (outputs int) {
	t.Helper()
	if m.pending == nil {
		return 0
	}
	err := m.Member.Commit(m.step).Wait(t.Context())
	if m.pending.Decide(err); err != nil {
		t.Fatal(err)
	}
	m.pending = nil
	return len(m.step.Outputs)
}

// read has members release so many events, and commits them while the next ones are read. Some
// members are killed, and their step under way may be lost. It returns how many runs of held
// events members found in the state. Committed is called when a member is gone.
func read(t *testing.T, log *memory.Log, o order.Options, sources []int32, r *rand.Rand, events, kills int, committed func()) (runs int) {
	t.Helper()
	under := &slow{Log: log}
	for events > 0 {
		m, err := order.NewLog(under, meets, o, sources...).Join(t.Context(), group, meets)
		if err != nil {
			t.Fatal(err)
		}
		var open []stream.Record // released, and in no step
		for kill := false; events > 0 && !kill; kill = kills > 0 && r.IntN(10) == 0 {
			if open = append(open, poll(t, m, 1+r.IntN(30))...); len(open) > 0 && r.IntN(3) > 0 {
				n := r.IntN(len(open)) + 1
				events -= under.end(t)
				m.Commit(stepOf(t, open[:n]))
				open = slices.Clone(open[n:])
			}
			if len(open) == 0 || r.IntN(2) == 0 {
				events -= under.end(t)
			}
		}
		if kills = max(0, kills-1); r.IntN(2) == 0 {
			events -= under.end(t)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for _, kept := range inState(t, log) {
			if kept[0] == statekey.Run {
				runs++
			}
		}
		committed()
	}
	return runs
}

// mustShowWhatWaits sees that the committed offset of each partition is that of the first event
// without a result.
func mustShowWhatWaits(t *testing.T, log *memory.Log, seed uint64, written [][]copied) {
	t.Helper()
	for i, list := range written {
		over := map[string]bool{}
		for _, text := range texts(t, log, stream.Partition{Topic: results, Index: int32(i)}) {
			_, event, _ := strings.Cut(text, " ")
			over[event] = true
		}
		at, err := log.Committed(t.Context(), group, stream.Partition{Topic: meets, Index: int32(i)})
		if err != nil {
			t.Fatal(err)
		}
		for offset, c := range list[:min(int(at)+1, len(list))] {
			if c.marks == nil && over[c.text] != (offset < int(at)) {
				t.Fatalf("seed %d: partition %d: %d is committed, and event %d is over: %t", seed, i, at, offset, over[c.text])
			}
		}
	}
}

// inState returns the keys of what the group holds in state.
func inState(t *testing.T, log stream.Log) (keys [][]byte) {
	t.Helper()
	return inStateOf(t, log, statekey.Run, statekey.Page, statekey.Early, statekey.Unplaced)
}

// inStateOf returns those of some kinds.
func inStateOf(t *testing.T, log stream.Log, kinds ...byte) (keys [][]byte) {
	t.Helper()
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range topics[0].Partitions {
		view, err := log.(stream.Inspector).State(t.Context(), group, stream.Partition{Topic: meets, Index: i})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			for e, err := range view.Scan([]byte{kind}) {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, e.Key)
			}
		}
	}
	return keys
}

// ends sees that what is behind the last event is committed, and that nothing is read again.
func ends(t *testing.T, log, ordered stream.Log, partitions int32) {
	t.Helper()
	m, err := ordered.Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	inspector := log.(stream.Inspector)
	left := func() (n stream.Offset) {
		for i := range partitions {
			p := stream.Partition{Topic: meets, Index: i}
			_, next, err := inspector.Offsets(t.Context(), p)
			committed, errCommitted := inspector.Committed(t.Context(), group, p)
			if err = errors.Join(err, errCommitted); err != nil {
				t.Fatal(err)
			}
			n += next - committed
		}
		return n
	}
	for left() > 0 {
		for _, r := range poll(t, m, 100) {
			marks, err := order.ParseMarks(nil, []byte(header.Get(&r, header.Frontier)))
			if err != nil || len(marks) != 1 || r.Time.UnixMicro() != marks[0].Key.Time {
				t.Fatalf("%+v, %v is behind the last event", r, err)
			}
			commit(t, m, []stream.Record{r})
		}
	}
	if kept := inState(t, log); len(kept) > 0 {
		t.Fatalf("%d keys of events are left, the first %q", len(kept), kept[0])
	}
	for i := range partitions {
		p := stream.Partition{Topic: meets, Index: i}
		_, next, err := inspector.Offsets(t.Context(), p)
		committed, errCommitted := inspector.Committed(t.Context(), group, p)
		state, errState := inspector.State(t.Context(), group, p)
		if err = errors.Join(err, errCommitted, errState); err != nil || committed != next {
			t.Fatalf("%v: %d is committed of %d, %v", p, committed, next, err)
		}
		released, err := order.Committed(state)
		_, results, _ := inspector.Offsets(t.Context(), stream.Partition{Topic: results, Index: i})
		if err != nil || released != results {
			t.Fatalf("%v: %d events are released, and %d results written: %v", p, released, results, err)
		}
	}
}

// poll returns what may be released now.
func poll(t *testing.T, m stream.Member, limit int) []stream.Record {
	t.Helper()
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	batch, err := m.Poll(soon, limit)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for _, a := range batch.Assigned {
		if next, err := order.Committed(a.State); err != nil || a.Next != next {
			t.Fatalf("%v begins at %d, and its state at %d: %v", a.Partition, a.Next, next, err)
		}
	}
	return slices.Clone(batch.Records)
}

// commit commits results of what was released, and returns how many events that is.
func commit(t *testing.T, m stream.Member, released []stream.Record) int {
	t.Helper()
	step := stepOf(t, released)
	if err := m.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return len(step.Outputs)
}

// stepOf returns a step with results of what was released.
func stepOf(t *testing.T, released []stream.Record) stream.Transaction {
	t.Helper()
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	for _, e := range released {
		if next, ok := step.Offsets[e.Partition]; ok && e.Offset != next {
			t.Fatalf("%v: event %d comes after %d", e.Partition, e.Offset, next-1)
		}
		step.Offsets[e.Partition] = e.Offset
		if header.Get(&e, header.Frontier) == "" {
			step.Offsets[e.Partition]++
			step.Outputs = append(step.Outputs, stream.Record{Partition: stream.Partition{Topic: results, Index: e.Partition.Index}, Value: fmt.Appendf(nil, "%d %s%s", e.Offset, e.Value, answersOf(&e))})
		}
	}
	return step
}

// answersOf returns the answers that an event has, sorted.
func answersOf(r *stream.Record) (text string) {
	var all []string
	for _, h := range r.Headers {
		if h.Key == header.Answer {
			all = append(all, " "+string(h.Value))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

func texts(t *testing.T, log stream.Log, p stream.Partition) (list []string) {
	t.Helper()
	_, next, err := log.(stream.Inspector).Offsets(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if next == 0 {
		return nil
	}
	for r, err := range log.Tail(t.Context(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, string(r.Value)); r.Offset+1 == next {
			break
		}
	}
	return list
}
