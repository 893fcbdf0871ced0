package order_test

import (
	"errors"
	"fmt"
	"iter"
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

// TestAReplayOfTheSourcesFollowsForcedTurns has the events of a log copied again: those of each
// source in their order, and the sources in any. No source is silent before the end, so no
// event would be forced. With what the first copies say, the order is that of the log, whatever
// readers are killed, and if some events are not copied again.
func TestAReplayOfTheSourcesFollowsForcedTurns(t *testing.T) {
	moved := 0
	for seed := range seedsOf(400) {
		r := rand.New(rand.NewPCG(seed, 6))
		scratch, again := memory.New(memory.Options{}), memory.New(memory.Options{})
		sources := []int32{order.Number(0, 0), order.Number(0, 1), order.Number(0, 2)}
		written := write(t, scratch, r, len(sources), 2)
		for _, topic := range []string{meets, results} {
			if err := again.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 2}); err != nil {
				t.Fatal(err)
			}
		}
		turns, events, want := map[int32][]order.ForcedTurn{}, 0, map[int32][]string{}
		for i := range int32(2) {
			list := silenced(r, slices.DeleteFunc(written[i], func(c copied) bool { return c.plain || strings.HasPrefix(c.text, "behind") }), sources)
			found, err := order.FindForced(recordsOf(list), order.Stages{}, sources)
			if err != nil {
				t.Fatal(err)
			}
			turns[i], moved = found, moved+len(found)
			lost := map[string]bool{}
			if seed%3 == 0 {
				lost = some(r, list)
			}
			for _, text := range sequence(list, sources) {
				if _, text, _ = strings.Cut(text, " "); !lost[text] {
					want[i] = append(want[i], fmt.Sprint(len(want[i]), " ", text))
				}
			}
			events += len(want[i])
			list = slices.DeleteFunc(list, func(c copied) bool { return c.marks == nil && lost[c.text] })
			for record := range recordsOf(shuffled(r, list, sources)) {
				record.Partition.Index = i
				if err := again.Append(t.Context(), record); err != nil {
					t.Fatal(err)
				}
			}
		}
		read(t, again, order.Options{Forced: turns}, sources, r, events, r.IntN(3)*r.IntN(20), func() {})
		for i, want := range want {
			if got := texts(t, again, stream.Partition{Topic: results, Index: i}); !slices.Equal(got, want) {
				t.Fatalf("seed %d: partition %d, %d forced: released\n%v, want\n%v", seed, i, len(turns[i]), got, want)
			}
		}
		if n := forcedOf(t, again, 2); seed%3 > 0 && n != int64(len(turns[0])+len(turns[1])) {
			t.Fatalf("seed %d: the state says that %d events were forced, not %d and %d", seed, n, len(turns[0]), len(turns[1]))
		}
		_, _ = scratch.Close(), again.Close()
	}
	if moved < 80 {
		t.Errorf("only %d events were forced", moved)
	}
}

// silenced returns records in which at times all sources are silent up to the newest event.
func silenced(r *rand.Rand, list []copied, sources []int32) (all []copied) {
	newest := int64(0)
	for _, c := range list {
		newest = max(newest, c.key.Time)
		if all = append(all, c); c.marks != nil || r.IntN(10) > 0 {
			continue
		}
		for _, s := range sources {
			all = append(all, copied{marks: order.Marks{{Key: order.Key{Source: s, Offset: -1}, Silent: newest}}})
		}
	}
	return all
}

// some returns the texts of a tenth of the events.
func some(r *rand.Rand, list []copied) map[string]bool {
	texts := map[string]bool{}
	for _, c := range list {
		if c.marks == nil && r.IntN(10) == 0 {
			texts[c.text] = true
		}
	}
	return texts
}

// shuffled returns records of the sources in another order, in which no source is silent before
// the end.
func shuffled(r *rand.Rand, list []copied, sources []int32) (again []copied) {
	of := map[int32][]copied{}
	for _, c := range list[:len(list)-1] {
		if c.marks == nil {
			of[c.key.Source] = append(of[c.key.Source], c)
			continue
		}
		m := c.marks[0]
		m.Silent = order.NoMark.Silent
		of[m.Key.Source] = append(of[m.Key.Source], copied{marks: order.Marks{m}})
	}
	for len(again) < len(list)-1 {
		if s := sources[r.IntN(len(sources))]; len(of[s]) > 0 {
			n := 1 + r.IntN(len(of[s]))
			again, of[s] = append(again, of[s][:n]...), of[s][n:]
		}
	}
	return append(again, list[len(list)-1])
}

