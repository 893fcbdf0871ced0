package state

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

var allPlaces = flag.Bool("all", false, "break bytes everywhere, not at a sample of places")

// chronicle is a store and what it held after each frame.
type chronicle struct {
	disk   *vfs.Memory
	values []map[string]string // by frame
}

// newChronicle makes a store that was opened some times, with checkpoints in
// each, and was killed after the last, before Pebble merged tables.
func newChronicle(t testing.TB, opened, checkpoints int) *chronicle {
	t.Helper()
	disk := vfs.NewMemory()
	c := &chronicle{disk: disk, values: []map[string]string{{}}}
	for range opened {
		store := open(t, Options{Dir: "s", FS: disk})
		for range checkpoints {
			c.goOn(t, store, 4, store.Applied())
			c.disk = disk.Crash(nil)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// goOn applies the frames up to n after the newest, from frame after on, and
// makes a checkpoint.
func (c *chronicle) goOn(t testing.TB, store *Store, n int, after uint64) {
	t.Helper()
	for last := len(c.values) + n; len(c.values) < last; {
		next, seq := maps.Clone(c.values[len(c.values)-1]), len(c.values)
		next[fmt.Sprint("k", seq%7)] = fmt.Sprint("value ", seq)
		c.values = append(c.values, next)
	}
	for seq := after + 1; seq < uint64(len(c.values)); seq++ {
		put(store.Space("a"), seq, fmt.Sprint("k", seq%7), fmt.Append(nil, "value ", seq))
	}
	if err := store.Checkpoint(t.Context(), uint64(len(c.values)-1), true); err != nil {
		t.Fatal(err)
	}
}

// use opens a store on disk, whose values must be those of the frame that it
// says, and goes on with it until Pebble merged all tables. It returns false
// where the store is damaged.
func (c *chronicle) use(t testing.TB, disk *vfs.Memory, what string) bool {
	t.Helper()
	store, err := Open(Options{Dir: "s", FS: disk})
	if damage := (*DamageError)(nil); err != nil {
		if !errors.As(err, &damage) || !strings.HasPrefix(damage.Path, "s") {
			t.Errorf("%s: %v is no damage of a file", what, err)
		}
		return false
	}
	defer store.Close()
	if got := valuesOf(t, store); !maps.Equal(got, c.values[store.Applied()]) {
		t.Errorf("%s: at frame %d the values are %v", what, store.Applied(), got)
	}
	own := &chronicle{disk: disk, values: slices.Clone(c.values)}
	for range 9 {
		own.goOn(t, store, 4, store.Applied())
		if got := valuesOf(t, store); !maps.Equal(got, own.values[store.Applied()]) {
			t.Errorf("%s: gone on to frame %d the values are %v", what, store.Applied(), got)
		}
	}
	if err := store.db.Compact(context.Background(), []byte{0}, []byte{255}, false); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if got := valuesOf(t, store); !maps.Equal(got, own.values[len(own.values)-1]) {
		t.Errorf("%s: in the end the values are %v", what, got)
	}
	return true
}

func valuesOf(t testing.TB, store *Store) map[string]string {
	t.Helper()
	values := map[string]string{}
	for e, err := range store.Space("a").Scan(nil) {
		if err != nil {
			t.Fatal(err)
		}
		values[string(e.Key)] = string(e.Value)
	}
	return values
}

// manifest returns the path of the MANIFEST and its bytes.
func (c *chronicle) manifest(t testing.TB) (string, []byte) {
	t.Helper()
	desc, err := pebble.Peek("s", c.disk)
	if err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(c.disk, desc.ManifestFilename)
	if err != nil {
		t.Fatal(err)
	}
	return desc.ManifestFilename, b
}

// with returns a copy of the disk with another file at path.
func (c *chronicle) with(t testing.TB, path string, b []byte) *vfs.Memory {
	t.Helper()
	disk := c.disk.Copy()
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Clone(b))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return disk
}

// TestFlippedManifestIsRefusedOrAnEarlierCheckpoint flips bits of the MANIFEST
// of stores that were opened once to four times. Only in its newest record may
// one pass for an interrupted write, and the store is that of the checkpoint
// before then; or it is refused, as that needs tables that are gone.
func TestFlippedManifestIsRefusedOrAnEarlierCheckpoint(t *testing.T) {
	r := newRand(t)
	for i := range 8 {
		opened, checkpoints := 1+i/2, 1+i%2*2
		c := newChronicle(t, opened, checkpoints)
		path, b := c.manifest(t)
		newest := 0
		for pos := 0; pos < len(b); {
			newest = pos
			_, pos = manifestRecord(b, pos)
		}
		for at := range b {
			if !*allPlaces && at != newest-1 && r.IntN(8) > 0 {
				continue
			}
			flipped := slices.Clone(b)
			flipped[at] ^= 1 << r.IntN(8)
			what := fmt.Sprintf("opened %d times, byte %d of %s", opened, at, path)
			if c.use(t, c.with(t, path, flipped), what) && at < newest {
				t.Errorf("%s opens; its newest record begins at byte %d", what, newest)
			}
		}
	}
}

// TestCutManifestIsRefusedOrAnEarlierCheckpoint ends the MANIFEST at each
// record, and in it, and leaves nothing behind or zeros.
func TestCutManifestIsRefusedOrAnEarlierCheckpoint(t *testing.T) {
	r := newRand(t)
	for i := range 8 {
		opened, checkpoints := 1+i/2, 1+i%2*2
		c := newChronicle(t, opened, checkpoints)
		path, b := c.manifest(t)
		for pos, records := 0, 0; pos < len(b); records++ {
			_, next := manifestRecord(b, pos)
			for _, end := range []int{pos, pos + 1 + r.IntN(next-pos-1)} {
				what := fmt.Sprintf("opened %d times, %s ends at byte %d", opened, path, end)
				zeros := append(slices.Clone(b[:end]), make([]byte, len(b)-end)...)
				opens := c.use(t, c.with(t, path, b[:end]), what)
				zeroed := opens // the record may end in zeros
				if !bytes.Equal(zeros[:next], b[:next]) {
					zeroed = c.use(t, c.with(t, path, zeros), what+" in zeros")
				}
				if opens != zeroed || opens && (records == 0 || records == 1 && opened > 1) || !opens && records == 1 && opened == 1 {
					t.Errorf("%s, after %d records: opens %v, in zeros %v", what, records, opens, zeroed)
				}
			}
			pos = next
		}
		if !c.use(t, c.with(t, path, b), "whole") {
			t.Errorf("opened %d times, whole: refused", opened)
		}
	}
}

// TestLongRecordsOfAManifestAreRead writes records over blocks and up to each of
// their last bytes.
func TestLongRecordsOfAManifestAreRead(t *testing.T) {
	disk := vfs.NewMemory()
	f, err := disk.Create("m", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{1, 3*manifestBlock + 5}
	for left := range 12 {
		sizes = append(sizes, -left, 100)
	}
	written := writeRecords(t, f, sizes)
	b, err := vfs.ReadFile(disk, "m")
	if err != nil {
		t.Fatal(err)
	}
	pos := 0
	for i, want := range written {
		edit, next := manifestRecord(b, pos)
		if next == 0 || string(edit) != want {
			t.Fatalf("record %d at byte %d: %d bytes, want %d", i, pos, len(edit), len(want))
		}
		pos = next
	}
	if pos != len(b) {
		t.Errorf("the records end at byte %d of %d", pos, len(b))
	}
}

// writeRecords writes records as Pebble does: one of a negative size ends so
// many bytes before that of a block.
func writeRecords(t *testing.T, f vfs.File, sizes []int) (written []string) {
	t.Helper()
	w := record.NewWriter(f)
	for i, size := range sizes {
		if size <= 0 {
			size += manifestBlock - chunkHeader - int(w.Size())%manifestBlock
		}
		if size < 0 {
			size += manifestBlock
		}
		written = append(written, strings.Repeat(string(rune('a'+i%26)), size))
		if _, err := w.WriteRecord([]byte(written[i])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return written
}

// TestDamagedCheckpointDoesNotEndTheProcess opens and uses, in a process of its
// own, each file of a store with bytes changed and cut.
func TestDamagedCheckpointDoesNotEndTheProcess(t *testing.T) {
	if os.Getenv("AFTERBAY_DAMAGE") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprint("-seed=", rand.Uint64()>>1))
		cmd.Env = append(os.Environ(), "AFTERBAY_DAMAGE=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	r := newRand(t)
	c := newChronicle(t, 2, 1)
	names, err := c.disk.List("s")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		path := "s/" + name
		b, err := vfs.ReadFile(c.disk, path)
		if err != nil {
			t.Fatal(err)
		}
		step := max(1, len(b)/40)
		if strings.HasPrefix(name, "MANIFEST") {
			step = 1
		}
		for at := 0; at < len(b); at += 1 + r.IntN(2*step-1) {
			flipped := slices.Clone(b)
			flipped[at] ^= 1 << r.IntN(8)
			wear(t, c.with(t, path, flipped))
			wear(t, c.with(t, path, b[:r.IntN(len(b))]))
		}
		gone := c.disk.Copy()
		if err := gone.Remove(path); err != nil {
			t.Fatal(err)
		}
		wear(t, gone)
	}
}

// wear makes Pebble read and merge all tables of a store that may be damaged. It
// writes as a chronicle does, so that what is given out twice meets.
func wear(t *testing.T, disk *vfs.Memory) {
	store, err := Open(Options{Dir: "s", FS: disk})
	if err != nil {
		return
	}
	defer store.Close()
	for seq, last := store.Applied()+1, store.Applied()+80; seq < last; seq++ {
		put(store.Space("a"), seq, fmt.Sprint("k", seq%7), []byte("later"))
		if seq%4 == 0 && store.Checkpoint(t.Context(), seq, true) != nil {
			return
		}
	}
}
