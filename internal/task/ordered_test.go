package task_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// merging has the input be a repartition topic of two sources, of two partitions and of one.
func (l *loop) merging() {
	l.plan.Sources, l.sources = []task.Source{{Topic: "logins", Rank: 1, Fields: l.plan.Fields, Lateness: 3 * time.Second}, {Topic: "clicks", Fields: l.plan.Fields}}, []int32{1, 2}
	topic := l.slot("meta.topic", l.of("k").Type)
	l.plan.Meta.Topic = &topic
}

// keyOf returns the key of an event of a source, such as clicks/0@7, at a place of so many
// seconds. Topics are numbered in the order of their names: clicks, logins, orders.
func keyOf(source string, place int) order.Key {
	at, err := deadletter.ParsePosition(source)
	if err != nil {
		panic(err)
	}
	number := order.Number(slices.Index([]string{"clicks", "logins", "orders"}, at.Topic), at.Index)
	return order.Key{Time: time.Unix(int64(place), 0).UnixMicro(), Source: number, Offset: int64(at.Offset)}
}

// from has an event be the copy of one of a source, at a place of so many seconds.
func from(source string, place int, e at) at { return placed(source, place, false, e) }

// late is from, of an event that is late in its source partition.
func late(source string, place int, e at) at { return placed(source, place, true, e) }

func placed(source string, place int, late bool, e at) at {
	k := keyOf(source, place)
	c := order.Copy{Placed: order.Placed{Key: k, Late: late}, Appended: k.Time}
	e.headers = append(e.headers, stream.Header{Key: header.Source, Value: []byte(source)}, stream.Header{Key: header.Order, Value: c.Append(nil)})
	return e
}

// until is a mark: its source is behind an event at a place of so many seconds.
func until(source string, place int) order.Mark {
	return order.Mark{Key: keyOf(source, place), Silent: order.NoMark.Silent}
}

// silent is until, of a source that has no more events before a time, by a clock.
func silent(source string, place, clock int) order.Mark {
	return order.Mark{Key: keyOf(source, place), Silent: time.Unix(int64(clock), 0).UnixMicro()}
}

// mark appends a record with marks to a partition of the input.
func (l *loop) mark(part int32, marks ...order.Mark) {
	l.Helper()
	l.append(order.Marks(marks).Record(stream.Partition{Topic: l.plan.Topic, Index: part}, time.Unix(1, 0)))
}

// everybody appends marks by which all sources are at a place, in both partitions.
func (l *loop) everybody(place int) {
	l.Helper()
	for part := range int32(2) {
		l.mark(part, until("clicks/0@99", place), until("clicks/1@99", place), until("logins/0@99", place))
	}
}

// TestEventsOfSourcesHaveTheirTurnInOrder has events of two topics come in another order than
// that of their places. An event has its turn when all source partitions are there.
func TestEventsOfSourcesHaveTheirTurnInOrder(t *testing.T) {
	for _, chunk := range []int{0, 1} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.merging()
			l.put(l.emit(0, "meta.topic", "meta.partition", "meta.offset", "v"))
			l.send(
				from("clicks/0@1", 50, at{key: "a", t: 50, v: 1}), from("logins/0@1", 20, at{key: "a", t: 20, v: 2}),
				from("clicks/0@2", 50, at{key: "b", t: 49, v: 3}), from("clicks/1@7", 30, at{key: "a", t: 30, v: 4}), from("logins/0@2", 50, at{key: "a", t: 50, v: 5}))
			l.mark(0, until("clicks/0@2", 50), until("logins/0@1", 20))
			l.start()
			l.pass(time.Second)
			l.wants("out") // the second partition of clicks said nothing
			l.mark(0, until("clicks/1@7", 30))
			l.pass(time.Second)
			want := []string{`{"meta.topic":"logins","meta.partition":0,"meta.offset":1,"v":2}`}
			l.wants("out", want...)
			l.mark(0, until("logins/0@2", 50))
			l.pass(time.Second)
			want = append(want, `{"meta.topic":"clicks","meta.partition":1,"meta.offset":7,"v":4}`)
			l.wants("out", want...)
			l.end()
			l.mark(0, until("clicks/1@7", 51))
			l.run() // what was read and has not had its turn is read again
			want = append(want, `{"meta.topic":"clicks","meta.partition":0,"meta.offset":1,"v":1}`, `{"meta.topic":"clicks","meta.partition":0,"meta.offset":2,"v":3}`)
			l.wants("out", want...) // and clicks/0 may have more at 50, before logins/0
			l.mark(0, until("clicks/0@3", 51))
			l.run()
			l.wants("out", append(want, `{"meta.topic":"logins","meta.partition":0,"meta.offset":2,"v":5}`)...)
			if counts := l.metrics.Counts(); counts.Events != 1 || counts.Late+counts.DeadLetters+counts.Forced != 0 {
				t.Errorf("%+v", counts)
			}
		})
	}
}

