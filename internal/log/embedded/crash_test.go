package embedded

import (
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

// history runs appends, steps and checkpoints, one after another, and keeps
// what the log held after each frame.
type history struct {
	log     *Log
	sess    stream.Member
	rng     *rand.Rand
	dumps   []string // after so many operations
	ops     int
	passing int32 // partitions of a topic that comes and goes; 0 is none
	begun   atomic.Int64
	acked   atomic.Int64
}

func (h *history) run(t testing.TB, n int) {
	h.sess, _ = join(t, h.log)
	h.dumps = append(h.dumps, dump(t, h.log))
	for range n {
		h.begun.Add(1)
		h.op(t)
		h.acked.Add(1)
		h.dumps = append(h.dumps, dump(t, h.log))
	}
}

func (h *history) op(t testing.TB) {
	h.ops++
	value := strings.Repeat(fmt.Sprint(h.ops), 1+h.rng.IntN(200))
	if h.passing > 0 && h.rng.IntN(3) == 0 {
		h.opTopic(t, value)
		return
	}
	switch h.rng.IntN(4) {
	case 0:
		appendValues(t, h.log, events, value, "short")
	case 1:
		rs := []stream.Record{record(events, value)}
		if _, err := h.log.AppendOnce(t.Context(), fmt.Sprint("p", h.ops%4), int64(h.ops), rs...); err != nil {
			t.Error(err)
		}
	default:
		st := step(stream.Offset(h.ops), value)
		for i := range h.rng.IntN(4) {
			r := record(scores, "of "+value)
			r.Headers = []stream.Header{{Key: "id", Value: fmt.Append(nil, i)}, {Key: "by", Value: []byte("the pipeline")}}
			st.Outputs = append(st.Outputs, r)
		}
		if err := commit(t, h.sess, st); err != nil {
			t.Error(err)
		}
	}
}

// opTopic works on a topic that comes and goes.
func (h *history) opTopic(t testing.TB, value string) {
	p := stream.Partition{Topic: "passing"}
	_, _, err := h.log.Offsets(t.Context(), p)
	there := err == nil
	switch {
	case !there:
		h.passing += int32(h.rng.IntN(2))
		err = h.log.CreateTopic(t.Context(), stream.Topic{Name: p.Topic, Partitions: h.passing})
	case h.rng.IntN(2) == 0:
		err = h.log.DeleteTopic(t.Context(), p.Topic)
	default:
		p.Index = h.rng.Int32N(h.passing)
		err = h.log.Append(t.Context(), record(p, value))
	}
	if err != nil {
		t.Error(err)
	}
}

func crashOptions(fs vfs.FS) Options {
	o := small(fs)
	o.SegmentBytes, o.MaxFrameBytes, o.RingBytes = 16<<10, 8<<10, 4<<10
	o.CheckpointBytes, o.MaxProducers = 6<<10, 3
	return o
}

// TestCrashLeavesAPrefixWithAllThatWasAcked crashes a log at random moments,
// with any part of what was not synced lost, and compares what recovery makes
// of it with what the log held after some frame, not before the last that was
// acknowledged. Recovering again, and after another crash, changes nothing.
func TestCrashLeavesAPrefixWithAllThatWasAcked(t *testing.T) {
	r := newRand(t)
	for range 4 {
		fs := vfs.NewMemory()
		rng := rand.New(rand.NewPCG(r.Uint64(), 2))
		h := &history{log: newLog(t, crashOptions(fs)), rng: rand.New(rand.NewPCG(r.Uint64(), 3)), passing: 1}
		done := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { defer close(done); h.run(t, 150) })
		type crash struct {
			fs         *vfs.Memory
			from, upTo int64
		}
		var crashes []crash
		for running := true; running && len(crashes) < 25; {
			select {
			case <-done:
				running = false
			case <-time.After(time.Duration(rng.IntN(4000)) * time.Microsecond):
			}
			c := crash{from: h.acked.Load()}
			c.fs = fs.Crash(rng)
			c.upTo = h.begun.Load()
			crashes = append(crashes, c)
		}
		group.Wait()
		for _, c := range crashes {
			checkCrash(t, c.fs, h.dumps[min(c.from, int64(len(h.dumps)-1)):min(c.upTo+1, int64(len(h.dumps)))], rng)
		}
	}
}

