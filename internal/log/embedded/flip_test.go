package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// What became of a flipped bit. The order is that of the columns.
const (
	flipNothing = "no effect" // all is there, to the byte
	flipOpen    = "Open refuses"
	flipRead    = "a read is refused" // and all else is there
	flipCut     = "newest frame cut, reported"
	flipLost    = "SILENT LOSS"
)

var flipOutcomes = []string{flipNothing, flipOpen, flipRead, flipCut, flipLost}

// flipped is a directory and what it held.
type flipped struct {
	name   string
	disk   *vfs.Memory
	state  string
	all    map[stream.Partition][]string // from first on
	first  map[stream.Partition]stream.Offset
	newest uint64
	meta   meta
	last   string // segment written last
	closed bool
}

// flipDirectory makes a directory with sealed and written segments, indexes and
// a checkpoint: of a process that was killed, where the checkpoint lacks the
// newest frames, or of one that closed its log, whose oldest segments were
// retired. It was opened three times, so that the checkpoint's MANIFEST lists
// tables and what became of them.
func flipDirectory(t *testing.T, rng *rand.Rand, closed bool) *flipped {
	t.Helper()
	disk := vfs.NewMemory()
	o := crashOptions(disk)
	o.CheckpointBytes = 1 << 40
	if closed {
		o.RetainBytes = 3 * o.SegmentBytes
	}
	h := &history{log: newLog(t, o), rng: rng}
	for range 2 {
		h.run(t, 8)
		h.sess.Close()
		if err := h.log.Close(); err != nil {
			t.Fatal(err)
		}
		h.log = mustOpen(t, o)
	}
	h.run(t, 60)
	if err := h.log.store.Checkpoint(t.Context(), h.log.applied.Load(), true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "indexes", func() bool { names, _ := disk.List("data/idx"); return len(names) > 0 })
	h.sess.Close()
	if closed {
		fillSegments(t, h.log, 3)
		if err := h.log.store.Checkpoint(t.Context(), h.log.applied.Load(), true); err != nil {
			t.Fatal(err)
		}
		eventually(t, "retention", func() bool { signal(h.log.kick); return h.log.Stats().RetiredSegments > 0 })
	}
	h.run(t, 12)
	h.sess.Close()
	l := h.log
	d := &flipped{name: "killed", disk: disk.Crash(nil), state: dumpState(t, l), all: map[stream.Partition][]string{}, first: map[stream.Partition]stream.Offset{}, newest: l.applied.Load()}
	for _, p := range partitions(t, l) {
		d.first[p] = l.topics[p.Topic].parts[p.Index].first()
		d.all[p] = values(t, l, p, d.first[p])
	}
	d.last = l.segments[len(l.segments)-1].path
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if closed {
		d.name, d.disk, d.closed = "closed", disk, true
	}
	var err error
	if d.meta, _, err = readMeta(d.disk, "data"); err != nil {
		t.Fatal(err)
	}
	return d
}

// classes returns, for each byte of a file, what it is.
func (d *flipped) classes(path string, b []byte) func(int) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case base == metaName, base == metaCopyName, base == "LOCK":
		return func(int) string { return base }
	case strings.HasSuffix(base, ".idx"):
		return func(int) string { return "index" }
	case strings.HasSuffix(base, spareSuffix):
		return func(int) string { return "spare" }
	case strings.Contains(path, "/state/"):
		kind := strings.TrimRight(strings.Split(base, "-")[0], "0123456789")
		if strings.HasSuffix(base, ".sst") {
			kind = "table"
		}
		return func(int) string { return "checkpoint: " + kind }
	}
	classes := make([]string, len(b))
	pos := 0
	for pos < len(b) {
		f, n, err := parseFrame(b[pos:], d.meta.salt)
		if err != nil {
			break
		}
		which := "frame"
		if path == d.last && f.seq == d.newest {
			which = "newest frame"
		}
		for i := range n {
			classes[pos+i] = which + ": " + frameClass(&f, i)
		}
		pos += n
	}
	return func(i int) string {
		if i < pos {
			return classes[i]
		}
		return "behind the frames"
	}
}

