package embedded

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// patient is a directory, and every frame that was ever in its log.
type patient struct {
	*flipped
	frames map[uint64][]byte
	dumps  map[uint64]string // by newest frame
}

// newPatient makes a directory as flipDirectory does, of a process that was
// killed or that closed its log, whole or with its oldest segments retired.
func newPatient(t *testing.T, r *rand.Rand, closed, retired bool) *patient {
	t.Helper()
	disk := vfs.NewMemory()
	o := crashOptions(disk)
	o.CheckpointBytes = 1 << 40
	h := &history{log: newLog(t, o), rng: r}
	h.run(t, 60)
	h.sess.Close()
	fillSegments(t, h.log, 3)
	if err := h.log.Close(); err != nil {
		t.Fatal(err)
	}
	p := &patient{flipped: &flipped{closed: closed}, frames: map[uint64][]byte{}, dumps: map[uint64]string{}}
	p.collect(t, disk)
	if retired {
		o.RetainBytes = 3 * o.SegmentBytes
	}
	h.log = mustOpen(t, o)
	if retired {
		eventually(t, "retention", func() bool { signal(h.log.kick); return h.log.Stats().RetiredSegments > 0 })
		// What follows reads the whole log: nothing may be let go meanwhile.
		if err := h.log.Close(); err != nil {
			t.Fatal(err)
		}
		o.RetainBytes = 0
		h.log = mustOpen(t, o)
	}
	h.run(t, 30)
	h.sess.Close()
	p.disk = disk.Crash(nil)
	if err := h.log.Close(); err != nil {
		t.Fatal(err)
	}
	if closed {
		p.disk = disk.Copy()
	}
	p.collect(t, p.disk)
	p.newest = uint64(len(p.frames))
	return p
}

// collect keeps the frames on a disk.
func (p *patient) collect(t *testing.T, disk *vfs.Memory) {
	t.Helper()
	var err error
	if p.meta, _, err = readMeta(disk, "data"); err != nil {
		t.Fatal(err)
	}
	l := &Log{directory: directory{dir: "data"}, opts: Options{fs: disk}}
	if _, err := (&opener{l}).list(); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.segments {
		positions, b := framesOf(t, disk, s.path)
		for i, pos := range positions {
			if h := parseHeader(b[pos:]); h.seq == s.first+uint64(i) {
				p.frames[h.seq] = slices.Clone(b[pos : pos+align(h.length)])
				p.last = s.path
			}
		}
	}
}

// fold returns what frames 1 to last make of an empty directory.
func (p *patient) fold(t *testing.T, last uint64) (records map[stream.Partition][]string, state string) {
	t.Helper()
	disk := vfs.NewMemory()
	if err := errors.Join(disk.MkdirAll("data/log", 0o755), p.foldMeta().write(disk, "data")); err != nil {
		t.Fatal(err)
	}
	var b []byte
	for seq := uint64(1); seq <= last; seq++ {
		f, _, err := parseFrame(p.frames[seq], p.meta.salt)
		if err != nil {
			t.Fatal(err)
		}
		f.epoch = 7 // those of retired frames are forgotten
		b = append(b, sealFrame(slices.Clone(p.frames[seq][:f.length]), f.header, p.meta.salt)...)
	}
	overwrite(t, disk, firstSegment, append(b, make([]byte, 1<<10)...))
	l := mustOpen(t, crashOptions(disk))
	defer l.Close()
	if l.applied.Load() != last {
		t.Fatalf("folded %d of %d frames", l.applied.Load(), last)
	}
	records = map[stream.Partition][]string{}
	for _, part := range partitions(t, l) {
		records[part] = values(t, l, part, 0)
	}
	return records, dumpState(t, l)
}

func (p *patient) foldMeta() *meta {
	return &meta{Format: metaFormat, Log: p.meta.Log, Epochs: []epoch{{1, 7}}, salt: p.meta.salt}
}

