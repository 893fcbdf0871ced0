package embedded

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func newRand(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

var (
	quiet  = slog.New(slog.NewTextHandler(io.Discard, nil))
	events = stream.Partition{Topic: "events"}
	scores = stream.Partition{Topic: "scores"}
)

// small returns options for many small segments in fs.
func small(fs vfs.FS) Options {
	return Options{
		SegmentBytes: 64 << 10, MaxFrameBytes: 32 << 10, GroupInterval: 50 * time.Microsecond,
		CheckpointInterval: time.Hour, Logger: quiet, fs: fs,
	}
}

func mustOpen(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newLog opens a log in memory with the topics events and scores.
func newLog(t testing.TB, o Options) *Log {
	t.Helper()
	if o.fs == nil {
		o = small(vfs.NewMemory())
	}
	l := mustOpen(t, o)
	t.Cleanup(func() { l.Close() })
	create(t, l, 1)
	return l
}

func create(t testing.TB, l *Log, partitions int32) {
	t.Helper()
	for _, name := range []string{"events", "scores"} {
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
}

func record(p stream.Partition, value string) stream.Record {
	return stream.Record{Partition: p, Time: time.UnixMicro(1), Key: []byte("k"), Value: []byte(value)}
}

func appendValues(t testing.TB, l *Log, p stream.Partition, values ...string) {
	t.Helper()
	records := make([]stream.Record, len(values))
	for i, v := range values {
		records[i] = record(p, v)
	}
	if err := l.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

// values reads what p holds from offset on.
// content is the value of a record and its headers.
func content(r *stream.Record) string {
	text := string(r.Value)
	for _, h := range r.Headers {
		text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
	}
	return text
}

func values(t testing.TB, l *Log, p stream.Partition, from stream.Offset) []string {
	t.Helper()
	_, next, err := l.Offsets(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if from == next {
		return nil
	}
	var got []string
	for r, err := range l.Tail(t.Context(), p, from) {
		if err != nil || r.Offset != from {
			t.Fatalf("%v: offset %d, %v; want %d", p, r.Offset, err, from)
		}
		got = append(got, content(&r))
		if from++; from == next {
			break
		}
	}
	return got
}

// join returns a member of group g, and its first batch.
func join(t testing.TB, l *Log) (stream.Member, stream.Batch) {
	t.Helper()
	s, err := l.Join(t.Context(), "g", "events")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Poll(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

// step answers a record with its value twice, and counts it in the state.
func step(next stream.Offset, value string) stream.Transaction {
	return stream.Transaction{
		Outputs: []stream.Record{record(scores, value+value)},
		Changes: []stream.Change{
			{Partition: events, Key: []byte("last"), Value: []byte(value)},
			{Partition: events, Key: fmt.Append(nil, "seen ", next%5), Value: fmt.Append(nil, next)},
			{Partition: events, Key: fmt.Append(nil, "seen ", (next+2)%5), Value: nil},
		},
		Offsets: map[stream.Partition]stream.Offset{events: next},
	}
}

func commit(t testing.TB, s stream.Member, st stream.Transaction) error {
	t.Helper()
	return s.Commit(st).Wait(t.Context())
}

// dump returns all that the log holds, as text, for comparison.
func dump(t testing.TB, l *Log) string {
	t.Helper()
	var b bytes.Buffer
	for _, p := range partitions(t, l) {
		first, next, err := l.Offsets(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%v %d-%d %q\n", p, first, next, values(t, l, p, first))
	}
	return b.String() + dumpState(t, l)
}

func partitions(t testing.TB, l *Log) (all []stream.Partition) {
	t.Helper()
	topics, err := l.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		for i := range topic.Partitions {
			all = append(all, stream.Partition{Topic: topic.Name, Index: i})
		}
	}
	return all
}

// dumpState returns all that the log holds beside its records.
func dumpState(t testing.TB, l *Log) string {
	t.Helper()
	state, err := readState(partitions(t, l), l)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func readState(all []stream.Partition, l *Log) (string, error) {
	var b bytes.Buffer
	ctx := context.Background()
	groups, err := l.Groups(ctx)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		for _, p := range all {
			committed, err := l.Committed(ctx, g, p)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s %v %d", g, p, committed)
			view, err := l.State(ctx, g, p)
			if err != nil {
				return "", err
			}
			for e, err := range view.Scan(nil) {
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&b, " %s=%s", e.Key, e.Value)
			}
			b.WriteByte('\n')
		}
	}
	for e, err := range l.cells.Scan(nil) {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%q=%q\n", e.Key, e.Value)
	}
	return b.String(), nil
}

func TestStepIsReadAfterReopen(t *testing.T) {
	o := small(vfs.NewMemory())
	l := newLog(t, o)
	appendValues(t, l, events, "a", "b", "c")
	s, b := join(t, l)
	if len(b.Records) != 3 || len(b.Assigned) != 1 {
		t.Fatalf("first batch %+v", b)
	}
	if err := commit(t, s, step(2, "b")); err != nil {
		t.Fatal(err)
	}
	want := dump(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, o)
	defer l.Close()
	if got := dump(t, l); got != want {
		t.Fatalf("reopened:\n%s\nwant:\n%s", got, want)
	}
	if r := l.Recovery(); r != (Recovery{}) {
		t.Fatalf("recovery after a clean close: %+v", r)
	}
	if _, b := join(t, l); len(b.Records) != 1 || b.Assigned[0].Next != 2 {
		t.Fatalf("after reopen %+v", b)
	}
}

func TestGroupCommitSharesSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(vfs.NewMemory())
		o.GroupInterval = 5 * time.Millisecond
		l := newLog(t, o)
		before := l.Stats().Frames
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() { appendValues(t, l, events, fmt.Sprint(i)) })
		}
		group.Wait()
		if n := l.Stats().Frames - before; n > 50 {
			t.Fatalf("%d syncs for 200 appends at once", n)
		}
		if got := values(t, l, events, 0); len(got) != 200 {
			t.Fatalf("%d records", len(got))
		}
	})
}

func TestAppendIsOneFrameAtOnceOnAnIdleLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(vfs.NewMemory())
		o.GroupInterval = time.Minute
		l := mustOpen(t, o)
		defer l.Close()
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: "events", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		// The interval is not over: this one waits, and is taken back.
		if err := l.Append(ctx, record(events, "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, next, err := l.Offsets(t.Context(), events); next != 0 || err != nil {
			t.Fatalf("an append that was taken back is at %d, %v", next, err)
		}
	})
}

