package embedded

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

var allPlaces = flag.Bool("all", false, "break calls and bytes everywhere, not at a sample of places")

// sample reports whether a place is to be tried: one in n, or every one.
func sample(rng *rand.Rand, n int) bool { return *allPlaces || rng.IntN(n) == 0 }

// image is a disk after a crash, and what was acknowledged before it and begun
// after it.
type image struct {
	fs          *vfs.Memory
	acked, upTo int64
	at          vfs.Call
}

// camera takes images of a disk right before calls that change it.
type camera struct {
	disk *vfs.Memory
	h    *history
	one  int // image in so many calls; 0 is none

	mu     sync.Mutex
	rng    *rand.Rand
	images []image
	calls  int
}

func (c *camera) decide(call vfs.Call) (o vfs.Outcome) {
	if !call.Kind.Changes() {
		return o
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls++; c.one > 0 && sample(c.rng, c.one) {
		img := image{acked: c.h.acked.Load(), at: call}
		img.fs = c.disk.Crash(c.rng)
		img.upTo = c.h.begun.Load()
		c.images = append(c.images, img)
	}
	return o
}

func (c *camera) take() []image {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.images
	c.images = nil
	return taken
}

// full is what a history holds, where retention may take records meanwhile.
type full struct {
	cursors map[stream.Partition]*cursor
	records map[stream.Partition][]string // from offset 0
	states  []string                      // after so many operations
}

func (f *full) note(t *testing.T, h *history) {
	for p, c := range f.cursors {
		got, err := c.read(nil, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			f.records[p] = append(f.records[p], content(&r))
		}
	}
	f.states = append(f.states, dumpState(t, h.log))
}

// check opens a disk, which must hold what the log did after one of the
// operations from acked to upTo, and returns what it holds beside records.
func (f *full) check(t *testing.T, fs vfs.FS, img image) string {
	t.Helper()
	l, err := Open("data", crashOptions(fs))
	if err != nil {
		t.Fatalf("crash before %v of %s: %v", img.at.Kind, img.at.Path, err)
	}
	defer l.Close()
	want := f.states[img.acked:min(img.upTo+1, int64(len(f.states)))]
	got := dumpState(t, l)
	if !slices.Contains(want, got) {
		t.Fatalf("crash before %v of %s, after %d operations: recovered\n%swant one of %d, the first:\n%s", img.at.Kind, img.at.Path, img.acked, got, len(want), want[0])
	}
	for p, records := range f.records {
		first, next, err := l.Offsets(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := values(t, l, p, first); !slices.Equal(got, records[first:next]) {
			t.Fatalf("crash before %v of %s: %v holds other records from %d on", img.at.Kind, img.at.Path, p, first)
		}
	}
	return got
}

// TestCommitIsAtomicAtEveryWriteAndSync crashes a log, whose segments are
// recycled, before calls that change the disk, with any part of what was not
// synced lost. Each time it holds what it held after some operation, not before
// the last that was acknowledged. So does a crash at any call of the recovery.
func TestCommitIsAtomicAtEveryWriteAndSync(t *testing.T) {
	r := newRand(t)
	cam := &camera{disk: vfs.NewMemory(), rng: rand.New(rand.NewPCG(r.Uint64(), 2))}
	h := &history{rng: rand.New(rand.NewPCG(r.Uint64(), 3))}
	cam.h = h
	h.log = newLog(t, retainOptions(vfs.Faulty(cam.disk, cam.decide)))
	h.sess, _ = join(t, h.log)
	f := &full{cursors: map[stream.Partition]*cursor{}, records: map[stream.Partition][]string{events: nil, scores: nil}}
	for p := range f.records {
		c, err := h.log.newCursor(p, 0, make(chan struct{}, 1))
		if err != nil {
			t.Fatal(err)
		}
		f.cursors[p] = c
	}
	f.note(t, h)
	cam.mu.Lock()
	cam.one = 2
	cam.mu.Unlock()
	images, recoveries := 0, 0
	for n := 0; n < 200 || h.log.Stats().RetiredSegments < 4; n++ {
		if n%16 == 0 { // else retention might not get a turn
			h.sess.Wake()
			if _, err := h.sess.Poll(t.Context(), 1<<20); err != nil {
				t.Fatal(err)
			}
			eventually(t, "retention", func() bool { signal(h.log.kick); return h.log.Stats().Segments <= 6 })
		}
		h.begun.Add(1)
		h.op(t)
		h.acked.Add(1)
		f.note(t, h)
		for _, img := range cam.take() {
			images++
			want := f.check(t, img.fs.Copy(), img)
			if sample(r, 10) {
				recoveries += f.checkRecovery(t, img, want, r)
			}
		}
	}
	if images == 0 || recoveries == 0 {
		t.Fatalf("%d images, %d of recoveries", images, recoveries)
	}
	t.Logf("%d images at %d calls, %d of recoveries; %d segments recycled", images, cam.calls, recoveries, h.log.Stats().RetiredSegments)
}

// checkRecovery crashes the recovery of an image at calls that change the disk.
// Recovery starts again each time, and ends with the same.
func (f *full) checkRecovery(t *testing.T, img image, want string, r *rand.Rand) int {
	t.Helper()
	disk := img.fs.Copy()
	again := &camera{disk: disk, h: &history{}, rng: r, one: 8}
	l, err := Open("data", retainOptions(vfs.Faulty(disk, again.decide)))
	if err != nil {
		t.Fatal(err)
	}
	first := dumpState(t, l)
	images := again.take()
	l.Close()
	if first != want {
		t.Fatalf("recovered once more:\n%swant:\n%s", first, want)
	}
	for _, crashed := range images {
		crashed.acked, crashed.upTo = img.acked, img.upTo
		if got := f.check(t, crashed.fs, crashed); got != want {
			t.Fatalf("recovery crashed before %v of %s; the next one made\n%swant:\n%s", crashed.at.Kind, crashed.at.Path, got, want)
		}
	}
	return len(images)
}

// TestRecoveringAgainChangesNothing recovers a crashed disk twice, with a crash
// after the first time, and compares with the first time.
func TestRecoveringAgainChangesNothing(t *testing.T) {
	r := newRand(t)
	for range 6 {
		disk := vfs.NewMemory()
		h := &history{log: newLog(t, crashOptions(disk)), rng: r}
		h.run(t, 5+r.IntN(40))
		disk = disk.Crash(r)
		var want string
		for round := range 4 {
			l := mustOpen(t, crashOptions(disk))
			if got := dump(t, l); round > 0 && got != want {
				t.Fatalf("recovery %d:\n%swant:\n%s", round, got, want)
			} else if round == 0 {
				want = got
			}
			next := disk.Crash(r)
			l.Close()
			if round != 2 { // else go on from the clean close
				disk = next
			}
		}
	}
}

// TestNothingOfAFrameIsSeenBeforeItIsDurable holds the sync of a frame back and
// looks for it everywhere: readers, the view of the state, the checkpoint.
func TestNothingOfAFrameIsSeenBeforeItIsDurable(t *testing.T) {
	g := newGate(frameSync)
	disk := vfs.NewMemory()
	l := newLog(t, small(vfs.Faulty(disk, g.decide)))
	appendValues(t, l, events, "a")
	s, _ := join(t, l)
	other, err := l.Join(t.Context(), "readers", "scores")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Poll(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	tail, err := l.newCursor(scores, 0, make(chan struct{}, 1))
	if err != nil {
		t.Fatal(err)
	}
	g.shut.Store(true)
	pending := s.Commit(step(1, "x"))
	<-g.held
	before := l.applied.Load()
	other.Wake()
	batch, err := other.Poll(t.Context(), 1)
	records, tailErr := tail.read(nil, 1)
	if err != nil || tailErr != nil || len(batch.Records)+len(records) != 0 {
		t.Fatalf("a reader saw %v %v, %v %v", batch.Records, records, err, tailErr)
	}
	_, next, _ := l.Offsets(t.Context(), scores)
	committed, _ := l.Committed(t.Context(), "g", events)
	value, err := l.space("g", events).Get([]byte("last"))
	if next != 0 || committed != 0 || value != nil || err != nil {
		t.Fatalf("before the sync: next %d, committed %d, state %q, %v", next, committed, value, err)
	}
	if err := l.store.Checkpoint(t.Context(), l.applied.Load(), true); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, small(disk.Crash(nil)))
	if after.store.Applied() != before || after.store.Seen() > before {
		t.Fatalf("the checkpoint has frame %d, seen %d; frame %d is not durable", after.store.Applied(), after.store.Seen(), before+1)
	}
	after.Close()
	close(g.release)
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestReplayIsByteIdentical reads a log from the ring, from its segments by
// their indexes, after a kill, and after all caches were lost.
func TestReplayIsByteIdentical(t *testing.T) {
	disk := vfs.NewMemory()
	o := crashOptions(disk)
	o.RingBytes = 64 << 20
	h := &history{log: newLog(t, o), rng: newRand(t)}
	h.run(t, 150)
	want := h.dumps[len(h.dumps)-1]
	if n := h.log.Stats().Segments; n < 4 {
		t.Fatalf("%d segments", n)
	}
	for name, change := range map[string]func(fs *vfs.Memory) error{
		"killed":            func(*vfs.Memory) error { return nil },
		"without indexes":   func(fs *vfs.Memory) error { return fs.RemoveAll("data/idx") },
		"without state":     func(fs *vfs.Memory) error { return fs.RemoveAll("data/state") },
		"without any cache": func(fs *vfs.Memory) error { return errors.Join(fs.RemoveAll("data/idx"), fs.RemoveAll("data/state")) },
	} {
		fs := disk.Copy()
		if err := change(fs); err != nil {
			t.Fatal(err)
		}
		for _, ring := range []int64{1, 64 << 20} {
			o := crashOptions(fs)
			o.RingBytes = ring
			l := mustOpen(t, o)
			if got := dump(t, l); got != want {
				t.Fatalf("%s, ring of %d bytes:\n%swant:\n%s", name, ring, got, want)
			}
			l.Close()
		}
	}
}

// TestCheckpointPlusReplayFromAnyEarlierFrame moves the redo point of a
// checkpoint back: frames that it has are redone over it, and nothing changes.
func TestCheckpointPlusReplayFromAnyEarlierFrame(t *testing.T) {
	r := newRand(t)
	disk := vfs.NewMemory()
	o := crashOptions(disk)
	o.CheckpointBytes = 1 << 40
	h := &history{log: newLog(t, o), rng: r}
	h.run(t, 40)
	if err := h.log.store.Checkpoint(t.Context(), h.log.applied.Load(), true); err != nil {
		t.Fatal(err)
	}
	checkpointed := h.log.applied.Load()
	h.sess.Close()
	h.run(t, 10)
	newest, want := h.log.applied.Load(), h.dumps[len(h.dumps)-1]
	crashed := disk.Crash(nil)
	for from := range checkpointed + 1 {
		if !sample(r, 3) {
			continue
		}
		fs := crashed.Copy()
		setApplied(t, fs, from)
		l := mustOpen(t, o.on(fs))
		if got := dump(t, l); got != want || l.Recovery().ReplayedFrames != int(newest-from) {
			t.Fatalf("checkpoint at %d, %d frames redone from %d:\n%swant:\n%s", checkpointed, l.Recovery().ReplayedFrames, from, got, want)
		}
		l.Close()
	}
}

func (o Options) on(fs vfs.FS) Options {
	o.fs = fs
	return o
}

// setApplied writes another redo point into a checkpoint.
func setApplied(t *testing.T, fs vfs.FS, seq uint64) {
	t.Helper()
	db, err := pebble.Open("data/state", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: noLogger{}})
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 8)
	for i := range value {
		value[i] = byte(seq >> (8 * i))
	}
	if err := errors.Join(db.Set([]byte("\x00\x00applied"), value, pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
}

type noLogger struct{}

func (noLogger) Infof(string, ...any)           {}
func (noLogger) Errorf(string, ...any)          {}
func (noLogger) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

const ownerEnv = "AFTERBAY_TEST_OWNER" // folder that a child process opens

// TestSecondProcessFailsAtOnceAndNamesTheOwner opens one directory from two
// processes, and again after the first was killed.
func TestSecondProcessFailsAtOnceAndNamesTheOwner(t *testing.T) {
	if dir := os.Getenv(ownerEnv); dir != "" {
		if _, err := Open(dir, small(nil)); err != nil {
			fmt.Println("refused:", err)
			os.Exit(1)
		}
		fmt.Println("open")
		select {}
	}
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), ownerEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4)
	if _, err := out.Read(said); err != nil || string(said) != "open" {
		t.Fatalf("the first process said %q, %v", said, err)
	}
	start := time.Now()
	_, err = Open(dir, small(nil))
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", child.Process.Pid)) {
		t.Fatalf("second process: %v; the owner is %d", err, child.Process.Pid)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Fatalf("refused after %v", took)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	l, err := Open(dir, small(nil))
	if err != nil {
		t.Fatalf("after the owner was killed: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAckedIsDurable appends from many goroutines, so that frames are shared,
// while a member commits, and cuts the power: each append and commit that
// returned before is there, and each step whole.
func TestAckedIsDurable(t *testing.T) {
	r := newRand(t)
	disk := vfs.NewMemory()
	o := faultOptions(disk)
	o.GroupInterval = 300 * time.Microsecond
	g := newLedger(func() {})
	if err := g.open(o); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards the ledger's lists
	var group sync.WaitGroup
	for w := range 6 {
		group.Go(func() { g.appendAs(t, &mu, w, 80) })
	}
	committer := ledger{log: g.log, patience: time.Minute}
	var ledgers []ledger
	var disks []*vfs.Memory
	for range 40 {
		for range 1 + r.IntN(3) {
			if err := committer.step(); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		ledgers = append(ledgers, ledger{acked: slices.Clone(g.acked), begun: g.begun, committed: committer.committed})
		mu.Unlock()
		disks = append(disks, disk.Crash(r))
	}
	group.Wait()
	for i, disk := range disks {
		l := mustOpen(t, o.on(disk))
		in := values(t, l, events, 0)
		// Appends of several goroutines are acknowledged in any order.
		slices.SortStableFunc(ledgers[i].acked, func(a, b string) int { return slices.Index(in, a) - slices.Index(in, b) })
		if err := ledgers[i].check(t, l); err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		l.Close()
	}
	if err := g.log.Close(); err != nil {
		t.Fatal(err)
	}
}
