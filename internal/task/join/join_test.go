package join

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

var partition = stream.Partition{Topic: "merged", Index: 3}

const start = int64(-1 << 63) // of a partition's watermark

// world is the join of one partition, and what it takes to feed it.
type world struct {
	testing.TB
	plan      *Plan
	counts    Counts
	state     memory.State
	due       due.Queue
	set       *Set
	offset    int64
	watermark int64
	tied      int32    // see Event.Tied
	went      []string // what went on, in its order

	id, on, price value.Slot
}

func newWorld(t testing.TB, j operator.Join) *world {
	t.Helper()
	w := &world{TB: t, plan: &Plan{Schema: &value.Schema{}}, state: memory.State{}, watermark: start}
	add := func(name string, kind value.Kind, optional bool) value.Slot {
		slot, err := w.plan.Schema.Add(name, value.Type{Kind: kind, Optional: optional})
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	w.id, w.on, w.price = add("id", value.String, false), add("on", value.String, true), add("price", value.Number, true)
	j.Name, j.On = "click", [2][]value.Slot{{w.on}, {w.on}}
	j.Matched = add("click.matched", value.Bool, false)
	if j.Match == operator.MatchLast {
		count := add("click.count", value.Int, false)
		j.Count = &count
	}
	for _, field := range []value.Slot{w.id, w.price} {
		j.Fields = append(j.Fields, operator.JoinField{Field: field, Slot: add("click."+field.Name, field.Type.Kind, true)})
	}
	if j.Most == (operator.JoinMax{}) {
		j.Most = operator.JoinMax{Rows: 1 << 20, Bytes: 1 << 30, Matches: 1 << 10}
	}
	w.plan.Join, w.plan.Fields = &j, []value.Slot{w.id, w.on, w.price}
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	w.set.Close()
	w.due = due.Queue{}
	var err error
	if w.set, err = Open(w.plan, &w.counts, partition, w.state, &w.due); err != nil {
		w.Fatal(err)
	}
}

// commit makes what changed durable.
func (w *world) commit() {
	w.set.Changes(func(key, data []byte) {
		w.state.Apply(stream.Change{Key: key, Value: data})
	})
}

// pass has time move on, one entry of the queue at a time.
func (w *world) pass(watermark int64) {
	w.Helper()
	w.watermark = max(w.watermark, watermark)
	for lane := &w.due[due.Group]; w.watermark != start && lane.Until(w.watermark); {
		if _, err := w.set.Come(lane.Pop()); err != nil {
			w.Fatal(err)
		}
		w.take()
	}
}

// add has what is due come, and then an event.
func (w *world) add(e eventtime.Event, watermark int64) (failure error) {
	w.Helper()
	w.pass(watermark)
	row := &w.plan.Schema.NewRows(1)[0]
	row.SetText(w.id, e.ID)
	if on, ok := e.Text["on"]; ok {
		row.SetText(w.on, on)
	}
	if price, ok := e.Number["price"]; ok {
		row.SetNumber(w.price, price)
	}
	r := &stream.Record{Partition: partition, Offset: stream.Offset(w.offset), Key: []byte(e.Text["key"])}
	if client := e.Text["client"]; client != "" {
		r.Headers = []stream.Header{{Key: header.ClientEvent, Value: []byte(client)}}
	}
	w.offset++
	from := fmt.Sprintf("%s/%d@%d", e.Topic, e.Partition, e.Offset)
	_, failure, fatal := w.set.Add(Event{Record: r, Right: e.Topic == "rights", Time: e.Time, Watermark: w.watermark, Row: row, Identity: operator.Identity{ID: from, Source: from}, Tied: w.tied})
	if fatal != nil {
		w.Fatal(fatal)
	}
	w.take()
	return failure
}

// take notes what went on.
func (w *world) take() {
	w.Helper()
	for _, e := range w.set.Ended() {
		row := &w.plan.Schema.NewRows(1)[0]
		r, err := w.set.Compose(e, row)
		if err != nil {
			w.Fatal(err)
		}
		text := fmt.Sprintf("%s %s %s %d", header.Get(r, header.ID), r.Key, r.Value, e.Time)
		if w.plan.Join.Count != nil {
			text += fmt.Sprint(" of ", row.Int(*w.plan.Join.Count))
		}
		w.went = append(w.went, text)
	}
}

// wants fails if what went on is something else. It forgets that.
func (w *world) wants(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.went); diff != "" {
		w.Errorf("(-want +got)\n%s", diff)
	}
	w.went = nil
}