func frameClass(f *frame, i int) string {
	switch {
	case i < 4:
		return "length"
	case i < 8:
		return "CRC"
	case i < frameHeader:
		return "rest of header"
	case i >= f.length:
		return "padding"
	}
	i -= frameHeader
	for _, s := range f.body {
		if i < sectionHeader {
			return "section header"
		}
		i -= sectionHeader + len(s.payload)
		if i < 0 {
			break
		}
	}
	return "payload"
}

// try flips one bit and reports what became of the directory.
func (d *flipped) try(t *testing.T, path string, at int, bit byte) string {
	t.Helper()
	disk := d.disk.Copy()
	f, err := disk.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	f.ReadAt(b[:], int64(at))
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], int64(at)); err != nil {
		t.Fatal(err)
	}
	o := crashOptions(disk)
	o.RingBytes = 1 // all reads are of the disk
	l, err := Open("data", o)
	if err != nil {
		if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), "afterbay doctor data") {
			t.Errorf("%s: byte %d of %s: %v names no file, or nothing to do", d.name, at, path, err)
		}
		return flipOpen
	}
	defer l.Close()
	defer wear(t, l, path)
	if isMeta := strings.HasPrefix(d.disk.PathBase(path), metaName); isMeta != (l.Recovery().LostMeta == path) {
		t.Errorf("%s: byte %d of %s: Open says that it lost %q", d.name, at, path, l.Recovery().LostMeta)
	}
	whole, err := d.compare(l)
	switch {
	case whole && err != nil:
		return flipRead
	case whole:
		return flipNothing
	case err == nil && !d.closed && l.Recovery().CutSeq == d.newest && l.applied.Load() == d.newest-1:
		return flipCut
	}
	return flipLost
}

// wear goes on with a log after a flip in its checkpoint until the database
// merged its tables: neither that nor a read may end the process.
func wear(t *testing.T, l *Log, path string) {
	if !strings.Contains(path, "/state/MANIFEST") {
		return
	}
	for i := range 4 {
		appendValues(t, l, events, fmt.Sprint("wear ", i))
		if err := l.store.Checkpoint(t.Context(), l.applied.Load(), true); err != nil {
			t.Errorf("after a flip in %s: %v", path, err)
		}
	}
}

// compare reads everything, and reports whether it is what the log held, up to
// the first read that was refused.
func (d *flipped) compare(l *Log) (whole bool, err error) {
	for p, want := range d.all {
		got, err := tryValues(l, p, d.first[p])
		if err != nil {
			return len(got) < len(want) && slices.Equal(got, want[:len(got)]), err
		}
		if !slices.Equal(got, want) {
			return false, nil
		}
	}
	state, err := readState(slices.SortedFunc(maps.Keys(d.all), comparePartitions), l)
	return err != nil || state == d.state, err
}

// tryValues reads p from an offset on until a read is refused.
func tryValues(l *Log, p stream.Partition, from stream.Offset) (got []string, err error) {
	first, next, err := l.Offsets(context.Background(), p)
	if err != nil || first > from {
		return nil, nil // less than there was
	}
	c, err := l.newCursor(p, from, make(chan struct{}, 1))
	if err != nil {
		return nil, err
	}
	defer c.close()
	records, err := c.read(nil, int(next-from))
	for _, r := range records {
		got = append(got, content(&r))
	}
	return got, err
}

// place of a byte.
type bytePlace struct {
	path string
	at   int
}

// places returns the bytes of the directory by class.
func (d *flipped) places(t *testing.T) map[string][]bytePlace {
	t.Helper()
	by := map[string][]bytePlace{}
	for _, dir := range []string{"data", "data/log", "data/idx", "data/state"} {
		names, err := d.disk.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := dir + "/" + name
			if info, err := d.disk.Stat(path); err != nil || info.IsDir() {
				continue
			}
			b, err := vfs.ReadFile(d.disk, path)
			if err != nil {
				t.Fatal(err)
			}
			class := d.classes(path, b)
			for i := range b {
				by[class(i)] = append(by[class(i)], bytePlace{path, i})
			}
		}
	}
	return by
}

