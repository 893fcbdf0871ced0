package state

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"unsafe"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

func TestFilterHasAllThatWasAddedAndLittleElse(t *testing.T) {
	r := newRand(t)
	var f filter
	bytes := int64(0)
	added := make([]uint64, 300_000)
	for i := range added {
		added[i] = r.Uint64()
		bytes += f.add(added[i])
	}
	for _, hash := range added {
		if !f.has(hash) {
			t.Fatalf("%x was added and is not there", hash)
		}
	}
	wrong := 0
	for range added {
		if f.has(r.Uint64()) {
			wrong++
		}
	}
	if share := float64(wrong) / float64(len(added)); share > 0.03 {
		t.Errorf("%.3f of the hashes that were not added are there", share)
	}
	if per := float64(bytes) / float64(len(added)); per > 6 {
		t.Errorf("%.1f bytes a hash", per)
	}
	before := len(f.layers)
	for _, hash := range added {
		bytes += f.add(hash)
	}
	if len(f.layers) != before {
		t.Error("what is there was added again")
	}
}

// TestNewKeysCostNoSearch reads keys that never were there, of a space that was
// evicted from, and all that were.
func TestNewKeysCostNoSearch(t *testing.T) {
	fs := vfs.NewMemory()
	store := open(t, Options{Dir: "s", FS: fs, MemoryMaxBytes: 64 << 10})
	space := store.Space("a")
	for seq := uint64(1); seq <= 3000; seq++ {
		put(space, seq, fmt.Sprint("key", seq), []byte("value"))
		if seq%100 == 0 {
			if err := store.Checkpoint(t.Context(), seq, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	get := func(space *Space, from, to int) (found int) {
		for i := from; i <= to; i++ {
			value, err := space.Get(fmt.Append(nil, "key", i))
			if err != nil {
				t.Fatal(err)
			}
			if value != nil {
				found++
			}
		}
		return found
	}
	if found := get(space, 3001, 6000); found != 0 {
		t.Fatalf("%d keys that are not there were found", found)
	}
	if st := store.Stats(); st.Misses > 150 || st.Absent < 2850 {
		t.Errorf("%d of 3000 reads of new keys searched the checkpoint, %d did not", st.Misses, st.Absent)
	}
	if found := get(space, 1, 3000); found != 3000 {
		t.Fatalf("%d of 3000 keys were found", found)
	}
	if err := store.Checkpoint(context.Background(), 3000, true); err != nil {
		t.Fatal(err)
	}
	store.Close()
	store = open(t, Options{Dir: "s", FS: fs})
	defer store.Close()
	if found := get(store.Space("a"), 1, 3000); found != 3000 {
		t.Fatalf("%d of 3000 keys were found after a restart", found)
	}
}

// TestMemoryIsWhatIsAccounted lets most values outgrow their slots, and compares
// the bytes counted with those that chunks, cells and index take.
func TestMemoryIsWhatIsAccounted(t *testing.T) {
	const keys = 50_000
	r := newRand(t)
	store, _ := memory(t)
	defer store.Close()
	space := store.Space("a")
	want := make([][]byte, keys)
	for round := range 6 {
		for i := range keys {
			if round == 0 || i%5 > 0 {
				want[i] = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 10+round*12+r.IntN(10))
				put(space, uint64(round*keys+i+1), fmt.Sprint("key", i), want[i])
			}
		}
		counted := store.Stats().Bytes
		taken := int64(space.table.slab.total + len(space.table.pages)*int(unsafe.Sizeof(page{})) + 4*len(space.table.index))
		if ratio := float64(taken) / float64(counted); ratio > 1.45 || ratio < 0.8 {
			t.Errorf("round %d: %d bytes are counted, %d taken", round, counted, taken)
		}
	}
	for i := range keys {
		if value, err := space.Get(fmt.Append(nil, "key", i)); err != nil || !bytes.Equal(value, want[i]) {
			t.Fatalf("key%d is %x, %v, want %x", i, value, err, want[i])
		}
	}
}