// sourcesOf makes the events of two partitions of each topic, each in the order of its
// offsets, in which no event is more than lateness behind.
func sourcesOf(rng *rand.Rand, n int, lateness int64) (sources [4][]eventtime.Event) {
	tied := int64(1 + rng.IntN(2)*5) // events of one time
	for i := range n {
		s, newest := rng.IntN(len(sources)), 1000*(int64(i)-int64(i)%tied)
		key := fmt.Sprint("k", rng.IntN(6)) // in both partitions of each topic
		e := eventtime.Event{
			Topic: []string{"lefts", "rights"}[s/2], Partition: s % 2, ID: fmt.Sprint("e", i),
			Time: newest - rng.Int64N(lateness+1), Text: map[string]string{"key": key, "on": key + "/" + fmt.Sprint(rng.IntN(2))},
		}
		e.Time -= e.Time % 500 // ties
		e.Time = max(e.Time, newest-lateness)
		if rng.IntN(20) == 0 {
			delete(e.Text, "on")
		}
		if rng.IntN(2) == 0 {
			e.Number = map[string]float64{"price": float64(i)}
		}
		e.Offset = int64(len(sources[s]))
		sources[s] = append(sources[s], e)
	}
	return sources
}

// want is what goes on by the reference, which looks at the events as a set.
func (w *world) want(sources [4][]eventtime.Event) (want []string) {
	j, all, byID := w.plan.Join, slices.Concat(sources[:]...), map[string]eventtime.Event{}
	for i := range all {
		byID[all[i].ID] = all[i]
		if _, ok := all[i].Text["on"]; !ok {
			all[i].Text = map[string]string{"key": all[i].Text["key"], "on": all[i].ID} // alone
		}
	}
	rule := eventtime.Join{
		Left: "lefts", Right: "rights", On: "on", Within: j.Within.Microseconds(), Before: j.Before.Microseconds(), Inner: j.Inner,
		Match: map[operator.Match]string{operator.MatchFirst: "first", operator.MatchLast: "last", operator.MatchEach: "each"}[j.Match],
	}
	order := eventtime.Order(all, eventtime.Rule{Wait: 1 << 40, Lateness: 1 << 40})
	each := rule
	each.Match, each.Inner = "each", true
	count := map[string]int{}
	for _, p := range each.Pairs(order) {
		count[p.Left]++
	}
	from := func(e eventtime.Event) string { return fmt.Sprintf("%s/%d@%d", e.Topic, e.Partition, e.Offset) }
	for _, p := range rule.Pairs(order) {
		l, r := byID[p.Left], byID[p.Right]
		id, at := from(l)+"~click", l.Time+rule.Within
		if p.Right != "" && j.Match != operator.MatchLast {
			at = max(l.Time, r.Time)
		} else if _, on := l.Text["on"]; !on {
			at = l.Time // nothing can come
		}
		if p.Right != "" && j.Match == operator.MatchEach {
			id += "~" + from(r)
		}
		var fields []string
		number := func(e eventtime.Event, fields []string) []string {
			if v, ok := e.Number["price"]; ok {
				fields = append(fields, fmt.Sprintf(`"price":%v`, v))
			}
			return fields
		}
		fields = append(fields, fmt.Sprintf(`"id":%q`, l.ID))
		if on, ok := l.Text["on"]; ok {
			fields = append(fields, fmt.Sprintf(`"on":%q`, on))
		}
		fields = number(l, fields)
		right := []string{fmt.Sprintf(`"matched":%t`, p.Right != "")}
		if p.Right != "" {
			right = number(r, append(right, fmt.Sprintf(`"id":%q`, r.ID)))
		}
		text := fmt.Sprintf(`%s %s {%s,"click":{%s}} %d`, id, l.Text["key"], strings.Join(fields, ","), strings.Join(right, ","), at)
		if j.Count != nil {
			text += fmt.Sprint(" of ", count[l.ID])
		}
		want = append(want, text)
	}
	slices.Sort(want)
	return want
}