// TestSourceAloneSaysWhatIsLate has events that are late by what their copies say, whatever
// their times and those of other sources are.
func TestSourceAloneSaysWhatIsLate(t *testing.T) {
	for late, want := range map[operator.LatePolicy][4]int{ // outputs, late records, dead letters, dropped
		operator.LateTopic: {2, 1, 0, 1}, operator.LateDead: {2, 0, 1, 0}, operator.LateDrop: {2, 0, 0, 1}, operator.LateInclude: {3, 0, 0, 0},
	} {
		inLoop(t, func(l *loop) {
			l.plan.Time.Late = late
			l.merging()
			l.put(l.emit(0, "v"))
			lateOf := placed("logins/0@2", 100, true, at{key: "a", t: 90, v: 2})
			l.send(from("clicks/0@1", 100, at{key: "a", t: 100, v: 1}), lateOf, from("clicks/1@1", 100, at{key: "a", t: 3, v: 3}))
			l.everybody(101)
			l.run()
			counts := l.metrics.Counts()
			letters := l.records("dead")
			if got := [4]int{len(l.records("out")), len(l.records("late")), len(letters), int(counts.Dropped)}; got != want || counts.Late != 1 {
				t.Errorf("policy %v: %v, want %v; %d late", late, got, want, counts.Late)
			}
			for _, r := range letters {
				if text := header.Get(&r, header.Error); !strings.Contains(text, "lateness of 3s") || header.Get(&r, header.Position) != "logins/0@2" {
					t.Errorf("%q of %s", text, header.Get(&r, header.Position))
				}
			}
		})
	}
}

// watermarks notes the seconds of the watermark at each event.
func (l *loop) watermarks() *[]int64 {
	list := &[]int64{}
	l.options.Observe = func(o *task.Observed) { *list = append(*list, o.Watermark.Unix()) }
	return list
}

// kept returns the seconds that a partition keeps as its newest time.
func (l *loop) kept(part int32) int64 {
	l.Helper()
	state, _ := l.state(part)
	data := state[string(statekey.Watermark)]
	if len(data) != 8 {
		l.Fatalf("%q is kept as the newest time", data)
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(data)))).Unix()
}

// TestWatermarkIsThePlaceLessTheSlack looks at it at each event, behind the last one, and
// after a restart. It never goes back.
func TestWatermarkIsThePlaceLessTheSlack(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Slack = 5 * time.Second
		l.merging()
		got := l.watermarks()
		l.send(from("logins/0@1", 60, at{key: "a", t: 3}), from("clicks/0@1", 50, at{key: "a", t: 70}), from("clicks/1@1", 60, at{key: "b", t: 1}))
		l.mark(0, until("clicks/0@1", 100), until("clicks/1@1", 100), until("logins/0@1", 80))
		l.run()
		if want := []int64{45, 55, 55}; !slices.Equal(*got, want) || l.kept(0) != 75 {
			t.Errorf("watermarks %d, want %d; %d behind the last event, want 75", *got, want, l.kept(0))
		}
		*got = nil
		l.send(from("logins/0@2", 70, at{key: "a", t: 70}), from("logins/0@3", 90, at{key: "a", t: 90})) // the first is forced
		l.mark(0, until("logins/0@3", 95))
		l.run()
		if want := []int64{75, 85}; !slices.Equal(*got, want) || l.kept(0) != 90 {
			t.Errorf("watermarks %d after a restart, want %d; %d behind the last event, want 90", *got, want, l.kept(0))
		}
		l.mark(0, silent("logins/0@3", 95, 98))
		l.run()
		if l.kept(0) != 93 {
			t.Errorf("the newest time is %d without an event, want 93", l.kept(0))
		}
		*got, l.plan.Slack = nil, time.Minute
		l.send(from("clicks/0@2", 101, at{key: "a", t: 101}))
		l.mark(0, until("logins/0@3", 102), until("clicks/0@2", 102), until("clicks/1@1", 102))
		if l.run(); !slices.Equal(*got, []int64{93}) || l.kept(0) != 93 {
			t.Errorf("watermarks %d with a greater lateness, and %d behind", *got, l.kept(0))
		}
	})
}

