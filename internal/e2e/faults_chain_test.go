package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// TestFaultsLeaveTheSameChain runs the whole chain, each pipeline and each
// copying by three members that lose commits, partitions and time, a tenth as
// often as one pipeline.
func TestFaultsLeaveTheSameChain(t *testing.T) {
	events := reference.GenerateChain(*answerSeed, 1000)
	counts := streamtest.Counts{}
	seeds, seed := seedsOf(*faultSeeds/10), uint64(0)
	for ; seed < seeds || len(counts.Missing()) > 0 && seed < max(*faultSeeds, 10); seed++ { // until each fault came
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.UnixMicro(events[len(events)-1].Time))) // when they happen
			inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
			faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
			runners, err := newChain(t.TempDir(), variant{"memory", 7, 3, time.Millisecond}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := runners.createTopics(t.Context(), inner); err != nil {
				t.Fatal(err)
			}
			if err := appendMessages(t.Context(), inner, events); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of virtual time, of which faults take minutes
			defer cancel()
			if err := runners.run(ctx, inspected{faulty, inner}, wholeChain, nothing); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			whole := mustBeChain(t, runners, inner)
			mustReplay(t, readStored(t, inner), whole)
			mustEqualUnbroken(t, events, whole)
			counts.Add(faulty.Counts())
			if err := faulty.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%d seeds: %v", seed, counts)
	if missing := counts.Missing(); len(missing) > 0 {
		t.Errorf("never injected: %v", missing)
	}
}

// TestVeryManyTimersAtOnePosition leaps over the ticks and ends of more sessions
// than fire in one step.
func TestVeryManyTimersAtOnePosition(t *testing.T) {
	const keys, start = 4500, 1_760_000_000_000
	var events []stream.Record
	add := func(key int64, ts int64) {
		value := fmt.Sprintf(`{"tx":"t%d","terminal":"s","customer":"c%d","amount":1,"country":"US","ts":%d,"shop_count_60s":1,"band":"low"}`, len(events), key, ts)
		events = append(events, stream.Record{ // the ticks go to this partition, too
			Partition: stream.Partition{Topic: "by-customer", Index: stream.Place([]byte("tick-1"), 4)},
			Time:      time.UnixMilli(ts), Key: fmt.Appendf(nil, "c%d", key), Value: []byte(value),
		})
	}
	for _, at := range []int64{start, start + 31_000} { // ticks at 60 to 66 s, ends a second later
		for i := range int64(keys) {
			add(i*7919%keys, at+i%7*1000) // in no order of keys
		}
	}
	for i := range int64(5) {
		add(i, start+100_000+i*30_000)
	}
	var first *answer
	for _, v := range []variant{{"memory", 64, 1, time.Millisecond}, {"memory", 1, 4, time.Second}, {"embedded", 1000, 1, time.Millisecond}} {
		c := newChainRun(t, v)
		if err := c.replay(t.Context(), stored{events}); err != nil {
			t.Fatal(err)
		}
		got := readChain(t, c.chainRunners["fraud"], c.log)
		if first == nil {
			first = got
			made := chainMade(t, c.log, "fraud")
			if d := got.madeDifference("fraud", made); d != "" {
				t.Fatal(d)
			}
			if fired := made[events[0].Partition.String()].Fired; fired < keys*3/2 {
				t.Errorf("%d timers fired, want more", fired)
			}
		}
		if d := got.chainDifference(first); d != "" {
			t.Fatalf("%v: %s", v, d)
		}
	}
}

// mergedLog is activity.repartition, written by hand: its events are in partition 1.
type mergedLog struct{ records []stream.Record }

func secondsAfter(seconds int) time.Time { return time.Unix(1_760_000_000+int64(seconds), 0).UTC() }

func (l *mergedLog) add(at time.Time, key, value string, headers ...stream.Header) {
	r := stream.Record{Partition: stream.Partition{Topic: "activity.repartition", Index: 1}, Time: at, Headers: headers}
	if value != "" {
		r.Key, r.Value = []byte(key), []byte(value)
	}
	l.records = append(l.records, r)
}

// spot is the place of an event of a source, by its offset and the second after which it is.
func spot(source string, offset, second int) order.Key {
	topic, index, _ := strings.Cut(source, "/")
	partition, err := strconv.Atoi(index)
	if err != nil {
		panic(err)
	}
	n := slices.Index([]string{"logins", "transactions"}, topic)
	return order.Key{Time: secondsAfter(second).UnixMicro(), Source: order.Number(n, int32(partition)), Offset: int64(offset)}
}

// told has sources be at a second; a clock says so of those that are silent.
func (l *mergedLog) told(second int, silent bool, sources ...string) {
	var marks order.Marks
	for _, source := range sources {
		m := order.Mark{Key: spot(source, len(l.records), second), Silent: order.NoMark.Silent}
		if silent {
			m = order.Mark{Key: order.Key{Time: order.First.Time, Source: m.Key.Source, Offset: -1}, Silent: m.Key.Time}
		}
		marks = append(marks, m)
	}
	for i := range int32(5) { // to all partitions, as a repartitioner does
		l.records = append(l.records, marks.Record(stream.Partition{Topic: "activity.repartition", Index: i}, secondsAfter(second)))
	}
}