// TestPairsAreAFunctionOfTheirTimes has events of four sources come in random orders, with
// commits and restarts at random. What goes on is what a look at all events says.
func TestPairsAreAFunctionOfTheirTimes(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		lateness := int64(rng.IntN(4)) * 4000
		j := operator.Join{
			Match: operator.Match(rng.IntN(3)), Inner: rng.IntN(2) == 0,
			Within: time.Duration(rng.IntN(8)*2) * time.Millisecond, Before: time.Duration(rng.IntN(3)*3) * time.Millisecond,
		}
		sources := sourcesOf(rng, 120, lateness)
		want := newWorld(t, j).want(sources)
		for order := range 3 {
			w := newWorld(t, j)
			w.arrive(rng, sources, lateness)
			if slices.Sort(w.went); j.Inner { // those without a right are dropped by the loop
				w.went = slices.DeleteFunc(w.went, func(text string) bool { return strings.Contains(text, `"matched":false`) })
			}
			if diff := cmp.Diff(want, w.went, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d, order %d, %+v (-want +got)\n%s", seed, order, j, diff)
			}
			if len(w.state) != 0 || w.counts.Rows.Load() != 0 || w.counts.Bytes.Load() != 0 || len(w.set.buckets) != 0 {
				t.Fatalf("seed %d: %d entries of state are left, %d rows, %d bytes, %d buckets", seed, len(w.state), w.counts.Rows.Load(), w.counts.Bytes.Load(), len(w.set.buckets))
			}
		}
		newWorld(t, j).replays(sources, lateness)
	}
}

// arrive has the sources interleave at random.
func (w *world) arrive(rng *rand.Rand, sources [4][]eventtime.Event, lateness int64) {
	w.Helper()
	var at [4]int
	newest := [4]int64{start, start, start, start}
	for {
		s := rng.IntN(len(sources))
		if at[s] == len(sources[s]) {
			newest[s] = 1 << 50 // a source that ended holds nobody
			if at == [4]int{len(sources[0]), len(sources[1]), len(sources[2]), len(sources[3])} {
				break
			}
			continue
		}
		e := sources[s][at[s]]
		at[s]++
		newest[s] = max(newest[s], e.Time-lateness)
		w.ties(newest)
		if err := w.add(e, slices.Min(newest[:])); err != nil {
			w.Fatal(err)
		}
		if rng.IntN(4) == 0 {
			w.commit()
			if rng.IntN(3) == 0 {
				w.open()
			}
		}
	}
	w.commit()
	w.open()
	w.pass(1 << 40)
	w.commit()
	w.commit()
}

// ties notes from which partition of the rights an event of the watermark's time may come.
func (w *world) ties(newest [4]int64) {
	switch at := max(w.watermark, slices.Min(newest[:])); {
	case newest[2] <= at:
		w.tied = 0
	case newest[3] <= at:
		w.tied = 1
	default:
		w.tied = math.MaxInt32
	}
}