// TestEventsInTheOrderOfArrivalWaitForNobody has events have their turn where they stand. The
// watermark follows the marks, and the source alone says what is late.
func TestEventsInTheOrderOfArrivalWaitForNobody(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Arrival, l.plan.Slack, l.plan.Time.Late = true, 5*time.Second, operator.LateTopic
		l.merging()
		l.put(l.emit(0, "v"))
		got := l.watermarks()
		l.send(from("clicks/0@1", 50, at{key: "a", t: 50, v: 1}), from("logins/0@1", 20, at{key: "a", t: 20, v: 2}), late("clicks/1@1", 9, at{key: "a", t: 9, v: 3}))
		l.mark(0, until("clicks/0@1", 50), until("clicks/1@1", 40), until("logins/0@1", 45))
		l.send(from("clicks/0@2", 49, at{key: "a", t: 49, v: 4}), from("clicks/0@3", 60, at{key: "a", t: 60, v: 5}))
		l.run()
		l.wants("out", `{"v":1}`, `{"v":2}`, `{"v":4}`, `{"v":5}`)
		l.wants("late", `{"k":"a","t":9,"v":3}`)
		none := time.Time{}.Unix()
		if want := []int64{none, none, none, 35, 35}; !slices.Equal(*got, want) {
			t.Errorf("watermarks %d, want %d", *got, want)
		}
		if counts := l.metrics.Counts(); counts.Forced != 0 || counts.Late != 1 || counts.Events != 5 {
			t.Errorf("%+v", counts)
		}
	})
}

// TestForcedEventsAreCounted has events come that are behind what a clock said of their source.
// Each has its turn at once, once, and its lateness is that of its source.
func TestForcedEventsAreCounted(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Time.Late = operator.LateTopic
		l.merging()
		l.put(l.emit(0, "v"))
		l.send(from("clicks/0@1", 50, at{key: "a", t: 50, v: 1}))
		l.mark(0, until("clicks/0@1", 50), silent("clicks/1@0", 0, 60), silent("logins/0@0", 0, 60))
		l.run()
		l.wants("out", `{"v":1}`)
		l.send(from("logins/0@1", 40, at{key: "a", t: 40, v: 2}), late("clicks/1@1", 30, at{key: "a", t: 20, v: 3}),
			from("clicks/2@1", 70, at{key: "a", t: 70, v: 4})) // a partition that was added
		l.run()
		if counts := l.metrics.Counts(); counts.Forced != 3 || counts.Late != 1 || counts.Events != 3 {
			t.Errorf("%+v", counts)
		}
		l.wants("out", `{"v":1}`, `{"v":2}`, `{"v":4}`)
		l.wants("late", `{"k":"a","t":20,"v":3}`)
		if l.run(); l.metrics.Counts().Forced != 0 {
			t.Error("events that were released are counted again")
		}
	})
}

// TestAForcedEventIsCountedOnceHoweverMuchIsDueByIt has more timers be due before one that is late,
// too, than a chunk fires.
func TestAForcedEventIsCountedOnceHoweverMuchIsDueByIt(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.merging()
		l.visits()
		l.options.ChunkEvents = 1
		for i := range 20 {
			l.send(from(fmt.Sprint("clicks/0@", i), 1, at{key: fmt.Sprint("k", i), t: 1}))
		}
		l.everybody(50)
		l.send(late("clicks/2@1", 70, at{key: "k0", t: 60})) // of a partition that was added
		l.run()
		if counts := l.metrics.Counts(); counts.Forced != 1 || counts.Late != 1 || counts.Events != 21 {
			t.Errorf("%+v", counts)
		}
	})
}