// try flips a bit, and sees what Check says of it and what Cut makes of it.
// It returns a word for what was done.
func (p *patient) try(t *testing.T, path string, at int, bit byte) string {
	t.Helper()
	disk := p.disk.Copy()
	b, err := vfs.ReadFile(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1 << bit
	overwrite(t, disk, path, b)
	report := p.examine(t, disk)
	outcome := flipOpen
	if report.Healthy { // else the open may end in a panic of the database, in a goroutine of its own
		outcome = p.tryOn(t, disk)
	}
	switch {
	case report.Healthy && (outcome == flipNothing || outcome == flipCut):
		return "healthy"
	case report.Healthy:
		t.Errorf("byte %d of %s: %s, but Check finds nothing", at, path, outcome)
		return "missed"
	case len(report.Remedies) == 0 && len(report.Stuck) == 0:
		t.Errorf("byte %d of %s: no remedy, and no reason", at, path)
	case len(report.Remedies) == 0:
		return "stuck"
	}
	for _, r := range report.Remedies {
		p.cutAndUse(t, disk.Copy(), r)
	}
	r := report.Remedies[0]
	switch {
	case r.LostFrames == 0:
		return "nothing lost"
	case r.Last == p.newest:
		return "oldest cut"
	case r.First > r.Last:
		return "all frames cut"
	}
	return "newest cut"
}

// examine checks a disk, which must not change.
func (p *patient) examine(t *testing.T, disk *vfs.Memory) *Report {
	t.Helper()
	before := contentsOf(t, disk)
	report, err := check(crashOptions(disk).withDefaults(), "data")
	if err != nil {
		t.Fatal(err)
	}
	if after := contentsOf(t, disk); !maps.Equal(before, after) {
		t.Fatal("Check changed the directory")
	}
	return report
}

// tryOn says what an open of the disk, all reads and a close end with.
func (d *flipped) tryOn(t *testing.T, disk *vfs.Memory) string {
	t.Helper()
	o := crashOptions(disk)
	o.RingBytes = 1
	l, err := Open("data", o)
	if err != nil {
		return flipOpen
	}
	defer l.Close()
	for _, part := range partitions(t, l) {
		first, _, _ := l.Offsets(t.Context(), part)
		if _, err := tryValues(l, part, first); err != nil {
			return flipRead
		}
	}
	switch _, err := readState(partitions(t, l), l); {
	case err != nil:
		return flipRead
	case l.applied.Load() == d.newest:
		return flipNothing
	case l.Recovery().CutSeq == d.newest:
		return flipCut
	}
	return flipLost
}

// contentsOf returns the files of a directory but for the lock.
func contentsOf(t *testing.T, disk *vfs.Memory) map[string]string {
	t.Helper()
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		names, err := disk.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := dir + "/" + name
			if info, err := disk.Stat(path); err != nil {
				t.Fatal(err)
			} else if info.IsDir() {
				walk(path)
			} else if name != "LOCK" {
				b, err := vfs.ReadFile(disk, path)
				if err != nil {
					t.Fatal(err)
				}
				files[path] = string(b)
			}
		}
	}
	walk("data")
	return files
}

const cutFolder = "cut-1"

// cutAndUse applies a remedy: the log holds what a fold of the frames that it
// kept holds, takes appends and steps, and what was cut is in the folder.
func (p *patient) cutAndUse(t *testing.T, disk *vfs.Memory, r Remedy) {
	t.Helper()
	before := contentsOf(t, disk)
	o := crashOptions(disk)
	if err := cut(o.withDefaults(), "data", r, cutFolder); err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	p.checkKept(t, disk, before)
	if report := p.examine(t, disk); !report.Healthy {
		t.Fatalf("%+v: damaged after it: %+v", r, report.Damage)
	}
	if err := cut(o.withDefaults(), "data", r, "cut-2"); !errors.Is(err, ErrNoRemedy) {
		t.Fatalf("cut twice: %v", err)
	}
	p.mustHold(t, disk.Crash(nil), r)
	p.mustHold(t, disk, r)
}

// checkKept sees that no bytes are gone.
func (p *patient) checkKept(t *testing.T, disk *vfs.Memory, before map[string]string) {
	t.Helper()
	after := contentsOf(t, disk)
	for path, text := range before {
		saved := strings.Replace(path, "data/", "data/"+cutFolder+"/", 1)
		if after[path] != text && after[saved] != text {
			t.Fatalf("%s is neither in its place nor in the folder", path)
		}
	}
}

