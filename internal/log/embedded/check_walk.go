package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// walked is a file with frames, and the positions of its whole frames.
type walked struct {
	path      string
	first     uint64 // seq from the file name or from the first frame
	size      int64
	stretches []stretch
}

// stretch is a range of consecutive frames in one file.
type stretch struct {
	first, last uint64
	from, to    int64 // in bytes
	run         *run
}

// run is a range of consecutive frames, across files.
type run struct {
	first, last uint64
	extents
}

// walk reads the frames of all files.
func (c *checker) walk() error {
	if err := c.walkAll(); err != nil {
		return err
	}
	nameless, err := c.nameless()
	if err != nil {
		return err
	}
	if len(nameless) > 0 {
		c.segments = append(c.segments, nameless...)
		slices.SortFunc(c.segments, func(a, b *walked) int { return cmp.Compare(a.first, b.first) })
		c.report.Damage = slices.DeleteFunc(c.report.Damage, func(d Damage) bool { return d.First > 0 })
		c.report.Notes = c.report.Notes[:0]
		for _, w := range nameless {
			c.damage(Damage{Path: w.path, What: fmt.Sprintf("it is the segment that begins with frame %d, and its name was lost", w.first)})
		}
		if err := c.walkAll(); err != nil {
			return err
		}
	}
	for _, w := range c.segments {
		s := SegmentReport{Path: w.path}
		for i, p := range w.stretches {
			if i == 0 {
				s.First = p.first
			}
			s.Last = p.last
			s.Frames += int(p.last - p.first + 1)
			s.Bytes += p.to - p.from
		}
		c.report.Segments = append(c.report.Segments, s)
	}
	return nil
}

// nameless returns segments that lost their name: spares that begin with a missing frame or with
// one after the newest. Other spares hold older frames.
func (c *checker) nameless() (found []*walked, err error) {
	l := opener{c.log()}
	for _, path := range c.spares {
		seq, err := l.firstFrame(path)
		if err != nil {
			return nil, err
		}
		if seq == 0 || !c.missing(seq) {
			continue
		}
		info, err := c.fs.Stat(path)
		if err != nil {
			return nil, err
		}
		found = append(found, &walked{path: path, first: seq, size: info.Size()})
	}
	return found, nil
}

// missing reports whether frame seq should be in a segment and is not.
func (c *checker) missing(seq uint64) bool {
	if len(c.segments) == 0 {
		return seq > c.report.Checkpoint.Applied
	}
	newest := c.segments[len(c.segments)-1].first - 1
	if n := len(c.runs); n > 0 {
		newest = max(newest, c.runs[n-1].last)
	}
	return seq > newest || slices.ContainsFunc(c.report.Damage, func(d Damage) bool { return d.First <= seq && seq <= d.Last })
}

// log returns a Log that can only parse frames.
func (c *checker) log() *Log {
	return &Log{directory: directory{dir: c.dir, meta: c.meta}, opts: Options{fs: c.fs}}
}

func (c *checker) walkAll() error {
	c.runs = nil
	applied := c.report.Checkpoint.Applied
	if len(c.segments) == 0 {
		if newest := c.newest(); newest > 0 {
			c.damage(Damage{Path: c.path("log"), What: "it has no segments, though frames were durable", First: 1, Last: newest})
		}
		return nil
	}
	if first := c.segments[0].first; first > applied+1 && c.sound() {
		c.damage(Damage{Path: c.segments[0].path, What: fmt.Sprintf("the frames before %d are missing", first), First: applied + 1, Last: first - 1})
	}
	for i := range c.segments {
		if err := c.walkSegment(i); err != nil {
			return err
		}
	}
	return nil
}

// sound reports whether the checkpoint is usable. A missing checkpoint counts as one of frame 0.
func (c *checker) sound() bool { return c.report.Checkpoint.Sound || !c.report.Checkpoint.Found }

// walkSegment reads the frames of segment i and continues after damage.
func (c *checker) walkSegment(i int) error {
	w := c.segments[i]
	w.stretches = nil
	b, err := vfs.ReadFile(c.fs, w.path)
	if err != nil {
		return err
	}
	last := i == len(c.segments)-1
	limit := uint64(math.MaxUint64) // seq of the first frame in the next file
	if !last {
		limit = c.segments[i+1].first
	}
	l := c.log()
	pos, seq := 0, w.first
	for pos < len(b) && seq < limit {
		f, n, err := l.parse(b[pos:], seq)
		if errors.Is(err, errFormat) {
			return fmt.Errorf("%s at byte %d: %w", w.path, pos, err)
		}
		if err == nil {
			if err := c.note(w, &f, pos, n); err != nil {
				return fmt.Errorf("%s at byte %d: %w", w.path, pos, err)
			}
			pos, seq = pos+n, seq+1
			continue
		}
		at, next := c.later(b, pos, seq, limit, last)
		if next == 0 {
			break
		}
		c.damage(Damage{Path: w.path, Offset: int64(pos), First: seq, Last: next - 1, What: fmt.Sprintf("%s not whole, and frame %d behind, at byte %d, is", frames(seq, next-1), next, at)})
		pos, seq = at, next
	}
	if !last {
		if seq < limit {
			c.damage(Damage{Path: w.path, Offset: int64(pos), First: seq, Last: limit - 1, What: fmt.Sprintf("%s not whole, and segment %d follows, so they were durable", frames(seq, limit-1), limit)})
		}
		return nil
	}
	c.end(w, b[pos:], int64(pos), seq)
	return nil
}