// TestFlippedBitIsNeverASilentLoss flips a bit of each class of bytes, of the
// directory of a process that was killed and of one that closed its log. Only
// the newest frame of the first may be missing then, and Open says so.
func TestFlippedBitIsNeverASilentLoss(t *testing.T) {
	r := newRand(t)
	for _, closed := range []bool{false, true} {
		d := flipDirectory(t, r, closed)
		by := d.places(t)
		t.Logf("| bytes of a directory that was %s | flips | %s |", d.name, strings.Join(flipOutcomes, " | "))
		for _, class := range slices.Sorted(maps.Keys(by)) {
			places := by[class]
			r.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
			most := 120
			switch {
			case *allPlaces && class != "spare" && class != "behind the frames":
				most = len(places)
			case *allPlaces:
				most = 4000
			}
			row, n := map[string]int{}, min(most, len(places))
			for _, at := range places[:n] {
				bit := byte(r.IntN(8))
				outcome := d.try(t, at.path, at.at, bit)
				row[outcome]++
				newest := strings.HasPrefix(class, "newest")
				if outcome == flipLost || outcome != flipNothing && strings.HasPrefix(class, metaName) || outcome == flipCut && (d.closed || !newest) || outcome == flipNothing && newest && !strings.HasSuffix(class, "padding") {
					t.Errorf("%s: bit %d of byte %d of %s (%s): %s", d.name, bit, at.at, at.path, class, outcome)
				}
			}
			line := fmt.Sprintf("| %s | %d", class, n)
			for _, o := range flipOutcomes {
				line += fmt.Sprintf(" | %d", row[o])
			}
			t.Log(line + " |")
		}
	}
}

// TestFirstFrameIsReportedWhereItIsCut flips each bit of the header of a frame
// that no other precedes.
func TestFirstFrameIsReportedWhereItIsCut(t *testing.T) {
	disk := vfs.NewMemory()
	l := mustOpen(t, small(disk))
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "events", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	crashed := disk.Crash(nil)
	l.Close()
	for bit := range 8 * frameHeader {
		fs := crashed.Copy()
		_, b := framesOf(t, fs, firstSegment)
		b[bit/8] ^= 1 << (bit % 8)
		overwrite(t, fs, firstSegment, b)
		l := mustOpen(t, small(fs))
		if topics, _ := l.Topics(t.Context()); len(topics) != 0 || l.Recovery().CutSeq != 1 {
			t.Fatalf("bit %d: %d topics, %+v", bit, len(topics), l.Recovery())
		}
		l.Close()
	}
}

// TestManifestWithoutItsEndIsRefused flips each bit of the second record of the
// MANIFEST of a log that was opened twice, and cuts all but the first: it lists
// tables, and not which sequence numbers they have.
func TestManifestWithoutItsEndIsRefused(t *testing.T) {
	disk := vfs.NewMemory()
	o := small(disk)
	o.CheckpointBytes = 1 << 40
	var crashed *vfs.Memory
	for range 2 {
		l := mustOpen(t, o)
		create(t, l, 1)
		appendValues(t, l, events, "a", "b")
		if err := l.store.Checkpoint(t.Context(), l.applied.Load(), true); err != nil {
			t.Fatal(err)
		}
		crashed = disk.Crash(nil)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	desc, err := pebble.Peek("data/state", crashed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(crashed, desc.ManifestFilename)
	if err != nil {
		t.Fatal(err)
	}
	after := func(at int) int { return at + 7 + int(binary.LittleEndian.Uint16(b[at+4:])) } // a header and its bytes
	second := after(0)
	for bit := range 8 * (after(second) - second) {
		fs, flipped := crashed.Copy(), slices.Clone(b)
		if flipped[second+bit/8] ^= 1 << (bit % 8); bit == 0 {
			flipped = flipped[:second]
		}
		if err := writeFile(fs, desc.ManifestFilename, flipped); err != nil {
			t.Fatal(err)
		}
		damage := (*DamageError)(nil)
		if l, err := Open("data", small(fs)); err == nil {
			l.Close()
			t.Fatalf("bit %d: the log opens", bit)
		} else if !errors.As(err, &damage) || damage.Path != desc.ManifestFilename || damage.Offset != int64(second) {
			t.Fatalf("bit %d: %v", bit, err)
		}
		report, err := check(small(fs).withDefaults(), "data")
		if err != nil || len(report.Damage) != 1 || report.Damage[0].Path != desc.ManifestFilename || len(report.Remedies) != 1 || report.Remedies[0].LostFrames > 0 {
			t.Fatalf("bit %d: Check says %+v, %v", bit, report, err)
		}
	}
}