func (p *patient) mustHold(t *testing.T, disk *vfs.Memory, r Remedy) {
	t.Helper()
	records, state := p.fold(t, r.Last)
	l := mustOpen(t, crashOptions(disk))
	defer l.Close()
	if l.applied.Load() != r.Last {
		t.Fatalf("%+v: %d frames are applied", r, l.applied.Load())
	}
	if got := dumpState(t, l); got != state {
		t.Fatalf("%+v: the state is\n%s\nwant\n%s", r, got, state)
	}
	for part, want := range records {
		first, next, err := l.Offsets(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		if got := values(t, l, part, first); int(next) != len(want) || !slices.Equal(got, want[first:]) {
			t.Fatalf("%+v: %v holds other records from %d on", r, part, first)
		}
	}
	create(t, l, 1) // the cut may be before it
	appendValues(t, l, events, "after the cut")
	s, _ := join(t, l)
	defer s.Close()
	if err := commit(t, s, step(stream.Offset(len(records[events])+1), "a step")); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorRepairsOrRefusesEachFlip flips bits of each class of bytes. What
// Open or a read refuses Check finds; each remedy makes a log that is a fold of
// the frames it kept, and works.
func TestDoctorRepairsOrRefusesEachFlip(t *testing.T) {
	r := newRand(t)
	for i := range 4 {
		closed, retired := i&1 != 0, i&2 != 0
		p := newPatient(t, r, closed, retired)
		by := p.places(t)
		for _, class := range slices.Sorted(maps.Keys(by)) {
			places, row := by[class], map[string]int{}
			tries := 3
			if *allPlaces {
				tries = 60
			}
			for range min(tries, len(places)) {
				at := places[r.IntN(len(places))]
				row[p.try(t, at.path, at.at, byte(r.IntN(8)))]++
			}
			t.Logf("closed %v, retired %v: %s: %v", closed, retired, class, row)
		}
	}
}

// TestDoctorFindsWhatIsMissing takes away segments, all of them, and names.
func TestDoctorFindsWhatIsMissing(t *testing.T) {
	r := newRand(t)
	for i := range 4 {
		p := newPatient(t, r, i&1 != 0, i&2 != 0)
		l := &Log{directory: directory{dir: "data"}, opts: Options{fs: p.disk}}
		if _, err := (&opener{l}).list(); err != nil {
			t.Fatal(err)
		}
		for _, s := range l.segments {
			disk := p.disk.Copy()
			if err := disk.Remove(s.path); err != nil {
				t.Fatal(err)
			}
			oldest, newest := s == l.segments[0], s == l.segments[len(l.segments)-1]
			if (oldest || newest && !p.closed) && p.examine(t, disk).Healthy {
				continue // as retention leaves it, or as before it was begun
			}
			p.cutAll(t, disk, "segment "+s.path)
			disk = p.disk.Copy()
			if err := disk.Rename(s.path, "data/log/99"+spareSuffix); err != nil {
				t.Fatal(err)
			}
			if oldest && p.examine(t, disk).Healthy {
				continue
			}
			report := p.cutAll(t, disk, "name of "+s.path)
			if newest && report.Remedies[0].LostFrames > 0 {
				t.Errorf("the name of the last segment alone is gone: %+v", report.Remedies[0])
			}
		}
		disk := p.disk.Copy()
		for _, s := range l.segments {
			if err := disk.Remove(s.path); err != nil {
				t.Fatal(err)
			}
		}
		if report := p.cutAll(t, disk, "all segments"); p.closed && (len(report.Remedies) != 1 || report.Remedies[0].First != p.newest+1) {
			t.Errorf("the checkpoint of a closed log has everything: %+v %q", report.Remedies, report.Stuck)
		}
	}
}

// cutAll examines a damaged disk and applies each remedy to a copy.
func (p *patient) cutAll(t *testing.T, disk *vfs.Memory, what string) *Report {
	t.Helper()
	report := p.examine(t, disk)
	if report.Healthy || len(report.Remedies)+len(report.Stuck) == 0 {
		t.Fatalf("%s: %+v", what, report)
	}
	for _, r := range report.Remedies {
		p.cutAndUse(t, disk.Copy(), r)
	}
	return report
}

// TestDoctorSaysWhoseRecordsADamageHeld flips a frame that held two records
// that a group has read one of.
func TestDoctorSaysWhoseRecordsADamageHeld(t *testing.T) {
	disk := vfs.NewMemory()
	l := newLog(t, small(disk))
	appendValues(t, l, events, "a")
	positions, _ := framesOf(t, disk, firstSegment)
	appendValues(t, l, events, "b", "c")
	s, _ := join(t, l)
	if err := commit(t, s, step(2, "scored")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	appendValues(t, l, events, "d")
	crashed := disk.Crash(nil)
	l.Close()
	at, _ := framesOf(t, crashed, firstSegment)
	flip(t, crashed, firstSegment, at[len(positions)]+40)
	report, err := check(small(crashed).withDefaults(), "data")
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(len(positions)) + 1
	if len(report.Damage) != 1 {
		t.Fatalf("%+v", report.Damage)
	}
	d := report.Damage[0]
	want := []Loss{{Topic: events.Topic, Partition: events.Index, From: 1, To: 3, Unread: []string{"g"}}}
	if d.Path != firstSegment || d.Offset != int64(at[len(positions)]) || d.First != seq || d.Last != seq {
		t.Errorf("%+v", d)
	}
	if got := slices.DeleteFunc(d.Affects, func(l Loss) bool { return l.Topic != events.Topic }); !slices.EqualFunc(got, want, equalLoss) {
		t.Errorf("affects %+v, want %+v", got, want)
	}
	if len(report.Remedies) != 1 || !report.Remedies[0].Rebuild && report.Remedies[0].Last != seq-1 {
		t.Fatalf("%+v", report.Remedies)
	}
	if back := report.Remedies[0].Back; len(back) != 1 || back[0].From != 2 || back[0].To != 0 {
		t.Errorf("%+v", back)
	}
}

func equalLoss(a, b Loss) bool {
	return a.Topic == b.Topic && a.Partition == b.Partition && a.From == b.From && a.To == b.To && slices.Equal(a.Unread, b.Unread)
}

// TestDoctorLeavesAnUnfinishedFrameToOpen tears the newest frame of a log that
// was not closed.
func TestDoctorLeavesAnUnfinishedFrameToOpen(t *testing.T) {
	fs, _ := crashed(t, small(nil), 9)
	positions, _ := framesOf(t, fs, firstSegment)
	flip(t, fs, firstSegment, positions[len(positions)-1]+40)
	report, err := check(small(fs).withDefaults(), "data")
	if err != nil || !report.Healthy || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "unfinished") {
		t.Fatalf("%v: %+v", err, report)
	}
}

func TestDoctorRefusesALiveDirectory(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{second(Check(dir)), Cut(dir, Remedy{}, cutFolder)} {
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Error(err)
		}
	}
	if err := second(Check(t.TempDir())); err == nil || !strings.Contains(err.Error(), "not a data directory") {
		t.Error(err)
	}
}

func second(_ *Report, err error) error { return err }

// TestCutGoesOnAfterACrash crashes Cut before calls that change something. What
// is left is cut again, and ends as the log that the remedy promised or, where
// the crash left more to keep, as another remedy of what is left.
func TestCutGoesOnAfterACrash(t *testing.T) {
	r := newRand(t)
	for i := range 4 {
		p := newPatient(t, r, i&1 != 0, i&2 != 0)
		by := p.places(t)
		for _, class := range []string{"frame: payload", "checkpoint: table"} {
			places := by[class]
			at := places[r.IntN(len(places))]
			disk := p.disk.Copy()
			flip(t, disk, at.path, at.at)
			disk = disk.Crash(nil)
			for _, remedy := range p.examine(t, disk).Remedies {
				p.crashCut(t, r, disk.Copy(), remedy)
			}
		}
	}
}

func (p *patient) crashCut(t *testing.T, r *rand.Rand, disk *vfs.Memory, remedy Remedy) {
	t.Helper()
	var images []*vfs.Memory
	o := crashOptions(disk).withDefaults()
	o.fs = vfs.Faulty(disk, func(c vfs.Call) (out vfs.Outcome) {
		if c.Kind.Changes() && sample(r, 8) {
			images = append(images, disk.Crash(r))
		}
		return out
	})
	if err := cut(o, "data", remedy, cutFolder); err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		report := p.examine(t, image)
		if report.Healthy {
			p.mustHold(t, image, remedy)
			continue
		}
		again := report.Remedies
		i := slices.IndexFunc(again, func(other Remedy) bool { return other.Last == remedy.Last && other.First >= remedy.First })
		if i < 0 {
			t.Fatalf("%+v is not among %+v (%q)", remedy, again, report.Stuck)
		}
		if err := cut(crashOptions(image).withDefaults(), "data", again[i], "cut-again"); err != nil {
			t.Fatal(err)
		}
		p.mustHold(t, image, again[i])
	}
}
