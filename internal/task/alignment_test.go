package task_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// copiedOf counts the copies of each source partition.
func (l *loop) copiedOf() (n [2]int) {
	l.Helper()
	for _, r := range l.records("out") {
		if c, ok := order.KeyOf(&r); ok {
			n[order.Partition(c.Source)]++
		}
	}
	return n
}

// backlog sends so many events to a partition, of a key, a second apart or at one time.
func (l *loop) backlog(part int32, n int, w string, first, apart int) {
	l.Helper()
	var list []at
	for i := range n {
		list = append(list, at{key: "a", t: first + i*apart, w: w, part: part})
	}
	l.send(list...)
}

// aligned has a repartitioner with few copies that may wait, in steps of 8.
func (l *loop) aligned() {
	l.repartitioning(0)
	l.options.Copies, l.options.StepEvents, l.options.ChunkEvents, l.log.most = 64, 8, 8, 8
}

// TestSourcesStopWhenTheirReaderIsBehind has a backlog without a reader. Nothing waits for another
// source: so all of them stop at the bound, until there is a reader.
func TestSourcesStopWhenTheirReaderIsBehind(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.behind()
		if n := l.copiedOf(); n[0] < 20 || len(l.records("out")) > 64+6*8 || n[1] == 0 || n[1] == 100 || len(l.log.paused) != 2 {
			t.Errorf("%d of %d records are copies, %v are not read", n, len(l.records("out")), l.log.paused)
		}
		turns := l.reader(2)
		if l.pass(400 * time.Millisecond); len(*turns) != 1000 || l.log.paused[stream.Partition{Topic: "in"}] {
			t.Errorf("%d events had their turn, %v are not read", len(*turns), l.log.paused)
		}
	})
}

// behind has one source partition have a backlog, and the other one behind all of it. No
// reader reads the copies.
func (l *loop) behind() {
	l.Helper()
	l.aligned()
	l.backlog(0, 1000, "x", 1, 1)
	l.start()
	l.pass(10 * time.Second)
	l.backlog(1, 100, "x", 2000, 0)
	l.pass(10 * time.Second)
}

// TestSourceThatIsNeededIsReadBeyondTheBound has copies of one source wait for another, which is
// read as far as it helps them.
func TestSourceThatIsNeededIsReadBeyondTheBound(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.aligned()
		l.start()
		l.log.stalled = true
		l.pass(2 * time.Second)
		l.backlog(0, 1000, "x", 500, 0)
		l.backlog(1, 1000, "u", 1, 1)
		l.pass(10 * time.Second)
		if n := l.copiedOf(); n[0] < 20 || n[0] > 64 || n[1] != 0 || !l.log.paused[stream.Partition{Topic: "in"}] {
			t.Errorf("%d copies, %v are not read", n, l.log.paused)
		}
		l.log.stalled = false
		l.pass(10 * time.Second)
		if n := l.copiedOf(); n[0] > 64 || n[1] < 500 || n[1] > 500+4*8 || len(l.log.paused) != 2 {
			t.Errorf("%d copies, %v are not read", n, l.log.paused)
		}
		turns := l.reader(2)
		l.pass(10 * time.Second) // of in/1 as many are copied as may wait for in/0
		if n := l.copiedOf(); n[0] != 1000 || n[1] > 500+64+4*8 || len(*turns) != 1499 || l.log.paused[stream.Partition{Topic: "in"}] {
			t.Errorf("%d copies, %d events had their turn, %v are not read", n, len(*turns), l.log.paused)
		}
		l.send(at{key: "a", t: 2000, w: "x"})
		l.pass(10 * time.Second)
		if n := l.copiedOf(); n != [2]int{1001, 1000} || len(*turns) != 2000 || len(l.log.paused) != 0 {
			t.Errorf("%d copies, %d events had their turn, %v are not read", n, len(*turns), l.log.paused)
		}
	})
}

// TestAlignedSourcesAreNeverSilent has a source not be read for longer than Idle.
func TestAlignedSourcesAreNeverSilent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.behind()
		l.end()
		l.plan.Copy.Idle = time.Second
		l.start()
		if l.pass(time.Minute); len(l.silences()) != 0 || len(l.log.paused) != 2 {
			t.Errorf("%q; %v are not read", l.silences(), l.log.paused)
		}
	})
}