// recordsOf yields the records of a partition.
func recordsOf(list []copied) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for offset, c := range list {
			if !yield(c.record(stream.Offset(offset)), nil) {
				return
			}
		}
	}
}

// record returns the record that a repartitioner writes.
func (c *copied) record(offset stream.Offset) stream.Record {
	record := stream.Record{Partition: stream.Partition{Topic: meets}, Offset: offset, Value: []byte(c.text)}
	switch {
	case c.marks != nil:
		record.Headers = []stream.Header{{Key: header.Frontier, Value: c.marks.Append(nil)}}
	case !c.plain:
		place := order.Copy{Placed: order.Placed{Key: c.key}}
		record.Headers = []stream.Header{{Key: header.Order, Value: place.Append(nil)}}
	}
	return record
}

// forcedOf returns how many events the state says were forced.
func forcedOf(t *testing.T, log *memory.Log, partitions int32) (n int64) {
	t.Helper()
	for i := range partitions {
		state, err := log.State(t.Context(), group, stream.Partition{Topic: meets, Index: i})
		if err != nil {
			t.Fatal(err)
		}
		released, err := state.Get([]byte{statekey.Released})
		forced, errForced := order.Forced(released)
		if err := errors.Join(err, errForced); err != nil {
			t.Fatal(err)
		}
		n += forced
	}
	return n
}

// TestTheStateCountsForcedEventsAlone has four events. Three are moved, and only one of these is
// forced. The others have no place, or were sent back. By arrival, no event is forced.
func TestTheStateCountsForcedEventsAlone(t *testing.T) {
	for arrival, want := range map[bool]int64{false: 1, true: 0} {
		m := meetAsked(t)
		m.mark(0, 0, 100)
		m.event(0, order.Key{Time: 50, Offset: 7})
		m.add(0)
		redriven := order.Copy{Placed: order.Placed{Key: order.Key{Time: 60, Offset: 8}}}
		m.add(0, stream.Header{Key: header.Order, Value: redriven.Append(nil)}, stream.Header{Key: header.Redrive, Value: []byte("1")})
		m.event(0, order.Key{Time: 150, Offset: 150})
		m.mark(0, 0, 200)
		member, _ := m.bounded(order.Options{Arrival: arrival}, 0)
		if n, forced := m.read(member), forcedOf(t, m.log, 1); n != 4 || forced != want {
			t.Errorf("by arrival %t: %d events were released, and the state says that %d were forced: want 4 and %d", arrival, n, forced, want)
		}
	}
}

// TestAReplayWaitsForForcedEvents has a source be silent in the replay, too, before it brings its
// forced event. An event after the turn of that one waits for it, and one before the turn does not.
func TestAReplayWaitsForForcedEvents(t *testing.T) {
	silent, sources := copied{marks: order.Marks{order.Skip(1, 1000)}}, []int32{0, 1}
	first, second, forced := order.Key{Time: 100, Offset: 1}, order.Key{Time: 120, Offset: 2}, order.Key{Time: 50, Source: 1, Offset: 7}
	live := []copied{{key: first}, {marks: order.Marks{{Key: order.Key{Time: 110, Offset: 1}, Silent: order.NoMark.Silent}}}, silent, {key: forced}}
	turns, err := order.FindForced(recordsOf(live), order.Stages{}, sources)
	if err != nil || len(turns) != 1 {
		t.Fatalf("%+v, %v", turns, err)
	}
	m, readers := meet(t, 1), &order.Readers{Now: func() time.Time { return time.Unix(1000, 0) }}
	options := order.Options{Forced: map[int32][]order.ForcedTurn{0: turns}, Reader: readers.Reader()}
	member, err := order.NewLog(m.log, meets, options, sources...).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	m.event(0, first)
	m.event(0, second)
	m.mark(0, 0, 120)
	if err := m.log.Append(t.Context(), silent.record(0)); err != nil {
		t.Fatal(err)
	}
	m.want(member, "0: 100 of 0@1", "time 110 before 1")
	if s := readers.Standing()[0]; s.Waits != (order.Holder{Source: 1}) || s.Held != 1 {
		t.Errorf("%+v, want that the event waits for the source of the forced one", s)
	}
	m.event(0, forced)
	m.want(member, "1: 110 of 1@7 forced", "2: 120 of 0@2", "time 120 before 3")
}