// TestRecordsThatAreNoCopiesAreDeadLetters sends records of others to a repartition topic.
func TestRecordsThatAreNoCopiesAreDeadLetters(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.merging()
		l.put(l.emit(0, "v"))
		damaged := from("clicks/0@9", 1, at{key: "a", t: 1, v: 5})
		damaged.headers = damaged.headers[1:] // without Source
		l.run(at{key: "a", t: 1, v: 1}, from("orders/0@1", 1, at{key: "a", t: 1, v: 2}), from("clicks/1@1", 1, at{key: "a", t: 1, v: 4}), damaged)
		l.everybody(2)
		l.run()
		l.wants("out", `{"v":4}`)
		letters := l.records("dead")
		if len(letters) != 3 {
			t.Fatalf("%d dead letters", len(letters))
		}
		for _, r := range letters {
			if stage, resume := header.Get(&r, header.Stage), header.Get(&r, header.Resume); stage != "source" || resume != "" {
				t.Errorf("a dead letter of %s goes on at %q", stage, resume)
			}
		}
	})
}

// scriptOfSources is a run of a few transactions over a repartition topic.
func scriptOfSources(l *loop) {
	l.options.StepEvents, l.log.most = 2, 2
	l.plan.Time.Late, l.plan.Slack = operator.LateDead, 2*time.Second
	l.merging()
	l.counting()
	l.put(l.emit(0, "k", "n"))
	sources := []string{"clicks/0", "logins/0", "clicks/1"}
	for i := range 12 {
		e := at{key: string("ab"[i%2]), t: 5*i - 7*(i%5), v: i, part: int32(i % 2)}
		l.send(placed(fmt.Sprintf("%s@%d", sources[i%3], i), 5*i, i%5 == 4, e))
		l.mark(int32(i%2), until(fmt.Sprintf("%s@%d", sources[i*2%3], i), 5*i-3), until(fmt.Sprintf("%s@%d", sources[(i+1)%3], i), 4*i))
	}
	l.start()
	l.pass(time.Second)
	l.end()
	l.start() // what is kept of the sources is found again
	l.send(from("logins/0@20", 300, at{key: "a", t: 57}), from("clicks/1@20", 20, at{key: "b", t: 20, part: 1}), from("clicks/0@20", 90, at{key: "b", t: 60, part: 1}))
	for part := range int32(2) {
		l.mark(part, silent("clicks/1@20", 20, 80), until("clicks/0@20", 100), until("logins/0@20", 300))
		l.mark(part, silent("clicks/1@20", 20, 400))
	}
	l.pass(time.Second)
	l.end()
}

func TestFailedCommitsChangeNothingOfSources(t *testing.T) { eachCommitFails(t, scriptOfSources) }

// TestOutputsSayPositionOfTheSource looks at where outputs, late records, dead letters and
// outputs of what is sent back say that they are from.
func TestOutputsSayPositionOfTheSource(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioned()
		l.plan.Time.Late = operator.LateTopic
		l.put(l.let("x", "1 / (v - 3)"), l.emit(0, "k", "v"))
		l.send(from("logins/0@8", 30, at{key: "a", t: 30, v: 2, part: 1}), from("clicks/1@5", 20, at{key: "a", t: 20, v: 3, part: 1}), late("clicks/0@6", 10, at{key: "a", t: 1, v: 4, part: 1}))
		l.everybody(40)
		l.run()
		said := func(topic string) (list []string) {
			for _, r := range l.records(topic) {
				list = append(list, header.Get(&r, header.ID)+" "+header.Get(&r, header.Position)+" "+header.Get(&r, header.Repartition)+" "+header.Get(&r, header.Copied))
			}
			return list
		}
		for topic, want := range map[string]string{
			"out": "p:logins/0@8:out logins/0@8 1@2 ", "late": "p:clicks/0@6:late clicks/0@6 1@0 ", "p.dlq": "p:clicks/1@5:p.dlq clicks/1@5 1@1 clicks/1@5",
		} {
			if got := said(topic); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %q, want %q", topic, got, want)
			}
		}
	})
}

// repartitioned has the input be the topic p.repartition, and dead letters be in p.dlq.
func (l *loop) repartitioned() {
	l.merging()
	l.plan.Topic, l.plan.DeadTopic = "p.repartition", "p.dlq"
	for _, name := range []string{"p.repartition", "p.dlq"} {
		if err := l.log.CreateTopic(l.Context(), stream.Topic{Name: name, Partitions: 2}); err != nil {
			l.Fatal(err)
		}
	}
}