// others are all sources but these.
func others(but ...string) (list []string) {
	for topic, n := range map[string]int{"transactions": 4, "logins": 6} {
		for i := range n {
			if source := fmt.Sprintf("%s/%d", topic, i); !slices.Contains(but, source) {
				list = append(list, source)
			}
		}
	}
	slices.Sort(list)
	return list
}

// event has an event of a second be copied to a place, and its source be there. It is late if
// it is more than 5 s before the place.
func (l *mergedLog) event(source, key string, at, second int) {
	n, when := len(l.records), secondsAfter(second)
	c := order.Copy{Placed: order.Placed{Key: spot(source, n, at), Late: second < at-5}, Appended: secondsAfter(at).UnixMicro()}
	l.add(when, key, fmt.Sprintf(`{"tx":"t%d","customer":"%s","amount":5,"ts":%d}`, n, key, when.UnixMilli()),
		stream.Header{Key: "afterbay-source", Value: fmt.Appendf(nil, "%s@%d", source, n)}, stream.Header{Key: "afterbay-order", Value: c.Append(nil)})
	l.told(at, false, source)
}

// mustBeReference runs activity over the log in several ways and returns what
// the reference makes of it.
func (l *mergedLog) mustBeReference(t *testing.T) reference.Made {
	t.Helper()
	var first *answer
	var made map[string]reference.Made
	for _, v := range []variant{{"memory", 64, 1, time.Millisecond}, {"memory", 1, 1, time.Millisecond}, {"embedded", 1, 4, time.Second}} {
		c := newChainRun(t, v)
		if err := c.replay(t.Context(), stored{l.records}); err != nil {
			t.Fatal(err)
		}
		got := behind(readChain(t, c.chainRunners["activity"], c.log))
		if first == nil {
			first, made = got, chainMade(t, c.log, "activity")
			if d := got.madeDifference("activity", made); d != "" {
				t.Fatal(d)
			}
		}
		if d := got.chainDifference(first); d != "" {
			t.Fatalf("%v: %s", v, d)
		}
	}
	return made["activity.repartition/1"]
}

// TestSilentSourcesAreNotWaitedForAndComeBack has sources be silent, by a clock, and then have
// events again, behind what the others had meanwhile.
func TestSilentSourcesAreNotWaitedForAndComeBack(t *testing.T) {
	var l mergedLog
	silent := func() { l.told(3000, true, others("transactions/0")...) }
	l.event("transactions/0", "c", 5, 5)
	silent()
	l.event("transactions/0", "c", 105, 105) // the session ended
	silent()
	l.event("transactions/1", "c", 90, 90) // its turn is over, and it is not late in its own partition
	l.event("transactions/0", "c", 106, 106)
	l.event("transactions/1", "c", 99, 80)   // late, and its turn is over
	l.event("transactions/2", "c", 150, 141) // late
	l.event("transactions/0", "c", 152, 152)
	l.event("transactions/1", "c", 148, 148)
	l.told(3000, true, others("transactions/1", "transactions/2")...)
	l.event("transactions/2", "c", 155, 155) // waits for transactions/1
	l.told(160, false, others()...)
	if m := l.mustBeReference(t); m.Late != 2 || m.Fired == 0 || len(m.Outputs) == 0 {
		t.Errorf("%d late, %d timers fired", m.Late, m.Fired)
	}
}

// TestTimersOfAKeyFireByTime has a leap over the ticks and the end of a session: the tick sets
// another one that is due before the end, and the end takes back the next. The clock of the
// events is ahead of their places.
func TestTimersOfAKeyFireByTime(t *testing.T) {
	var l mergedLog
	l.told(522, false, others("transactions/0")...)
	for at := 0; at <= 125; at += 25 {
		l.event("transactions/0", "c", 10, max(at, 10))
	}
	l.event("transactions/0", "d", 520, 520) // the watermark leaps from before the first to 500 s
	l.event("transactions/0", "d", 521, 521)
	l.told(522, false, "transactions/0")         // as the others: silence changes nothing
	if m := l.mustBeReference(t); m.Fired != 4 { // soon, two ticks and the end
		t.Errorf("%d timers fired", m.Fired)
	}
}

// TestVeryManyTimersThatAreSetAgain has more sessions than tick in one transaction, all
// of which are due again at the same position, and so on.
func TestVeryManyTimersThatAreSetAgain(t *testing.T) {
	var l mergedLog
	l.told(310, false, others("transactions/0")...)
	for _, at := range []int{1, 300} {
		for i := range 4200 {
			l.event("transactions/0", fmt.Sprintf("c%d", i), 1, at)
		}
	}
	l.told(271, false, "transactions/0") // every session ticks at 61, 121 and 181 s, where it fails
	for at := range 6 {
		l.event("transactions/0", fmt.Sprintf("c%d", at), 301+at, 301+at)
	}
	l.told(310, false, "transactions/0") // as the others: silence changes nothing
	if m := l.mustBeReference(t); m.Fired != 3*4200 {
		t.Errorf("%d timers fired", m.Fired)
	}
}
