package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// ledger runs a small pipeline on a log whose disk may fail, and knows what was
// promised: each record of events becomes one of scores, with a counter in the
// state, and records appended twice are there once.
type ledger struct {
	log   *Log
	sess  stream.Member
	next  stream.Offset // of events, that the member is to read
	queue []stream.Record

	begun     map[string]bool
	acked     []string      // values of events, in order
	committed stream.Offset // acknowledged
	refused   int           // with ErrFull
	patience  time.Duration // of one call
	stuck     func()        // called after it
}

func newLedger(stuck func()) *ledger {
	return &ledger{begun: map[string]bool{}, patience: 100 * time.Millisecond, stuck: stuck}
}

// open opens the log and makes the topics.
func (g *ledger) open(o Options) (err error) {
	g.sess, g.queue = nil, nil
	if g.log, err = Open("data", o); err != nil {
		return err
	}
	return g.call(func(ctx context.Context) error {
		for _, name := range []string{"events", "scores"} {
			if err := g.log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

var errHangs = errors.New("a call hangs")

// call runs f; where it takes too long the disk is repaired, and then it must
// end.
func (g *ledger) call(f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(context.Background()) }()
	select {
	case err := <-done:
		return err
	case <-time.After(g.patience):
		g.stuck()
	}
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Minute):
		return errHangs
	}
}

func (g *ledger) append(n int) error {
	value := fmt.Sprintf("%d-%s", len(g.begun), strings.Repeat("v", n))
	g.begun[value] = true
	err := g.call(func(ctx context.Context) error { return g.log.Append(ctx, record(events, value)) })
	if errors.Is(err, ErrFull) {
		g.refused++
		delete(g.begun, value)
		return nil
	}
	if err == nil {
		g.acked = append(g.acked, value)
	}
	return err
}

// step reads at most three records and commits what becomes of them.
func (g *ledger) step() error {
	return g.call(func(ctx context.Context) (err error) {
		if g.sess == nil {
			if g.sess, err = g.log.Join(ctx, "g", "events"); err != nil {
				return err
			}
		}
		g.sess.Wake()
		batch, err := g.sess.Poll(ctx, 3)
		if err == nil && len(batch.Assigned) > 0 {
			g.next = batch.Assigned[0].Next
		}
		if err == nil && len(batch.Records) > 0 {
			g.next = batch.Records[len(batch.Records)-1].Offset + 1
			if err = g.sess.Commit(answer(batch.Records, g.next)).Wait(ctx); err == nil {
				g.committed = g.next
			}
		}
		if err != nil {
			g.sess = nil
		}
		return err
	})
}

// appendAs appends n values as writer w, beside others. mu guards the lists.
func (g *ledger) appendAs(t *testing.T, mu *sync.Mutex, w, n int) {
	for i := range n {
		value := fmt.Sprint(w, "-", i, strings.Repeat("v", i*7%400))
		mu.Lock()
		g.begun[value] = true
		mu.Unlock()
		if err := g.log.Append(t.Context(), record(events, value)); err != nil {
			t.Error(err)
		}
		mu.Lock()
		g.acked = append(g.acked, value)
		mu.Unlock()
	}
}

func answer(records []stream.Record, next stream.Offset) stream.Transaction {
	st := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{events: next}}
	for _, r := range records {
		st.Outputs = append(st.Outputs, record(scores, "score of "+string(r.Value)))
	}
	st.Changes = []stream.Change{{Partition: events, Key: []byte("n"), Value: fmt.Append(nil, next)}}
	return st
}