// checkCrash recovers fs several times; each must hold one of want.
func checkCrash(t *testing.T, fs *vfs.Memory, want []string, rng *rand.Rand) {
	t.Helper()
	var first string
	for round := range 3 {
		l, err := Open("data", crashOptions(fs))
		if err != nil {
			t.Fatalf("recovery %d: %v", round, err)
		}
		got := dump(t, l)
		if round == 0 {
			first = got
		}
		if got != first {
			t.Fatalf("recovery %d differs from the first:\n%s\nfirst:\n%s", round, got, first)
		}
		if !slices.Contains(want, got) {
			t.Fatalf("recovered what the log never held, or lost what was acked:\n%s\nwant one of %d, the first:\n%s", got, len(want), want[0])
		}
		if round == 1 { // again from where the first recovery left the disk
			fs = fs.Crash(rng)
		}
		if round == 0 { // without a clean close
			crashed := fs.Crash(nil)
			l.Close()
			fs = crashed
			continue
		}
		l.Close()
	}
}

// crashed returns a copy of the disk of a log with n appended records, after a
// crash, and what the log held.
func crashed(t *testing.T, o Options, n int) (*vfs.Memory, string) {
	t.Helper()
	fs := vfs.NewMemory()
	o.fs = fs
	l := newLog(t, o)
	for i := range n {
		appendValues(t, l, events, fmt.Sprint("value ", i, strings.Repeat(".", 100)))
	}
	return fs.Crash(nil), dump(t, l)
}

// framesOf returns the positions of the valid frames in a segment.
func framesOf(t *testing.T, fs vfs.FS, path string) (positions []int, b []byte) {
	t.Helper()
	m, _, err := readMeta(fs, "data")
	if err != nil {
		t.Fatal(err)
	}
	if b, err = vfs.ReadFile(fs, path); err != nil {
		t.Fatal(err)
	}
	for pos := 0; pos < len(b); {
		_, n, err := parseFrame(b[pos:], m.salt)
		if err != nil {
			break
		}
		positions = append(positions, pos)
		pos += n
	}
	return positions, b
}

const firstSegment = "data/log/00000000000000000001.seg"

func overwrite(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	if err := writeFile(fs, path, slices.Clone(b)); err != nil { // a vfs.File may change what it writes
		t.Fatal(err)
	}
}

// TestTornTailIsCutAndReported damages the newest frame in many ways.
func TestTornTailIsCutAndReported(t *testing.T) {
	r := newRand(t)
	base, _ := crashed(t, small(nil), 9)
	positions, _ := framesOf(t, base, firstSegment)
	last := positions[len(positions)-1]
	for name, damage := range map[string]func(b []byte) []byte{
		"flip":     func(b []byte) []byte { b[last+4+r.IntN(100)] ^= 4; return b },
		"length":   func(b []byte) []byte { b[last+3] ^= 255; return b },
		"zero end": func(b []byte) []byte { clear(b[last+40:]); return b },
		"truncate": func(b []byte) []byte { return b[:last+50] },
		"header":   func(b []byte) []byte { clear(b[last : last+8]); return b },
	} {
		fs, _ := crashed(t, small(nil), 9)
		_, b := framesOf(t, fs, firstSegment)
		overwrite(t, fs, firstSegment, damage(b))
		var first string
		for round := range 2 {
			l := mustOpen(t, small(fs))
			if got := values(t, l, events, 0); len(got) != 8 {
				t.Fatalf("%s: %d records, want 8", name, len(got))
			}
			rec := l.Recovery()
			if round == 0 && (rec.CutSeq != uint64(len(positions)) || rec.CutBytes < 30) || round == 1 && rec.CutSeq != 0 {
				t.Fatalf("%s, recovery %d: %+v; frame %d was torn", name, round, rec, len(positions))
			}
			if d := dump(t, l); round == 0 {
				first = d
			} else if d != first {
				t.Fatalf("%s: recovering twice differs:\n%s\n%s", name, d, first)
			}
			crashed := fs.Crash(nil)
			if round == 0 {
				appendValues(t, l, events, "after the cut")
				if got := values(t, l, events, 8); !slices.Equal(got, []string{"after the cut"}) {
					t.Fatalf("%s: %q", name, got)
				}
			}
			l.Close()
			fs = crashed
		}
	}
}