func TestTooLargeIsDecidedWithoutWriting(t *testing.T) {
	l := newLog(t, Options{})
	before := l.Stats().Frames
	large := record(events, strings.Repeat("x", 20<<10))
	if err := l.Append(t.Context(), large, large); !errors.Is(err, stream.ErrTooLarge) {
		t.Fatalf("append: %v", err)
	}
	s, _ := join(t, l)
	st := step(0, "")
	st.Changes[0].Value = make([]byte, 40<<10)
	if err := commit(t, s, st); !errors.Is(err, stream.ErrTooLarge) {
		t.Fatalf("commit: %v", err)
	}
	if _, err := s.Poll(t.Context(), 1); !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("poll after a failed commit: %v", err)
	}
	o := small(vfs.NewMemory())
	o.MaxRecordBytes = 10
	other := newLog(t, o)
	if err := other.Append(t.Context(), record(events, "0123456789")); !errors.Is(err, stream.ErrTooLarge) {
		t.Fatalf("record: %v", err)
	}
	if after := l.Stats().Frames; after != before {
		t.Fatalf("%d frames were written", after-before)
	}
}

func TestProducersAreBoundedAndSurvive(t *testing.T) {
	o := small(vfs.NewMemory())
	o.MaxProducers = 3
	l := newLog(t, o)
	once := func(producer string, first int64, want int) {
		t.Helper()
		rs := []stream.Record{record(events, "x"), record(events, "y")}
		if n, err := l.AppendOnce(t.Context(), producer, first, rs...); n != want || err != nil {
			t.Fatalf("%s from %d: %d repeated, %v; want %d", producer, first, n, err, want)
		}
		for i, r := range rs {
			if (r.Offset == -1) != (i < want) {
				t.Fatalf("%s from %d: record %d has offset %d", producer, first, i, r.Offset)
			}
		}
	}
	once("a", 1, 0)
	once("a", 2, 1)
	once("a", 1, 2)
	once("b", 1, 0)
	once("c", 1, 0)
	once("a", 1, 2) // seen again, so b is the oldest
	once("d", 1, 0)
	want := dump(t, l)
	l.Close()
	l = mustOpen(t, o)
	defer l.Close()
	if got := dump(t, l); got != want {
		t.Fatalf("reopened:\n%s\nwant:\n%s", got, want)
	}
	once("a", 3, 1)
	once("b", 1, 0) // forgotten
	if n := l.producers.recent.Len(); n != 3 {
		t.Fatalf("%d producers", n)
	}
}