func frames(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("frame %d is", first)
	}
	return fmt.Sprintf("frames %d to %d are", first, last)
}

// later finds the next whole frame after the bad frame seq. In the last segment it accepts only a
// frame that proves that frame seq was durable.
func (c *checker) later(b []byte, pos int, seq, limit uint64, last bool) (at int, next uint64) {
	l := opener{c.log()}
	if last && l.findLater(b[pos:], seq) < 0 {
		return 0, 0
	}
	for at := pos + frameAlign; at+frameHeader <= len(b); at += frameAlign {
		h := parseHeader(b[at:])
		if h.seq <= seq || h.seq >= limit || h.seq > seq+uint64(len(b)/frameHeader) || last && h.durable < seq {
			continue
		}
		if _, _, err := l.parse(b[at:], h.seq); err == nil {
			return at, h.seq
		}
	}
	return 0, 0
}

// end classifies the bytes after the last whole frame of the log, as Open does.
func (c *checker) end(w *walked, rest []byte, pos int64, bad uint64) {
	l := opener{c.log()}
	h := header{}
	if len(rest) >= frameHeader {
		h = parseHeader(rest)
	}
	switch newest := c.newest(); {
	case bad <= newest:
		c.damage(Damage{Path: w.path, Offset: pos, First: bad, Last: newest, What: fmt.Sprintf("%s not whole, and frame %d was durable", frames(bad, newest), newest)})
	case l.outdated(rest, bad):
		c.damage(Damage{Path: w.path, Offset: pos, First: bad, Last: bad, What: "a frame of an epoch that this copy of META does not have: an older version, which writes no copy, wrote META last, and META is missing"})
	case h != (header{}) && (h.seq == bad || h.durable == bad-1):
		c.report.Notes = append(c.report.Notes, fmt.Sprintf("%s at byte %d: frame %d is unfinished and was never acknowledged; the log cuts it off when it opens", w.path, pos, bad))
	}
}

// note adds a whole frame to the runs and stretches.
func (c *checker) note(w *walked, f *frame, pos, n int) error {
	r := (*run)(nil)
	if len(c.runs) > 0 {
		r = c.runs[len(c.runs)-1]
	}
	if r == nil || r.last+1 != f.seq {
		r = &run{first: f.seq, last: f.seq - 1, extents: newExtents()}
		c.runs = append(c.runs, r)
	}
	if k := len(w.stretches); k == 0 || w.stretches[k-1].run != r {
		w.stretches = append(w.stretches, stretch{first: f.seq, from: int64(pos), run: r})
	}
	p := &w.stretches[len(w.stretches)-1]
	p.last, p.to, r.last = f.seq, int64(pos+n), f.seq
	for i := range f.body {
		if err := r.section(&f.body[i]); err != nil {
			return fmt.Errorf("frame %d: %w", f.seq, err)
		}
	}
	return nil
}

// section checks the content of a section and adds it.
func (r *run) section(s *section) error {
	switch s.kind {
	case sectionInput, sectionOutput, sectionResult:
		return r.records(s)
	case sectionTopic:
		_, err := parseTopic(s.payload)
		return err
	case sectionDelete:
		_, _, err := parseDelete(s.payload)
		return err
	case sectionState:
		_, err := parseEdits(s.payload)
		return err
	case sectionOffsets:
		m, err := parseMoves(s.payload)
		if err != nil {
			return err
		}
		for v := range m.all() {
			r.groups[groupPlace{string(m.group), stream.Partition{Topic: string(v.topic), Index: v.index}}] = v.next
		}
		return nil
	case sectionProducer:
		v := reader{b: s.payload}
		if v.bytes(); int64(v.uvarint()) < 0 || v.bad {
			return fmt.Errorf("section of a producer: %w", errFormat)
		}
		return nil
	}
	if s.flags&flagCritical != 0 {
		return fmt.Errorf("section of kind %d, which this version must not skip: %w", s.kind, errFormat)
	}
	return nil
}

func (r *run) records(s *section) error {
	v, err := parseRecords(s)
	if err != nil {
		return err
	}
	whole := v.block(0)
	body := whole.records()
	for range v.count {
		var record stream.Record
		body.record(&record, nil)
	}
	if body.bad || len(body.b) > 0 {
		return fmt.Errorf("records of %v: %w", v.partition(), errFormat)
	}
	p, next := v.partition(), v.first+stream.Offset(v.count)
	x, found := r.parts[p]
	if found && x.next != v.first {
		return fmt.Errorf("%v continues at offset %d, not %d: %w", p, v.first, x.next, errFormat)
	}
	if !found {
		x.first = v.first
	}
	r.parts[p] = extent{x.first, next}
	return nil
}