// run appends and commits n times and returns the first error.
func (g *ledger) run(n int) error {
	for i := range n {
		if err := g.append(200 + i*37%900); err != nil {
			return err
		}
		if i%3 == 2 {
			if err := g.step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// check compares an open log with what was promised.
func (g *ledger) check(t testing.TB, l *Log) error {
	t.Helper()
	in, out := values(t, l, events, 0), values(t, l, scores, 0)
	committed, err := l.Committed(t.Context(), "g", events)
	if err != nil {
		return err
	}
	n, err := l.space("g", events).Get([]byte("n"))
	if err != nil {
		return err
	}
	i := 0
	for _, v := range in {
		if !g.begun[v] {
			return fmt.Errorf("event %.20s was never appended, or refused", v)
		}
		if i < len(g.acked) && v == g.acked[i] {
			i++
		}
	}
	switch {
	case i < len(g.acked):
		return fmt.Errorf("acknowledged event %.20s is lost, of %d", g.acked[i], len(g.acked))
	case len(slices.Compact(slices.Sorted(slices.Values(in)))) != len(in):
		return fmt.Errorf("an event occurs twice")
	case int(committed) > len(in):
		return fmt.Errorf("committed %d of %d events", committed, len(in))
	case committed < g.committed:
		return fmt.Errorf("committed %d, though %d was acknowledged", committed, g.committed)
	case string(n) != fmt.Sprint(committed) && committed+stream.Offset(len(n)) > 0 || len(out) != int(committed):
		return fmt.Errorf("half a step: state %s, %d outputs, committed %d", n, len(out), committed)
	}
	for i := range out {
		if out[i] != "score of "+in[i] {
			return fmt.Errorf("score %d is %.30s", i, out[i])
		}
	}
	return nil
}

func faultOptions(fs vfs.FS) Options {
	o := crashOptions(fs)
	o.CheckpointBytes = 4 << 10
	return o
}

// breakAt runs a ledger on a disk that fails its n-th call, or all from it on,
// until the disk is repaired; then kills the process, or the power fails, and
// checks what the next one finds, and that it can go on.
func breakAt(t *testing.T, r *rand.Rand, n int64, forever bool, outcome vfs.Outcome, match func(vfs.Call) bool) (reached bool) {
	t.Helper()
	var repaired, broken atomic.Bool
	nth := vfs.Nth(n, forever, outcome, match)
	disk := vfs.NewMemory()
	var at atomic.Pointer[vfs.Call]
	fs := vfs.Faulty(disk, func(c vfs.Call) vfs.Outcome {
		o := nth(c)
		if o == (vfs.Outcome{}) || repaired.Load() {
			return vfs.Outcome{}
		}
		if !broken.Swap(true) {
			at.Store(&c)
		}
		return o
	})
	g := newLedger(func() { repaired.Store(true) })
	fatal := func(what string, err error) {
		t.Helper()
		t.Fatalf("%v at call %d (forever %v), %+v: %s: %v", outcome.Err, n, forever, at.Load(), what, err)
	}
	err := g.open(faultOptions(fs))
	if err == nil {
		err = g.run(24)
	}
	if errors.Is(err, errHangs) {
		fatal("run", err)
	}
	repaired.Store(true)
	if g.log != nil {
		if err == nil { // the log went on: all is there, and it still goes on
			if err := g.check(t, g.log); err != nil {
				fatal("went on", err)
			}
		}
		killed, failed := disk.Copy(), disk.Crash(r)
		if err := g.call(func(context.Context) error { return ignore(g.log.Close()) }); err != nil {
			fatal("close", err)
		}
		for _, fs := range []*vfs.Memory{killed, failed, disk.Copy(), disk.Crash(r)} {
			g.mustHold(fatal, t, fs)
			g.mustHold(fatal, t, fs.Crash(r))
		}
	}
	if err := g.open(faultOptions(disk)); err != nil {
		fatal("reopen", err)
	}
	if err := errors.Join(g.run(6), g.check(t, g.log), g.log.Close()); err != nil {
		fatal("go on", err)
	}
	return broken.Load()
}

func ignore(error) error { return nil }

// mustHold opens a disk and compares it with what was promised.
func (g *ledger) mustHold(fatal func(string, error), t *testing.T, fs vfs.FS) {
	t.Helper()
	l, err := Open("data", faultOptions(fs))
	if err != nil {
		fatal("open", err)
	}
	if len(partitions(t, l)) == 2 || len(g.acked) > 0 {
		if err := g.check(t, l); err != nil {
			fatal("after the fault", err)
		}
	}
	if err := l.Close(); err != nil {
		fatal("close", err)
	}
}

// TestErrorAtEverySystemCall fails each call of the engine and its checkpoint
// once, and from it on: nothing acknowledged is lost, no step is there in half,
// nothing hangs, and the log goes on, or does after it was opened again.
func TestErrorAtEverySystemCall(t *testing.T) {
	r := newRand(t)
	any := func(vfs.Call) bool { return true }
	of := func(k vfs.Kind) func(vfs.Call) bool { return func(c vfs.Call) bool { return c.Kind == k } }
	changes := func(c vfs.Call) bool { return c.Kind.Changes() }
	for _, way := range []struct {
		name    string
		outcome vfs.Outcome
		forever bool
		match   func(vfs.Call) bool
	}{
		{"EIO", vfs.Outcome{Err: vfs.EIO}, false, any},
		{"EIO from then on", vfs.Outcome{Err: vfs.EIO}, true, changes},
		{"ENOSPC", vfs.Outcome{Err: vfs.ENOSPC}, false, changes},
		{"ENOSPC from then on", vfs.Outcome{Err: vfs.ENOSPC}, true, changes},
		{"short write", vfs.Outcome{Err: vfs.ENOSPC, Short: true}, false, of(vfs.Write)},
		{"failed sync", vfs.Outcome{Err: vfs.EIO}, false, of(vfs.Sync)},
	} {
		t.Run(way.name, func(t *testing.T) {
			calls := int64(0)
			tried := 0
			for n := int64(1); ; n++ {
				if !sample(r, 12) {
					continue
				}
				if !breakAt(t, r, n, way.forever, way.outcome, way.match) {
					break
				}
				calls = n
				tried++
			}
			t.Logf("%d of %d calls", tried, calls)
		})
	}
}

// TestFullDiskAtEveryStepRefusesAtAdmissionAndResumes fills the disk at every
// size around what the engine needs next. Appends are refused and nothing else
// fails; reads go on; with room again so does everything.
func TestFullDiskAtEveryStepRefusesAtAdmissionAndResumes(t *testing.T) {
	r := newRand(t)
	refused := 0
	for free := int64(0); free < 128<<10; free += 512 {
		if free > 0 && !sample(r, 12) {
			continue
		}
		disk := vfs.NewMemory()
		g := newLedger(func() { disk.SetCapacity(0) })
		fatal := func(what string, err error) {
			t.Helper()
			t.Fatalf("%d bytes free: %s: %v", free, what, err)
		}
		if err := errors.Join(g.open(faultOptions(disk)), g.run(int(free/512)%9)); err != nil {
			fatal("with room", err)
		}
		disk.SetCapacity(disk.Used() + free)
		for i := range 30 {
			if err := g.append(300 + i*53%1500); err != nil {
				fatal("append", err)
			}
			if i%5 == 4 {
				if err := g.step(); err != nil {
					fatal("step", err)
				}
			}
			if err := g.check(t, g.log); err != nil {
				fatal("read", err)
			}
		}
		refused += g.refused
		killed := disk.Copy()
		disk.SetCapacity(0)
		eventually(t, "appends resume", func() bool {
			before := len(g.acked)
			return g.append(10) == nil && len(g.acked) > before
		})
		if err := errors.Join(g.step(), g.check(t, g.log), g.log.Close()); err != nil {
			fatal("with room again", err)
		}
		g.mustHold(fatal, t, disk)

		// The next process finds the disk still full: it runs or says so.
		killed.SetCapacity(killed.Used())
		g2 := *g
		g2.acked, g2.committed = nil, 0
		err := g2.call(func(context.Context) error {
			l, err := Open("data", faultOptions(killed))
			if err == nil {
				err = l.Close()
			}
			return err
		})
		if err != nil && !errors.Is(err, vfs.ENOSPC) {
			fatal("open", err)
		}
	}
	if refused == 0 {
		t.Fatal("nothing was ever refused")
	}
	t.Logf("%d appends refused", refused)
}

// TestLyingSyncIsHarmlessOrFound lets syncs succeed that did nothing, and cuts
// the power. What was acknowledged is then there, or Open refuses, unless not
// one byte that was written later reached the disk: such a disk is one of an
// earlier moment, whole, and no store can tell.
func TestLyingSyncIsHarmlessOrFound(t *testing.T) {
	r := newRand(t)
	counts := map[string]int{}
	for round := range 150 {
		n, forever := int64(1+r.IntN(60)), round%3 == 0
		disk := vfs.NewMemory()
		fs := vfs.Faulty(disk, vfs.Nth(n, forever, vfs.Outcome{Lie: true}, func(c vfs.Call) bool { return c.Kind == vfs.Sync }))
		l := newLog(t, crashOptions(fs))
		h := &history{log: l, rng: r}
		h.run(t, 1+r.IntN(40))
		counts[outcomeOfLie(t, h, disk.Crash(r))]++
	}
	t.Logf("%v", counts)
	for _, want := range []string{"harmless", "refused", "an earlier moment"} {
		if counts[want] == 0 {
			t.Errorf("never %s", want)
		}
	}
}

// tryDump is dump where reads may be refused.
func tryDump(l *Log) (string, error) {
	var b strings.Builder
	all := []stream.Partition{events, scores}
	for _, p := range all {
		first, next, err := l.Offsets(context.Background(), p)
		if err != nil {
			return "", err
		}
		got, err := tryValues(l, p, first)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%v %d-%d %q\n", p, first, next, got)
	}
	state, err := readState(all, l)
	return b.String() + state, err
}

func outcomeOfLie(t *testing.T, h *history, disk *vfs.Memory) string {
	t.Helper()
	found := newestOnDisk(t, disk)
	l, err := Open("data", crashOptions(disk))
	if err != nil {
		return "refused"
	}
	defer l.Close()
	if len(partitions(t, l)) < 2 { // of the time before the topics
		if found > l.applied.Load() {
			t.Fatalf("opened at frame %d; frame %d is on the disk", l.applied.Load(), found)
		}
		return "an earlier moment"
	}
	got, err := tryDump(l)
	i := slices.Index(h.dumps, got)
	switch {
	case err != nil:
		return "refused"
	case i == len(h.dumps)-1:
		return "harmless"
	case i < 0 && got != "":
		t.Fatalf("opened with what the log never held:\n%s", got)
	case found > l.applied.Load() || l.store.Seen() > l.applied.Load():
		t.Fatalf("opened at frame %d; frame %d is on the disk, the checkpoint saw %d", l.applied.Load(), found, l.store.Seen())
	}
	return "an earlier moment"
}

// newestOnDisk returns the highest frame of this log in its segments, or at the
// beginning of another file.
func newestOnDisk(t *testing.T, disk *vfs.Memory) (newest uint64) {
	t.Helper()
	m, found, err := readMeta(disk, "data")
	names, _ := disk.List("data/log")
	if err != nil || !found {
		return 0
	}
	for _, name := range names {
		b, err := vfs.ReadFile(disk, "data/log/"+name)
		if err != nil {
			t.Fatal(err)
		}
		for pos := 0; pos < len(b); pos += frameAlign {
			if f, _, err := parseFrame(b[pos:], m.salt); err == nil && m.has(f.seq, f.epoch) {
				newest = max(newest, f.seq)
			}
			if _, segment := segmentFirst(name); !segment {
				break
			}
		}
	}
	return newest
}