// TestRepeatsInOneFrameAreSeen appends the same numbers at once.
func TestRepeatsInOneFrameAreSeen(t *testing.T) {
	o := small(vfs.NewMemory())
	o.GroupInterval = 20 * time.Millisecond
	l := newLog(t, o)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := l.AppendOnce(t.Context(), "p", 1, record(events, "a"), record(events, "b")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := values(t, l, events, 0); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("%q", got)
	}
}

// TestColdReadersShareChunks reads a log larger than its ring, by partition.
func TestColdReadersShareChunks(t *testing.T) {
	o := small(vfs.NewMemory())
	o.SegmentBytes, o.RingBytes = 1<<20, 8<<10
	l := mustOpen(t, o)
	defer func() { l.Close() }()
	create(t, l, 4)
	want := map[stream.Partition][]string{}
	for i := range 400 {
		rs := make([]stream.Record, 20)
		for j := range rs {
			p := stream.Partition{Topic: "events", Index: int32((i + j) % 4)}
			v := fmt.Sprintf("%d-%d-%0*d", i, j, 300, j)
			rs[j] = record(p, v)
			want[p] = append(want[p], v)
		}
		if err := l.Append(t.Context(), rs...); err != nil {
			t.Fatal(err)
		}
	}
	check := func(maxLoads int) {
		t.Helper()
		var group sync.WaitGroup
		for p, vs := range want {
			group.Go(func() {
				for _, from := range []int{0, 17, len(vs) - 1} {
					if got := values(t, l, p, stream.Offset(from)); !slices.Equal(got, vs[from:]) {
						t.Errorf("%v from %d: %d records, want %d", p, from, len(got), len(vs)-from)
					}
				}
			})
		}
		group.Wait()
	}
	check(0)
	if n := l.Stats().Segments; n < 2 {
		t.Fatalf("%d segments", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, o)
	check(0)
	// Without index files, and with bad ones.
	names, _ := o.fs.List("data/idx")
	for i, name := range names {
		path := "data/idx/" + name
		b, _ := vfs.ReadFile(o.fs, path)
		b[len(b)/2] ^= 1
		writeFile(o.fs, path, b)
		if i%2 == 0 {
			o.fs.Remove(path)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("no index files")
	}
	l = mustOpen(t, o)
	check(0)
}

func TestSecondOpenFailsAndNamesTheOwner(t *testing.T) {
	dir := t.TempDir()
	o := small(nil)
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Open(dir, o)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l2, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	l2.Close()
}

func TestZombieStepIsRefusedByTheWriter(t *testing.T) {
	l := newLog(t, Options{})
	zombie, _ := join(t, l)
	heir, err := l.Join(t.Context(), "g", "events")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.stepRequest(zombie.(*member), ptr(step(0, "z")))
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	zombie.(*member).group.remove(zombie.(*member), stream.ErrFenced)
	l.mu.Unlock()
	if b, err := heir.Poll(t.Context(), 1); err != nil || len(b.Assigned) != 1 {
		t.Fatalf("heir: %+v, %v", b, err)
	}
	done := make(chan error, 1)
	r.decide = func(err error) { done <- err }
	if _, err := l.queue.add(r); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("zombie: %v", err)
	}
	if err := commit(t, heir, step(0, "h")); err != nil {
		t.Fatal(err)
	}
	if got := values(t, l, scores, 0); !slices.Equal(got, []string{"hh"}) {
		t.Fatalf("%q", got)
	}
}

func ptr[T any](v T) *T { return &v }

func TestOptionsSayWhatIsWrong(t *testing.T) {
	_, err := Open("nowhere", Options{SegmentBytes: 1 << 20, MaxFrameBytes: 2 << 20, RetainAge: -1, MaxProducers: -1})
	for _, want := range []string{"MaxFrameBytes", "RetainAge", "MaxProducers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestReopenWithOtherOptions changes every size between opens.
func TestReopenWithOtherOptions(t *testing.T) {
	fs := vfs.NewMemory()
	o := small(fs)
	l := newLog(t, o)
	for i := range 300 {
		appendValues(t, l, events, fmt.Sprint(i, strings.Repeat("y", 500)))
	}
	want := dump(t, l)
	l.Close()
	for _, size := range []int64{32 << 10, 256 << 10, 64 << 10} {
		o := Options{SegmentBytes: size, MaxFrameBytes: 8 << 10, RingBytes: 1, CheckpointBytes: 1 << 10, Logger: quiet, MaxRecordBytes: 100, fs: fs}
		l := mustOpen(t, o)
		if got := dump(t, l); got != want {
			t.Fatalf("segments of %d:\n%s", size, got)
		}
		for range 100 {
			appendValues(t, l, scores, strings.Repeat("s", 90))
		}
		want = dump(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