// TestRotIsRefusedWithFileAndOffset damages each frame but the newest.
func TestRotIsRefusedWithFileAndOffset(t *testing.T) {
	r := newRand(t)
	base, _ := crashed(t, small(nil), 9)
	positions, _ := framesOf(t, base, firstSegment)
	for i, pos := range positions[:len(positions)-1] {
		for name, damage := range map[string]func(b []byte){
			"flip":   func(b []byte) { b[pos+r.IntN(positions[i+1]-pos-8)] ^= 1 << r.IntN(8) },
			"zero":   func(b []byte) { clear(b[pos:positions[i+1]]) },
			"header": func(b []byte) { clear(b[pos : pos+32]) },
		} {
			fs, _ := crashed(t, small(nil), 9)
			_, b := framesOf(t, fs, firstSegment)
			damage(b)
			overwrite(t, fs, firstSegment, b)
			_, err := Open("data", small(fs))
			var damaged *DamageError
			if !errors.As(err, &damaged) || damaged.Path != firstSegment || damaged.Offset != int64(pos) || damaged.Seq != uint64(i+1) {
				t.Fatalf("%s in frame %d at %d: %v", name, i+1, pos, err)
			}
			if _, again := framesOf(t, fs, firstSegment); !slices.Equal(again, b) {
				t.Fatalf("%s: a refused open changed the segment: %v", name, err)
			}
		}
	}
}

// TestNewestFrameIsDamageWhereItWasKnownToBeDurable flips a bit in the newest
// frame of a log that was closed, and of one that had a checkpoint.
func TestNewestFrameIsDamageWhereItWasKnownToBeDurable(t *testing.T) {
	for _, closed := range []bool{true, false} {
		fs := vfs.NewMemory()
		l := newLog(t, small(fs))
		appendValues(t, l, events, "a", "b")
		if closed {
			l.Close()
		} else if err := l.store.Checkpoint(t.Context(), l.applied.Load(), true); err != nil {
			t.Fatal(err)
		}
		disk := fs.Crash(nil)
		positions, b := framesOf(t, disk, firstSegment)
		b[positions[len(positions)-1]+60] ^= 1
		overwrite(t, disk, firstSegment, b)
		_, err := Open("data", small(disk))
		var damaged *DamageError
		if !errors.As(err, &damaged) {
			t.Fatalf("closed %v: %v", closed, err)
		}
	}
}

// TestStateIsACacheOfTheLog removes the checkpoint of a closed log: the log
// alone makes it again, and still knows that its newest frame was durable.
func TestStateIsACacheOfTheLog(t *testing.T) {
	fs := vfs.NewMemory()
	h := &history{log: newLog(t, crashOptions(fs)), rng: newRand(t)}
	h.run(t, 50)
	want := dump(t, h.log)
	h.log.Close()
	if err := fs.RemoveAll("data/state"); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, crashOptions(fs))
	if got := dump(t, l); got != want || l.Recovery().ReplayedFrames < 50 {
		t.Fatalf("after %d frames:\n%s\nwant:\n%s", l.Recovery().ReplayedFrames, got, want)
	}
	newest := l.segments[len(l.segments)-1]
	l.Close()
	if err := fs.RemoveAll("data/state"); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(fs, newest.path)
	if err != nil {
		t.Fatal(err)
	}
	b[newest.end-20] ^= 1
	overwrite(t, fs, newest.path, b)
	var damaged *DamageError
	if _, err := Open("data", crashOptions(fs)); !errors.As(err, &damaged) {
		t.Fatalf("the newest frame of a closed log is damaged: %v", err)
	}
}

// TestLaterFrameThatKnewNothingIsNotEvidence puts a frame behind a torn one
// whose writer did not know that one to be durable.
func TestLaterFrameThatKnewNothingIsNotEvidence(t *testing.T) {
	for _, known := range []bool{false, true} {
		fs, _ := crashed(t, small(nil), 5)
		m, _, _ := readMeta(fs, "data")
		positions, b := framesOf(t, fs, firstSegment)
		last, seq := positions[len(positions)-1], uint64(len(positions))
		later := stale(seq+1, m.Epochs[0].Epoch, m.salt)
		if !known {
			h := parseHeader(later)
			h.durable = seq - 1
			later = sealFrame(later[:h.length], h, m.salt)
		}
		copy(b[last+align(parseHeader(b[last:]).length):], later)
		b[last+50] ^= 1
		overwrite(t, fs, firstSegment, b)
		l, err := Open("data", small(fs))
		var damaged *DamageError
		if known != errors.As(err, &damaged) {
			t.Fatalf("known to be durable %v: %v", known, err)
		}
		if err == nil {
			if l.Recovery().CutSeq != seq {
				t.Fatalf("%+v", l.Recovery())
			}
			l.Close()
		}
	}
}