// replays has the sources come in one order, without a commit and with a commit and restart
// behind each event: the same goes on in the same order, and the same state is left.
func (w *world) replays(sources [4][]eventtime.Event, lateness int64) {
	w.Helper()
	var went [2][]string
	var states [2]memory.State
	for i := range went {
		o := newWorld(w.TB, *w.plan.Join)
		var at [4]int
		newest := [4]int64{start, start, start, start}
		for n := 0; at != [4]int{len(sources[0]), len(sources[1]), len(sources[2]), len(sources[3])}; n++ {
			s := n * 7 % 4
			if at[s] == len(sources[s]) {
				newest[s] = 1 << 50
				s = slices.IndexFunc([]int{0, 1, 2, 3}, func(s int) bool { return at[s] < len(sources[s]) })
			}
			e := sources[s][at[s]]
			at[s]++
			newest[s] = max(newest[s], e.Time-lateness)
			o.ties(newest)
			if err := o.add(e, slices.Min(newest[:])); err != nil {
				w.Fatal(err)
			}
			if i == 1 {
				o.commit()
				o.open()
			}
		}
		o.commit()
		states[i] = o.state
		o.pass(1 << 40)
		went[i] = o.went
	}
	if diff := cmp.Diff(states[0], states[1]); diff != "" {
		w.Fatalf("restarts change the state (-without +with)\n%s", diff)
	}
	if diff := cmp.Diff(went[0], went[1]); diff != "" {
		w.Fatalf("restarts change what goes on (-without +with)\n%s", diff)
	}
}

func left(second int64, id, on string) eventtime.Event {
	return eventtime.Event{Topic: "lefts", Offset: second, Time: second * 1e6, ID: id, Text: map[string]string{"key": "k", "on": on}}
}

func right(second int64, id, on string) eventtime.Event {
	e := left(second, id, on)
	e.Topic = "rights"
	return e
}

// TestFirstGoesOnAsSoonAsItIsCertain has a left go on at its right, or when no earlier
// right can come in time.
func TestFirstGoesOnAsSoonAsItIsCertain(t *testing.T) {
	w := newWorld(t, operator.Join{Within: 10 * time.Second})
	w.add(left(0, "l", "x"), 0)
	w.add(right(5, "r", "x"), 5e6)
	w.wants(`lefts/0@0~click k {"id":"l","on":"x","click":{"matched":true,"id":"r"}} 5000000`)
	w.add(left(6, "m", "x"), 5e6)
	w.add(right(9, "s", "x"), 6e6)
	w.wants()
	w.add(right(8, "u", "x"), 7e6)
	w.pass(8e6 - 1)
	w.wants()
	w.pass(8e6) // another one of this time may come, from another partition
	w.wants()
	w.pass(8e6 + 1)
	w.wants(`lefts/0@6~click k {"id":"m","on":"x","click":{"matched":true,"id":"u"}} 8000000`)
	w.pass(16e6 + 1)
	if w.counts.Matched.Load() != 2 || w.counts.Unclaimed.Load() != 0 || w.counts.Unmatched.Load() != 0 {
		t.Errorf("%d matched, %d unclaimed, %d unmatched", w.counts.Matched.Load(), w.counts.Unclaimed.Load(), w.counts.Unmatched.Load())
	}
}

// TestLateEventsOfAJoin has a left whose time is over, as `late: include` lets in: it goes
// on at once with what is there. A right whose time is over is no pair of a later left.
func TestLateEventsOfAJoin(t *testing.T) {
	w := newWorld(t, operator.Join{Within: 10 * time.Second, Before: time.Second, Match: operator.MatchLast})
	w.add(right(20, "r", "x"), 20e6)
	w.add(left(12, "l", "x"), 21e6)
	w.wants()
	w.add(left(10, "m", "x"), 21e6)
	w.wants(`lefts/0@10~click k {"id":"m","on":"x","click":{"matched":true,"id":"r"}} 20000000 of 1`)
	w.add(right(13, "s", "x"), 21e6)
	w.pass(22e6 + 1)
	w.wants(`lefts/0@12~click k {"id":"l","on":"x","click":{"matched":true,"id":"r"}} 22000000 of 2`)
	w.add(left(12, "n", "x"), 22e6+1)
	w.wants(`lefts/0@12~click k {"id":"n","on":"x","click":{"matched":false}} 22000000 of 0`)
}