// TestSourcesThatStoodStillStayAligned has a repartitioner stand still while its sources are not
// read, and go on.
func TestSourcesThatStoodStillStayAligned(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.Abort = control.NewAbort(0.5, time.Minute)
		l.behind()
		before := l.copiedOf()
		l.options.Abort.Count(time.Now(), 1000, 1000)
		if l.pass(3 * time.Second); l.options.Abort.Stopped() == nil {
			t.Fatal("it does not stand still")
		}
		l.options.Abort.Resume()
		l.pass(10 * time.Second)
		if n := l.copiedOf(); n[0] > before[0]+16 || n[1] > before[1]+16 || len(l.log.paused) != 2 {
			t.Errorf("%d copies, and %d before; %v are not read", n, before, l.log.paused)
		}
		turns := l.reader(2)
		if l.pass(2 * time.Second); len(*turns) != 1000 {
			t.Errorf("%d events had their turn", len(*turns))
		}
	})
}

// TestCopiesMeetInOrderOnAnySchedule copies four source partitions at random paces: few copies may
// wait, commits fail, the repartitioner and the reader end and begin again. All events have their
// turn, in the order of their places, and none is forced.
func TestCopiesMeetInOrderOnAnySchedule(t *testing.T) {
	for seed := range uint64(30) {
		inLoop(t, func(l *loop) { meet(l, seed) })
	}
}

const sourcesOfMeet = 4

func meet(l *loop, seed uint64) {
	random, failing, reading := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 3))
	if err := l.log.CreateTopic(l.Context(), stream.Topic{Name: "many", Partitions: sourcesOfMeet}); err != nil {
		l.Fatal(err)
	}
	l.plan.Topic = "many"
	l.repartitioning(3 * time.Second)
	l.plan.Copy.Wait = time.Duration(random.IntN(2)) * time.Second
	l.options.Copies, l.options.StepEvents, l.options.ChunkEvents = 4+random.IntN(60), 1+random.IntN(20), 1+random.IntN(20)
	l.log.fail = func(int) outcome {
		if failing.IntN(40) == 0 {
			return outcome(1 + failing.IntN(2))
		}
		return committed
	}
	read := newPaced(l, reading)
	var sent [sourcesOfMeet][]int // times
	l.start()
	for range 60 {
		s := random.IntN(sourcesOfMeet)
		if random.IntN(3) == 0 {
			s = 0 // has more than others
		}
		for range random.IntN(30) * random.IntN(2) {
			t := now() - random.IntN(2)
			sent[s] = append(sent[s], t)
			l.send(at{key: "a", t: t, v: len(sent[s]), w: string("xyzu"[random.IntN(4)]), part: int32(s)})
		}
		switch l.pass(time.Duration(random.IntN(500)) * time.Millisecond); random.IntN(15) {
		case 0:
			l.end()
			l.start()
		case 1:
			read.again()
		}
	}
	read.pace.Store(0)
	l.pass(30 * time.Second)
	l.end()
	if err := read.end(); err != nil {
		l.Error(err)
	}
	read.compare(seed, sent)
}

// compare compares the turns with the sort of the places, by partition of the copies.
func (r *paced) compare(seed uint64, sent [sourcesOfMeet][]int) {
	l := r.loop
	l.Helper()
	place := map[string]order.Key{}
	for s, times := range sent {
		newest, wait := 0, int(l.plan.Copy.Wait/time.Second)
		for offset, t := range times {
			newest = max(newest, t)
			k := order.Key{Time: time.Unix(int64(max(t, newest-wait)), 0).UnixMicro(), Source: int32(s), Offset: int64(offset)}
			place[fmt.Sprintf("many/%d@%d", s, offset)] = k
		}
	}
	n := 0
	for part, turns := range r.turns {
		n += len(turns)
		want := slices.SortedFunc(slices.Values(turns), func(a, b string) int { return cmp.Or(place[a].Compare(place[b]), cmp.Compare(a, b)) })
		if !slices.Equal(turns, want) {
			l.Errorf("seed %d: partition %d has the turns\n%q, want\n%q", seed, part, turns, want)
		}
	}
	if n != len(place) || r.forced > 0 {
		l.Errorf("seed %d: %d events had their turn of %d, %d forced", seed, n, len(place), r.forced)
	}
}

// paced is a reader that takes its time.
type paced struct {
	loop   *loop
	pace   atomic.Int64 // milliseconds, at most, between two steps
	random *rand.Rand
	turns  [2][]string
	forced int
	cancel context.CancelFunc
	ended  chan error
}

func newPaced(l *loop, random *rand.Rand) *paced {
	r := &paced{loop: l, random: random}
	r.pace.Store(int64(1 + random.IntN(300)))
	r.begin()
	return r
}