func TestMissingSegmentIsRefused(t *testing.T) {
	for _, which := range []int{0, 1, 2, -1} {
		fs, _ := crashed(t, crashOptions(nil), 400)
		names, _ := fs.List("data/log")
		slices.Sort(names)
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, segmentSuffix) })
		if len(names) < 4 {
			t.Fatalf("%d segments", len(names))
		}
		if which < 0 {
			which = len(names) - 1
		}
		if which == 0 {
			continue // the same as retired: see TestRetention
		}
		if err := fs.Remove("data/log/" + names[which]); err != nil {
			t.Fatal(err)
		}
		_, err := Open("data", crashOptions(fs))
		var damaged *DamageError
		if !errors.As(err, &damaged) && which < len(names)-1 {
			t.Fatalf("without %s of %d segments: %v", names[which], len(names), err)
		}
	}
}

// stale is a frame that looks right in its place.
func stale(seq uint64, e uint32, salt uint32) []byte {
	b := beginSection(newFrame(nil, 200), sectionInput, flagCritical)
	b = appendRecordsHead(b, events, 1, 1)
	b = appendRecord(b, ptr(record(events, "stale")))
	endSection(b, frameHeader)
	return sealFrame(b, header{seq: seq, epoch: e, sections: 1, durable: seq - 1}, salt)
}

// TestStaleFrameIsNeverLive puts frames behind the end of the log that a
// recycled segment, another log or an earlier life of this one may have left.
func TestStaleFrameIsNeverLive(t *testing.T) {
	for name, place := range map[string]func(next uint64, m meta) []byte{
		"older seq":   func(next uint64, m meta) []byte { return stale(next-1, m.Epochs[0].Epoch, m.salt) },
		"newer seq":   func(next uint64, m meta) []byte { return stale(next+9, 77, m.salt) },
		"other epoch": func(next uint64, m meta) []byte { return stale(next, m.Epochs[0].Epoch+1, m.salt) },
		"other log":   func(next uint64, m meta) []byte { return stale(next, m.Epochs[0].Epoch, m.salt+1) },
		"own frame":   func(next uint64, m meta) []byte { return stale(next, m.Epochs[0].Epoch, m.salt) },
	} {
		fs, _ := crashed(t, small(nil), 1)
		m, _, err := readMeta(fs, "data")
		if err != nil {
			t.Fatal(err)
		}
		positions, b := framesOf(t, fs, firstSegment)
		last := positions[len(positions)-1]
		end := last + align(parseHeader(b[last:]).length)
		copy(b[end:], place(uint64(len(positions))+1, m))
		overwrite(t, fs, firstSegment, b)
		l, err := Open("data", small(fs))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := 1
		if name == "own frame" {
			want = 2 // the control: all else is as it should be
		}
		if got := values(t, l, events, 0); len(got) != want {
			t.Fatalf("%s: %q", name, got)
		}
		l.Close()
	}
}

// TestFrameInsideARecordIsNotEvidence carries the log's own bytes as a record
// behind a torn frame: valid frames, but none after it.
func TestFrameInsideARecordIsNotEvidence(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, small(fs))
	appendValues(t, l, events, "a", "b")
	positions, b := framesOf(t, fs, firstSegment)
	own := b[:positions[2]+align(parseHeader(b[positions[2]:]).length)]
	for pad := range 8 {
		appendValues(t, l, events, strings.Repeat("-", pad)+string(own))
	}
	disk := fs.Crash(nil)
	positions, b = framesOf(t, disk, firstSegment)
	b[positions[len(positions)-1]+33] ^= 1
	overwrite(t, disk, firstSegment, b)
	after := mustOpen(t, small(disk))
	defer after.Close()
	if after.Recovery().CutSeq != uint64(len(positions)) {
		t.Fatalf("%+v", after.Recovery())
	}
}

func TestUnknownSections(t *testing.T) {
	for _, flags := range []uint16{0, flagCritical} {
		fs, want := crashed(t, small(nil), 1)
		m, _, _ := readMeta(fs, "data")
		positions, b := framesOf(t, fs, firstSegment)
		last := positions[len(positions)-1]
		end := last + align(parseHeader(b[last:]).length)
		frame := append(beginSection(newFrame(nil, 100), 99, flags), "of the future"...)
		endSection(frame, frameHeader)
		seq := uint64(len(positions)) + 1
		copy(b[end:], sealFrame(frame, header{seq: seq, epoch: m.Epochs[0].Epoch, sections: 1, durable: seq - 1}, m.salt))
		overwrite(t, fs, firstSegment, b)
		l, err := Open("data", small(fs))
		if flags == flagCritical {
			if !errors.Is(err, errFormat) || !strings.Contains(err.Error(), "kind 99") {
				t.Fatalf("critical: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("optional: %v", err)
		}
		if got := dump(t, l); got != want {
			t.Fatalf("optional:\n%s\nwant:\n%s", got, want)
		}
		l.Close()
	}
}