// TestLettersOfCopiesGoBackToTheirPartition sends a dead letter back twice: to the partition of
// the repartition topic that it was read from, whatever its source is. It is not forced.
func TestLettersOfCopiesGoBackToTheirPartition(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioned()
		let := l.let("x", "1 / (v - 3)")
		l.put(let, l.emit(0, "meta.topic", "meta.partition", "meta.offset", "v"))
		l.send(from("clicks/0@5", 20, at{key: "a", t: 20, v: 3, part: 1}))
		l.everybody(40)
		l.run()
		for range 2 {
			letters := l.records("p.dlq")
			back := again(t, letters[len(letters)-1])
			if back.Partition != (stream.Partition{Topic: "p.repartition", Index: 1}) || header.Get(&back, header.Copied) != "clicks/0@5" {
				t.Fatalf("%+v", back)
			}
			l.append(back)
			l.run()
			if counts := l.metrics.Counts(); counts.Forced != 0 || counts.Late != 0 || counts.Events != 1 {
				t.Errorf("%+v", counts)
			}
		}
		letters := l.records("p.dlq")
		if last := letters[len(letters)-1]; len(letters) != 3 || header.Get(&last, header.Position) != "clicks/0@5" || header.Get(&last, header.Repartition) != "1@2" || header.Get(&last, header.Attempts) != "3" {
			t.Fatalf("%d letters, %q", len(letters), last.Headers)
		}
		let.List[0].Program = l.program("float(v)")
		l.append(again(t, letters[2]))
		l.run()
		l.wants("out", `{"meta.topic":"clicks","meta.partition":0,"meta.offset":5,"v":3}`)
		if r := l.records("out")[0]; header.Get(&r, header.Position) != "clicks/0@5" || header.Get(&r, header.Repartition) != "1@3" || header.Get(&r, header.ID) != "p:clicks/0@5:out" {
			t.Errorf("%q", r.Headers)
		}
	})
}

// TestStepsOfAnyKindReleaseTheSameSequence reads a random repartition topic in steps of random
// sizes, with restarts, and compares with the sort of the keys.
func TestStepsOfAnyKindReleaseTheSameSequence(t *testing.T) {
	for seed := range uint64(20) {
		inLoop(t, func(l *loop) {
			random := rand.New(rand.NewPCG(seed, 25))
			l.options.StepEvents, l.options.ChunkEvents, l.log.most = 1+random.IntN(9), 1+random.IntN(9), 1+random.IntN(9)
			l.merging()
			l.put(l.emit(0, "v"))
			type event struct {
				order.Key
				v int
			}
			var events []event
			sources := []string{"clicks/0", "clicks/1", "logins/0"}
			at0, offsets := []int{0, 0, 0}, []int{0, 0, 0}
			for v := range 60 {
				s := random.IntN(3)
				at0[s] += random.IntN(3)
				source := fmt.Sprintf("%s@%d", sources[s], offsets[s])
				offsets[s]++
				events = append(events, event{keyOf(source, at0[s]), v})
				l.send(from(source, at0[s], at{key: "a", t: at0[s], v: v}))
				if random.IntN(3) == 0 {
					l.mark(0, until(source, at0[s]))
				}
				if random.IntN(10) == 0 {
					l.run()
				}
			}
			l.everybody(1000)
			l.run()
			slices.SortFunc(events, func(a, b event) int { return cmp.Or(a.Compare(b.Key), cmp.Compare(a.v, b.v)) })
			var want []string
			for n, e := range events {
				want = append(want, fmt.Sprintf(`{"v":%d}`, e.v))
				if r := l.records("out"); n < len(r) && header.Get(&r[n], header.Repartition) != fmt.Sprintf("0@%d", n) {
					t.Errorf("seed %d: output %d is of %s", seed, n, header.Get(&r[n], header.Repartition))
				}
			}
			if l.wants("out", want...); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// again returns the record that sends the event of a dead letter back.
func again(t *testing.T, r stream.Record) stream.Record {
	t.Helper()
	letter := deadletter.Read(r)
	back, err := letter.Again()
	if err != nil || letter.Refusal() != "" {
		t.Fatal(err, letter.Refusal())
	}
	return back
}