func (r *paced) begin() {
	ctx, cancel := context.WithCancel(r.loop.Context())
	r.cancel, r.ended = cancel, make(chan error, 1)
	var numbers []int32
	for i := range int32(sourcesOfMeet) {
		numbers = append(numbers, order.Number(0, i))
	}
	go func() {
		r.ended <- r.loop.readTurns(ctx, order.NewLog(r.loop.log.Log, "out", order.Options{}, numbers...), r.take)
	}()
}

func (r *paced) take(record *stream.Record) {
	if c, err := order.ParseCopy(header.Value(record, header.Order)); err != nil || c.Forced {
		r.forced++
	}
	at := record.Partition.Index
	r.turns[at] = append(r.turns[at], header.Get(record, header.Source))
	if pace := r.pace.Load(); pace > 0 && r.random.IntN(8) == 0 {
		time.Sleep(time.Duration(r.random.Int64N(pace)) * time.Millisecond)
	}
}

func (r *paced) end() error {
	r.cancel()
	return <-r.ended
}

// again ends the reader and begins another one, which commits nothing that this one did not.
func (r *paced) again() {
	if err := r.end(); err != nil {
		r.loop.Error(err)
	}
	r.begin()
}

// TestSkewedBacklogIsHeldWithinItsBound has a backlog of which one source partition has twenty
// times as many events as the other, in the same time. A repartitioner reads as many of both, so
// the small one would be ahead by all that it has. What waits for the other source is never more
// than the bound of one, and a step of each, also while one of them cannot be read for a minute.
// Meanwhile the source that is waited for is read.
func TestSkewedBacklogIsHeldWithinItsBound(t *testing.T) {
	const large, small, skew = 1000, 50, 20
	inLoop(t, func(l *loop) {
		l.aligned()
		l.backlog(0, large, "x", 1, 1)
		l.backlog(1, small, "u", 1, skew)
		for part := range int32(2) { // the last of each waits for nothing
			l.send(at{key: "a", t: 2 * large, w: "z", part: part})
		}
		ahead := l.options.Copies/2 + l.options.StepEvents
		most := 0
		turns := l.reader(2)
		watch := func(times int, pause time.Duration, stalled bool) {
			for range times {
				l.pass(pause)
				n := l.copiedOf()
				held := n[0] + n[1] - len(*turns)
				if most = max(most, held); held > ahead+l.options.StepEvents {
					l.Fatalf("%d and %d copies, %d events had their turn: %d are held, at most %d", n[0], n[1], len(*turns), held, ahead+l.options.StepEvents)
				}
				if stalled || n[0]+n[1] == large+small+2 || len(l.log.paused) < 2 {
					continue
				}
				// All are paused: then nothing waits for a source, and the reader goes on.
				before := len(*turns)
				if l.pass(20 * time.Millisecond); len(*turns) == before {
					l.Fatalf("%d and %d copies, %d events had their turn, and nothing is read", n[0], n[1], before)
				}
			}
		}
		l.start()
		watch(3, time.Millisecond, false)
		done := len(*turns)
		l.log.stalled = true
		watch(20, 5*time.Millisecond, true)
		watch(60, time.Second, true)
		if n := len(*turns); n == 0 || n > done+l.options.Copies*skew {
			t.Errorf("%d events had their turn, and %d before in/1 stood still", n, done)
		}
		stood := len(*turns)
		l.log.stalled = false
		watch(200, 5*time.Millisecond, false)
		if n := len(*turns); n < large+small || stood > n-small/2 {
			t.Errorf("%d of %d events had their turn, %d before in/1 went on", n, large+small+2, stood)
		}
		if most < l.options.Copies/4 {
			t.Errorf("at most %d events were held: the backlog is too tame", most)
		}
	})
}

// TestStagesAreToldAgainThatASourceIsSilent has a stage, and no reader. An event waits for a source
// that was said to be silent, and for stages that may have read others behind that: it is said
// again twice a second.
func TestStagesAreToldAgainThatASourceIsSilent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.plan.Copy.Stages = []string{"rows"}
		l.start()
		l.pass(10 * time.Second)
		l.send(at{key: "a", t: now(), w: "x"})
		l.pass(11*time.Second + 100*time.Millisecond)
		list := l.silences()
		if n := len(list); n != 2*20+2 {
			t.Errorf("%d marks: %q", n, list)
		}
		if said := strings.Count(fmt.Sprint(list), "1@-1"); said != len(list) {
			t.Errorf("%d of them of the source that is silent", said)
		}
	})
}