// TestRightsOfOneTimeAreByTheirSource has rights of one time come from two partitions, the
// later one in order first.
func TestRightsOfOneTimeAreByTheirSource(t *testing.T) {
	for match, want := range map[operator.Match][]string{
		operator.MatchFirst: {`lefts/0@0~click k {"id":"l","on":"x","click":{"matched":true,"id":"first"}} 5000000`},
		operator.MatchLast:  {`lefts/0@0~click k {"id":"l","on":"x","click":{"matched":true,"id":"second"}} 10000000 of 2`},
	} {
		for _, turned := range []bool{false, true} {
			w := newWorld(t, operator.Join{Within: 10 * time.Second, Match: match})
			w.add(left(0, "l", "x"), 0)
			first, second := right(5, "first", "x"), right(5, "second", "x")
			second.Partition = 1
			if turned {
				first, second = second, first
			}
			w.add(first, 5e6) // the time of both
			w.add(second, 5e6)
			w.pass(10e6 + 1)
			w.wants(want...)
		}
	}
}

// TestALeftThatHasNoPairGoesOnAtOnce has a left lack what it is joined on.
func TestALeftThatHasNoPairGoesOnAtOnce(t *testing.T) {
	w := newWorld(t, operator.Join{Within: 10 * time.Second})
	l := left(3, "l", "")
	delete(l.Text, "on")
	w.add(l, 0)
	w.wants(`lefts/0@3~click k {"id":"l","click":{"matched":false}} 3000000`)
}

// TestContentsAreNotInMemory has the state alone keep what is durable.
func TestContentsAreNotInMemory(t *testing.T) {
	w := newWorld(t, operator.Join{Within: time.Minute, Match: operator.MatchEach})
	for i := range int64(100) {
		w.add(left(i, fmt.Sprint("l", i), "x"), 0)
	}
	w.commit()
	w.add(right(50, "r", "x"), 0) // whose lefts are read again
	w.commit()
	w.commit()
	for _, b := range w.set.buckets {
		for _, r := range slices.Concat(slices.Concat(b.lefts...), slices.Concat(b.rights...)) {
			if r.data != nil {
				t.Fatal("what is durable is in memory too")
			}
		}
	}
	if len(w.went) != 51 {
		t.Errorf("%d pairs, want those of the lefts from 0 s to 50 s", len(w.went))
	}
}

// TestAJoinThatIsGoneIsNamed opens the state of a join with a plan that has none, and
// damaged state.
func TestAJoinThatIsGoneIsNamed(t *testing.T) {
	w := newWorld(t, operator.Join{Within: time.Minute})
	e := left(1, "l", "x")
	e.Text["client"] = "c1"
	w.add(e, 0)
	w.commit()
	_, err := Open(&Plan{}, &w.counts, partition, w.state, &due.Queue{})
	if err == nil || !strings.Contains(err.Error(), `events of join "click" wait in merged/3, but the pipeline has no such step`) {
		t.Error(err)
	}
	if none, err := Open(&Plan{}, &w.counts, partition, memory.State{}, &due.Queue{}); err != nil || none != nil || none.Ended() != nil {
		t.Errorf("without a join: %v, %v", none, err)
	}
	for key, data := range w.state {
		for n := range data {
			if _, err := Open(w.plan, &w.counts, partition, memory.State{key: data[:n]}, &due.Queue{}); err == nil {
				t.Errorf("%d of %d bytes are taken", n, len(data))
			}
			if _, err := Open(w.plan, &w.counts, partition, memory.State{key[:len(key)-1]: data}, &due.Queue{}); err == nil {
				t.Error("a key that is cut is taken")
			}
		}
	}
	w.open()
	w.pass(1 << 40)
	w.wants(`lefts/0@1~click k {"id":"l","on":"x","click":{"matched":false}} 61000000`)
}