// TestARestartOfAReplayKeepsForcedTurnsInOrder has a stage force an ask and its turn of 20 µs later,
// and then two asks between these. The replay copies all in the other order, and restarts after
// the first one.
func TestARestartOfAReplayKeepsForcedTurnsInOrder(t *testing.T) {
	live, again, sources := meetAsked(t), meetAsked(t), []int32{0, 1, 2, 3}
	reach := func(at int64) { // source 3 is at this time, and the others are silent
		live.mark(0, 3, at)
		marks := order.Marks{order.Skip(0, at), order.Skip(1, at), order.Skip(2, at)}
		live.add(0, stream.Header{Key: header.Frontier, Value: marks.Append(nil)})
	}
	ask := func(m askedMeeting, source int32, at int64, unawaited bool) {
		c := order.Copy{Placed: order.Placed{Key: order.Key{Time: at, Source: source, Offset: at}, Unawaited: unawaited}}
		m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)})
	}
	answer := func(m askedMeeting, source int32, at int64) {
		q := order.Question{Source: source, Offset: at}
		m.add(0, stream.Header{Key: header.AnswerTo, Value: q.Append(nil)})
	}
	reach(100)
	ask(live, 0, 50, true)
	answer(live, 0, 50)
	reach(105)
	ask(live, 1, 60, true)
	ask(live, 2, 61, true)
	answer(live, 1, 60)
	answer(live, 2, 61)
	o := order.Options{Stages: order.Stages{Delay: 20 * time.Microsecond}}
	turns, err := order.FindForced(recordsAt(t, live.log, 0), o.Stages, sources)
	if err != nil || len(turns) != 6 {
		t.Fatalf("%d turns are forced, want those of three asks: %+v, %v", len(turns), turns, err)
	}
	for source := int32(2); source >= 0; source-- {
		at := []int64{50, 60, 61}[source]
		ask(again, source, at, false)
		answer(again, source, at)
		again.mark(0, source, 200)
	}
	again.mark(0, 3, 102)
	o.Forced = map[int32][]order.ForcedTurn{0: turns}
	member, _ := again.bounded(o, sources...)
	commit(t, member, again.want(member, "0: 100 of 0@50 forced", "time 102 before 1"))
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	member, _ = again.bounded(o, sources...)
	again.mark(0, 3, 300)
	again.want(member, "1: 105 of 1@60 forced", "2: 105 of 2@61 forced", "3: 120 of 0@50 forced", "4: 125 of 1@60 forced", "5: 125 of 2@61 forced", "time 200 before 6")
}

