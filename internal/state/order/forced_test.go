package order_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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
			found, err := order.FindForced(recordsOf(list), sources)
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
		if n := forcedOf(t, again); seed%3 > 0 && n != int64(len(turns[0])+len(turns[1])) {
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
func forcedOf(t *testing.T, log *memory.Log) (n int64) {
	t.Helper()
	for i := range int32(2) {
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
