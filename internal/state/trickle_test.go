package state

import (
	"context"
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// TestTrickledCheckpointIsWholeAtEveryRest applies changes and crashes in every
// rest of checkpoints. A rest comes after one chunk at most, so that is how long
// an Apply may have to wait; the redo point stays until the end, and what it
// covers is there whatever was handed over since.
func TestTrickledCheckpointIsWholeAtEveryRest(t *testing.T) {
	const keys = 3*chunkCells + 7
	r := newRand(t)
	fs := vfs.NewMemory()
	var store *Store
	var seq, redo, handed uint64
	last := map[string]uint64{}    // frame that changed a key
	covered := map[string]uint64{} // the same, as of the redo point
	change := func(n int) {
		for range n {
			seq++
			space, key := fmt.Sprint("s", r.IntN(2)), fmt.Sprint(r.IntN(keys))
			put(store.Space(space), seq, key, fmt.Append(nil, seq))
			last[space+key] = seq
		}
	}
	rests := 0
	var share float64
	rest := func(_ context.Context, done float64) {
		if n := store.Stats().Handed - handed; n > 256 || done <= share || done >= 1 {
			t.Errorf("%d cells handed over without a rest; share %v after %v", n, done, share)
		}
		rests++
		share = done
		change(r.IntN(40))
		handed = store.Stats().Handed
		if store.Applied() != redo {
			t.Errorf("the redo point is %d before the checkpoint's end, it was %d", store.Applied(), redo)
		}
		after := open(t, Options{Dir: "state", FS: fs.Crash(r)})
		defer after.Close()
		if after.Applied() != redo || after.Seen() > seq {
			t.Errorf("after a crash: redo point %d, seen %d; want %d, at most %d", after.Applied(), after.Seen(), redo, seq)
		}
		for _, space := range []string{"s0", "s1"} {
			for i := range keys {
				value, err := after.Space(space).Get(fmt.Append(nil, i))
				var got uint64
				fmt.Sscan(string(value), &got)
				if key := space + fmt.Sprint(i); err != nil || got < covered[key] || got > last[key] {
					t.Fatalf("after a crash: %s is of frame %d, %v; the redo point %d has frame %d", key, got, err, redo, covered[key])
				}
			}
		}
	}
	store = open(t, Options{Dir: "state", FS: fs, Rest: rest})
	defer store.Close()
	for range 4 {
		change(2 * keys)
		share, handed = 0, store.Stats().Handed
		begun, copied := seq, map[string]uint64{}
		for key, seq := range last {
			copied[key] = seq
		}
		if err := store.Checkpoint(t.Context(), begun, false); err != nil {
			t.Fatal(err)
		}
		if redo, covered = begun, copied; store.Applied() != redo {
			t.Fatalf("redo point %d, want %d", store.Applied(), redo)
		}
	}
	if rests < 4*2 {
		t.Fatalf("%d rests", rests)
	}
}

// TestCheckpointDoesNotRestWhileMemoryIsOverItsLimit has nothing to evict but
// what is handed over.
func TestCheckpointDoesNotRestWhileMemoryIsOverItsLimit(t *testing.T) {
	const limit = 160 << 10
	rests := 0
	rest := func(context.Context, float64) { rests++ }
	store := open(t, Options{Dir: "state", FS: vfs.NewMemory(), MemoryMaxBytes: limit, Rest: rest})
	defer store.Close()
	space := store.Space("s")
	for i := range 8 * chunkCells {
		put(space, 1, fmt.Sprint(i), make([]byte, 100))
	}
	if used := store.Stats().Bytes; used <= limit || used >= 2*limit {
		t.Fatalf("%d bytes of cells", used)
	}
	if err := store.Checkpoint(t.Context(), 1, false); err != nil || rests > 0 {
		t.Fatalf("%d rests, %v", rests, err)
	}
}