// TestAReplayFollowsForcedTurnsOfStages does so for events that wait for answers, and for asks that
// have a turn after a delay. Answers come at other places than in the run that is replayed.
func TestAReplayFollowsForcedTurnsOfStages(t *testing.T) {
	for name, stages := range map[string]order.Stages{"answers": {By: []string{"merchant", "device"}}, "turns": {Delay: 20 * time.Microsecond}} {
		t.Run(name, func(t *testing.T) {
			moved, turnsMoved := 0, 0
			for seed := range seedsOf(200) {
				r := rand.New(rand.NewPCG(seed, 7))
				live, again := memory.New(memory.Options{}), memory.New(memory.Options{})
				sources := []int32{order.Number(0, 0), order.Number(0, 1), order.Number(0, 2)}
				written := writeStaged(t, live, r, stages, len(sources), 2)
				for _, topic := range []string{meets, results} {
					if err := again.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 2}); err != nil {
						t.Fatal(err)
					}
				}
				turns, want, events := map[int32][]order.ForcedTurn{}, [][]string{}, 0
				for i := range int32(2) {
					found, err := order.FindForced(recordsAt(t, live, i), stages, sources)
					if err != nil {
						t.Fatal(err)
					}
					turns[i], moved = found, moved+len(found)
					list := written[i].sequence(stages, sources)
					want, events = append(want, list), events+len(list)
					w := stagedWriter{t, again, r, stages, make([]stagesWritten, 2)}
					w.again(i, &written[i], sources)
				}
				for _, found := range turns {
					once := map[string]bool{}
					for _, turn := range found {
						source, offset := turn.Event()
						event := fmt.Sprint(source, "@", offset)
						if once[event] {
							turnsMoved++
						}
						once[event] = true
					}
				}
				read(t, again, order.Options{Stages: stages, Forced: turns}, sources, r, events, r.IntN(3)*r.IntN(20), func() {})
				for i, want := range want {
					if got := texts(t, again, stream.Partition{Topic: results, Index: int32(i)}); !slices.Equal(got, want) {
						t.Fatalf("seed %d: partition %d, %d forced: released\n%v, want\n%v", seed, i, len(turns[int32(i)]), got, want)
					}
				}
				_, _ = live.Close(), again.Close()
			}
			if moved < 150 || stages.Delay > 0 && turnsMoved < 50 {
				t.Errorf("only %d events were forced, of which %d twice", moved, turnsMoved)
			}
		})
	}
}

// again writes the records of a partition again: the sources in another order, and none of them
// silent before the end. Its last records are those of the partition, as the last events are.
func (w *stagedWriter) again(index int32, l *stagesWritten, sources []int32) {
	of := map[int32][]copied{}
	end := slices.IndexFunc(l.list, func(c copied) bool { return c.key.Time == 1<<30 })
	for _, c := range l.list[:end] {
		switch {
		case c.marks == nil:
			of[c.key.Source] = append(of[c.key.Source], c)
		case c.marks[0] != order.NoMark:
			m := c.marks[0]
			m.Silent = order.NoMark.Silent
			of[m.Key.Source] = append(of[m.Key.Source], copied{marks: order.Marks{m}})
		}
	}
	add := func(c copied) {
		if c.marks != nil {
			w.add(index, "", stream.Header{Key: header.Frontier, Value: c.marks.Append(nil)})
			return
		}
		q, asked := l.questions[c.text], []byte(nil)
		for _, by := range q.asked {
			asked = order.AppendAsk(asked, by, index)
		}
		place := order.Copy{Placed: order.Placed{Key: c.key}}
		w.add(index, c.text, stream.Header{Key: header.Order, Value: place.Append(nil)}, stream.Header{Key: header.Asked, Value: asked})
		for _, by := range append([]string{""}, q.asked...) {
			if (by == "") == (w.stages.Delay > 0) && by != "gone" {
				w.list[index].open = append(w.list[index].open, order.Question{Source: c.key.Source, Offset: c.key.Offset, By: by})
			}
		}
	}
	w.list[index].answers = map[int]string{}
	for len(of) > 0 {
		s := sources[w.r.IntN(len(sources))]
		if n := min(len(of[s]), 1+w.r.IntN(9)); n < len(of[s]) {
			for _, c := range of[s][:n] {
				add(c)
			}
			of[s] = of[s][n:]
		} else {
			for _, c := range of[s] {
				add(c)
			}
			delete(of, s)
		}
		for len(w.list[index].open) > 0 && w.r.IntN(3) > 0 {
			w.answer(index)
		}
	}
	for _, c := range l.list[end:] {
		if c.marks == nil || c.marks[0] != order.NoMark {
			add(c)
		}
	}
	for len(w.list[index].open) > 0 {
		w.answer(index)
	}
}

// recordsAt yields the records of a partition of a log.
func recordsAt(t *testing.T, log *memory.Log, index int32) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		p := stream.Partition{Topic: meets, Index: index}
		_, end, err := log.Offsets(t.Context(), p)
		for at := stream.Offset(0); at < end && err == nil; at++ {
			var r stream.Record
			if r, _, err = log.Peek(t.Context(), p, at); err == nil && !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(stream.Record{}, err)
		}
	}
}
