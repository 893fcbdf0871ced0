package state

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func memory(t testing.TB) (*Store, *vfs.Memory) {
	fs := vfs.NewMemory()
	s := open(t, Options{Dir: "state", FS: fs})
	t.Cleanup(func() {
		if s.users.enter() == nil {
			s.users.leave()
			s.Close()
		}
	})
	return s, fs
}

// put applies one change; a nil value deletes.
func put(s *Space, seq uint64, key string, value []byte) {
	s.Apply(seq, func(yield func(k, v []byte) bool) { yield([]byte(key), value) })
}

func dump(t testing.TB, scan iter.Seq2[stream.Entry, error]) map[string]string {
	t.Helper()
	got, last := map[string]string{}, ""
	for e, err := range scan {
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 && string(e.Key) <= last {
			t.Fatalf("%q yielded after %q", e.Key, last)
		}
		last = string(e.Key)
		got[last] = string(e.Value)
	}
	return got
}

// TestSpaceBehavesLikeAMap runs random changes, clearings, checkpoints, evictions and
// reopenings against a map, with keys and values of all sizes.
func TestSpaceBehavesLikeAMap(t *testing.T) {
	r := newRand(t)
	fs := vfs.NewMemory()
	o := Options{Dir: "state", FS: fs, MemoryMaxBytes: 20_000}
	store := open(t, o)
	space := store.Space("group/topic/0")
	other := store.Space("group/topic/1")
	want := map[string]string{}
	seq := uint64(0)
	for range 6000 {
		key := fmt.Sprintf("%0*d", 1+r.IntN(4), r.IntN(300))
		switch n := r.IntN(1000); {
		case n < 400:
			seq++
			value := bytes.Repeat([]byte{byte(n)}, []int{0, 5, 40, 300, r.IntN(3000), 40_000}[min(r.IntN(40)/5, 5)])
			put(space, seq, key, value)
			want[key] = string(value)
		case n < 550:
			seq++
			put(space, seq, key, nil)
			delete(want, key)
		case n < 553:
			seq++
			if err := space.Clear(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
			clear(want)
		case n < 980:
			value, err := space.Get([]byte(key))
			if expect, ok := want[key]; err != nil || ok != (value != nil) || string(value) != expect {
				t.Fatalf("get %q: %d bytes, %v; want %d, %v", key, len(value), err, len(expect), ok)
			}
		case n < 990:
			prefix := key[:1+r.IntN(len(key))]
			expect := maps.Clone(want)
			maps.DeleteFunc(expect, func(k, _ string) bool { return !strings.HasPrefix(k, prefix) })
			if got := dump(t, space.Scan([]byte(prefix))); !maps.Equal(got, expect) {
				t.Fatalf("scan %q: %d entries, want %d", prefix, len(got), len(expect))
			}
		default:
			if err := store.Checkpoint(t.Context(), seq, true); err != nil || store.Applied() != seq {
				t.Fatalf("checkpoint %d: applied %d, %v", seq, store.Applied(), err)
			}
			if r.IntN(3) > 0 {
				break
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			store = open(t, o)
			space, other = store.Space("group/topic/0"), store.Space("group/topic/1")
			if store.Applied() != seq || store.Seen() > seq {
				t.Fatalf("reopened at applied %d, seen %d; want %d", store.Applied(), store.Seen(), seq)
			}
		}
	}
	if got := dump(t, space.Scan(nil)); !maps.Equal(got, want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	if got := dump(t, other.Scan(nil)); len(got) != 0 {
		t.Fatalf("the other space has %d entries", len(got))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCrashKeepsThePrefixThatAppliedSpeaksOf crashes a store at random and
// checks that every change up to Applied survived, and that none came from a
// frame after Seen.
func TestCrashKeepsThePrefixThatAppliedSpeaksOf(t *testing.T) {
	r := newRand(t)
	for range 15 {
		store, fs := memory(t)
		space := store.Space("s")
		last := map[string][]uint64{} // the frames that changed a key
		for seq := uint64(1); seq <= 400; seq++ {
			key := fmt.Sprint(r.IntN(50))
			put(space, seq, key, fmt.Append(nil, seq))
			last[key] = append(last[key], seq)
			if r.IntN(60) == 0 {
				if err := store.Checkpoint(t.Context(), seq, true); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(300) == 0 { // a checkpoint that a crash interrupts
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				store.Checkpoint(ctx, seq, true)
				space.swapDirty()
				break
			}
		}
		after := open(t, Options{Dir: "state", FS: fs.Crash(nil)})
		for key, seqs := range last {
			value, err := after.Space("s").Get([]byte(key))
			if err != nil {
				t.Fatal(err)
			}
			var got uint64
			fmt.Sscan(string(value), &got)
			i, _ := slices.BinarySearch(seqs, after.Applied()+1)
			if got > after.Seen() || (i > 0 && got < seqs[i-1]) || (got > 0 && !slices.Contains(seqs, got)) {
				t.Fatalf("key %s has the value of frame %d; changed by %v; applied %d, seen %d", key, got, seqs, after.Applied(), after.Seen())
			}
		}
		after.Close()
	}
}

func TestMemoryIsBounded(t *testing.T) {
	store := open(t, Options{Dir: "s", FS: vfs.NewMemory(), MemoryMaxBytes: 100_000})
	defer store.Close()
	space := store.Space("a")
	for seq := uint64(1); seq <= 5000; seq++ {
		put(space, seq, fmt.Sprint("key", seq), bytes.Repeat([]byte{1}, 100))
		if seq%100 == 0 {
			if err := store.Checkpoint(t.Context(), seq, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	for seq := uint64(1); seq <= 5000; seq += 7 {
		if v, err := space.Get(fmt.Append(nil, "key", seq)); err != nil || len(v) != 100 {
			t.Fatalf("key%d: %d bytes, %v", seq, len(v), err)
		}
	}
	st := store.Stats()
	if st.Bytes > 130_000 || st.Evictions < 3000 || st.Misses == 0 {
		t.Fatalf("%d bytes, %d evictions, %d misses", st.Bytes, st.Evictions, st.Misses)
	}
}

// A commit waits while the store is full. That ends with a checkpoint, however
// many keys were evicted before: what is known of them stays small.
func TestStoreIsNotFullAfterACheckpoint(t *testing.T) {
	store := open(t, Options{Dir: "s", FS: vfs.NewMemory(), MemoryMaxBytes: 64 << 10})
	defer store.Close()
	spaces := []*Space{store.Space("a"), store.Space("b")}
	const keys = 40_000
	for seq := uint64(1); seq <= keys; seq++ {
		put(spaces[seq%2], seq, fmt.Sprint("key", seq), bytes.Repeat([]byte{1}, 100))
		if seq%200 == 0 {
			if err := store.Checkpoint(t.Context(), seq, true); err != nil {
				t.Fatal(err)
			}
			if store.Full() {
				t.Fatalf("full after the checkpoint of frame %d, with %d bytes", seq, store.used.Load())
			}
		}
	}
	if n := store.filters.Load(); n > 8<<10 {
		t.Errorf("%d bytes of filters in a memory of 64 KiB", n)
	}
	for seq := uint64(1); seq <= keys; seq += 997 {
		if v, err := spaces[seq%2].Get(fmt.Append(nil, "key", seq)); err != nil || len(v) != 100 {
			t.Fatalf("key%d: %d bytes, %v", seq, len(v), err)
		}
	}
}

// TestScanSeesWholeApplies reads while pairs of keys are changed together and
// checkpoints run.
func TestScanSeesWholeApplies(t *testing.T) {
	store, _ := memory(t)
	space := store.Space("a")
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for seq := uint64(1); !stop.Load(); seq++ {
			v := fmt.Append(nil, seq)
			space.Apply(seq, func(yield func(k, v []byte) bool) { _ = yield([]byte("a"), v) && yield([]byte("b"), v) })
		}
	})
	group.Go(func() {
		for !stop.Load() {
			if err := store.Checkpoint(t.Context(), 1, true); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 300 {
		if got := dump(t, space.Scan(nil)); got["a"] != got["b"] {
			t.Errorf("half of an apply: %v", got)
		}
	}
	stop.Store(true)
	group.Wait()
}

// TestReadUnderWayDoesNotHideAnApply changes, checkpoints and evicts a key while
// a Get of it is reading the value before from the disk.
func TestReadUnderWayDoesNotHideAnApply(t *testing.T) {
	var hold atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	decide := func(c vfs.Call) (o vfs.Outcome) {
		if c.Kind == vfs.Read && strings.HasSuffix(c.Path, ".sst") && hold.Swap(false) {
			close(held)
			<-release
		}
		return o
	}
	store := open(t, Options{Dir: "s", FS: vfs.Faulty(vfs.NewMemory(), decide), MemoryMaxBytes: 1})
	defer store.Close()
	space := store.Space("a")
	settle := func(seq uint64) {
		if err := store.Checkpoint(t.Context(), seq, true); err != nil {
			t.Fatal(err)
		}
		store.evict()
		if n := store.Stats().Cells; n != 0 {
			t.Fatalf("%d cells were not evicted", n)
		}
	}
	put(space, 1, "k", []byte("old"))
	settle(1)
	hold.Store(true)
	read := make(chan string)
	go func() {
		value, err := space.Get([]byte("k"))
		if err != nil {
			t.Error(err)
		}
		read <- string(value)
	}()
	<-held
	put(space, 2, "k", []byte("new"))
	settle(2)
	close(release)
	first := <-read
	second, err := space.Get([]byte("k"))
	if first != "new" || string(second) != "new" || err != nil {
		t.Fatalf("read %q, then %q, %v", first, second, err)
	}
}

// TestFailingDatabaseDoesNotEndTheProcess makes every write fail: Pebble gives
// up with Fatalf, in which it expects the process to exit.
func TestFailingDatabaseDoesNotEndTheProcess(t *testing.T) {
	for _, name := range []string{"MANIFEST", "sst"} {
		var on atomic.Bool
		decide := func(c vfs.Call) (o vfs.Outcome) {
			if on.Load() && c.Kind.Changes() && strings.Contains(c.Path, name) {
				o.Err = vfs.EIO
			}
			return o
		}
		fs := vfs.Faulty(vfs.NewMemory(), decide)
		store := open(t, Options{Dir: "s", FS: fs})
		space := store.Space("a")
		put(space, 1, "k", []byte("v"))
		on.Store(true)
		most := 200 * time.Millisecond // it tries again for as long
		if name == "MANIFEST" {
			most = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), most)
		err := store.Checkpoint(ctx, 1, true)
		cancel()
		if name == "MANIFEST" && (!errors.Is(err, ErrFailed) || !errors.Is(store.Err(), ErrFailed)) || err == nil || store.Applied() != 0 {
			t.Fatalf("%s: checkpoint: %v, applied %d", name, err, store.Applied())
		}
		if v, err := space.Get([]byte("k")); err != nil || string(v) != "v" {
			t.Fatalf("%s: get after the failure: %q, %v", name, v, err)
		}
		on.Store(false)
		if err := store.Close(); name == "MANIFEST" && !errors.Is(err, ErrFailed) {
			t.Fatalf("%s: close: %v", name, err)
		}
		store = open(t, Options{Dir: "s", FS: fs}) // nothing of the first holds the folder
		if err := store.Close(); err != nil {
			t.Fatalf("%s: opened again: %v", name, err)
		}
	}
}

// TestOpenOnAFullDiskIsRefused opens a store where nothing can be written, and
// again when there is room.
func TestOpenOnAFullDiskIsRefused(t *testing.T) {
	disk := vfs.NewMemory()
	for _, name := range []string{"new", "old"} {
		disk.SetCapacity(disk.Used() + 10)
		done := make(chan error, 1)
		go func() {
			store, err := Open(Options{Dir: "s", FS: disk})
			if err == nil {
				err = store.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, vfs.ENOSPC) {
				t.Fatalf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: open waits", name)
		}
		disk.SetCapacity(0)
		if err := open(t, Options{Dir: "s", FS: disk}).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDiskIsWaitedFor fills the disk during a checkpoint, which goes on
// when there is room.
func TestFullDiskIsWaitedFor(t *testing.T) {
	mem := vfs.NewMemory()
	var full atomic.Bool
	decide := func(c vfs.Call) (o vfs.Outcome) {
		if full.Load() && c.Kind.Changes() {
			o.Err = vfs.ENOSPC
		}
		return o
	}
	store := open(t, Options{Dir: "s", FS: vfs.Faulty(mem, decide)})
	defer store.Close()
	put(store.Space("a"), 1, "k", []byte("v"))
	full.Store(true)
	mem.SetCapacity(1)
	done := make(chan error)
	go func() { done <- store.Checkpoint(t.Context(), 1, true) }()
	select {
	case err := <-done:
		t.Fatalf("checkpoint on a full disk: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	full.Store(false)
	mem.SetCapacity(0)
	if err := <-done; err != nil || store.Applied() != 1 {
		t.Fatalf("checkpoint after the disk had room: %v, applied %d", err, store.Applied())
	}
}

// TestReadAfterCloseIsAnError reads what is in memory, what is not, and scans.
func TestReadAfterCloseIsAnError(t *testing.T) {
	store, _ := memory(t)
	space := store.Space("a")
	put(space, 1, "k", []byte("v"))
	scanned := 0
	for _, err := range space.Scan(nil) { // Close waits for it, and it may still read
		if err != nil {
			t.Fatal(err)
		}
		scanned++
		closed := make(chan error)
		go func() { closed <- store.Close() }()
		for store.users.enter() == nil {
			store.users.leave()
			runtime.Gosched()
		}
		if _, err := space.Get([]byte("other")); !errors.Is(err, stream.ErrClosed) {
			t.Fatalf("get: %v", err)
		}
		defer func() {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}()
	}
	if scanned != 1 {
		t.Fatalf("%d entries", scanned)
	}
	for _, err := range space.Scan(nil) {
		if !errors.Is(err, stream.ErrClosed) {
			t.Fatalf("scan: %v", err)
		}
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	_, err := Open(Options{MemoryMaxBytes: -1})
	if err == nil || !strings.Contains(err.Error(), "Dir") || !strings.Contains(err.Error(), "negative") {
		t.Fatal(err)
	}
}

// TestMillionKeysAreSmall holds the index and slabs to their share of memory.
func TestMillionKeysAreSmall(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	store := open(t, Options{Dir: t.TempDir()})
	defer store.Close()
	space, key, value := store.Space("a"), make([]byte, 0, 32), make([]byte, 150)
	for i := range n {
		key = fmt.Appendf(key[:0], "user-%d", i)
		space.Apply(1, func(yield func(k, v []byte) bool) { yield(key, value) })
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perKey := float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
	t.Logf("%.0f B a key, counted %.0f", perKey, float64(store.Stats().Bytes)/float64(n))
	if perKey > 350 {
		t.Errorf("%.0f bytes a key, want at most 350", perKey)
	}
}

func BenchmarkApply(b *testing.B) {
	store := open(b, Options{Dir: "s", FS: vfs.NewMemory()})
	defer store.Close()
	space, value := store.Space("a"), make([]byte, 150)
	keys := make([][]byte, 1<<17)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user-%d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		space.Apply(1, func(yield func(k, v []byte) bool) { yield(keys[i%len(keys)], value) })
	}
}

func BenchmarkGet(b *testing.B) {
	store := open(b, Options{Dir: "s", FS: vfs.NewMemory()})
	defer store.Close()
	space, value := store.Space("a"), make([]byte, 150)
	keys := make([][]byte, 1<<17)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user-%d", i)
		put(space, 1, string(keys[i]), value)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if v, err := space.Get(keys[i%len(keys)]); err != nil || len(v) != len(value) {
			b.Fatal(err)
		}
	}
}

var _ io.Closer = (*Store)(nil)

// TestAppliedNeverGoesBack gives a checkpoint the seq of one that was overtaken
// while it waited for its turn.
func TestAppliedNeverGoesBack(t *testing.T) {
	s, _ := memory(t)
	defer s.Close()
	for _, seq := range []uint64{5, 3} {
		if err := s.Checkpoint(t.Context(), seq, true); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Applied(); got != 5 {
		t.Errorf("applied is %d after checkpoints at 5 and 3", got)
	}
}

// TestDamagedCheckpointIsAnErrorOfTheReader flips bytes of the tables: a read
// that meets one returns an error, and the store says that it failed.
func TestDamagedCheckpointIsAnErrorOfTheReader(t *testing.T) {
	disk := vfs.NewMemory()
	store := open(t, Options{Dir: "s", FS: disk})
	for i := range 500 {
		put(store.Space("a"), 1, fmt.Sprint("key", i), fmt.Appendf(nil, "%0500d", i*i*i*i*i))
	}
	if err := errors.Join(store.Checkpoint(t.Context(), 1, true), store.Close()); err != nil {
		t.Fatal(err)
	}
	names, _ := disk.List("s")
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := disk.OpenReadWrite("s/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		info, _ := f.Stat()
		if _, err := f.WriteAt([]byte{1, 2, 3}, info.Size()/3); err != nil {
			t.Fatal(err)
		}
	}
	store = open(t, Options{Dir: "s", FS: disk})
	done := make(chan error, 1)
	go func() {
		defer close(done) // also where the goroutine is ended
		for i := range 500 {
			if _, err := store.Space("a").Get(fmt.Append(nil, "key", i)); err != nil {
				done <- err
				return
			}
		}
	}()
	if err, returned := <-done; err == nil || !returned {
		t.Fatalf("read of a damaged table: returned %v, %v", returned, err)
	}
	if err := store.Err(); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), ".sst") {
		t.Fatalf("the store says %v", err)
	}
	if err := store.Close(); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
}
