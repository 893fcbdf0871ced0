package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// Report is the result of Check for the directory of a log.
type Report struct {
	Dir        string           `json:"dir"`
	Healthy    bool             `json:"healthy"` // no damage was found
	Segments   []SegmentReport  `json:"segments"`
	Indexes    int              `json:"indexes"` // number of valid indexes
	Checkpoint CheckpointReport `json:"checkpoint"`
	Damage     []Damage         `json:"damage"`
	Notes      []string         `json:"notes"` // observations that are not damage
	// Remedies lists the repairs that Cut can make, the one with the least loss first. If a damaged
	// directory has no remedy, it must be replaced by a copy from elsewhere. Stuck then says why.
	Remedies []Remedy `json:"remedies"`
	Stuck    []string `json:"stuck"`
}

// SegmentReport describes the content of a segment.
type SegmentReport struct {
	Path   string `json:"path"`
	First  uint64 `json:"first"` // seq of the first and of the last whole frame; 0 without frames
	Last   uint64 `json:"last"`
	Frames int    `json:"frames"`
	Bytes  int64  `json:"bytes"` // size of the frames
}

// CheckpointReport describes the checkpoint in state/.
type CheckpointReport struct {
	Found   bool   `json:"found"`
	Sound   bool   `json:"sound"`   // every block was read without an error
	Applied uint64 `json:"applied"` // the checkpoint contains all frames up to this one
	Seen    uint64 `json:"seen"`    // and parts of frames up to this one
	Tables  int    `json:"tables"`
	Bytes   int64  `json:"bytes"` // size of the tables
}

// Damage is one place where the bytes differ from the written ones.
type Damage struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"` // in bytes
	What   string `json:"what"`
	// First to Last are the frames that cannot be read because of the damage; 0 if all can be read.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	// Affects lists the records that were in these frames, as far as the neighbouring frames show.
	Affects []Loss `json:"affects,omitempty"`
}

// Loss is a range of a partition's records.
type Loss struct {
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	From      stream.Offset `json:"from"`
	To        stream.Offset `json:"to"`               // offset after the last lost record; Unknown if it cannot be determined
	Unread    []string      `json:"unread,omitempty"` // groups that have not read all of these records
}

// Unknown is a Loss.To that the directory does not reveal.
const Unknown stream.Offset = -1

// Remedy is a consistent log that Cut can make from the directory: one run of whole frames, and
// state that agrees with it.
type Remedy struct {
	First uint64 `json:"first"` // the frames that Cut keeps; if it keeps none, Last is First-1
	Last  uint64 `json:"last"`
	// LostFrames is the number of frames that Cut removes, including damaged ones.
	LostFrames uint64 `json:"lost_frames"`
	// Rebuild rebuilds the state from the log, as of frame Last. If false, Cut keeps the
	// checkpoint.
	Rebuild bool    `json:"rebuild"`
	Loses   []Loss  `json:"loses"` // records that are lost
	Back    []Moved `json:"back"`  // groups that lose progress: their state and offset move back with the log
}

// Moved says where a group continues in a partition after a remedy.
type Moved struct {
	Group     string        `json:"group"`
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	From      stream.Offset `json:"from"`
	To        stream.Offset `json:"to"`
}

// errReadOnly is the error of a call that tries to change a directory during Check.
var errReadOnly = fmt.Errorf("the check only reads: %w", syscall.EROFS)

// Check reads the whole directory of a closed log, every frame, index and checkpoint block, and
// changes nothing. The report lists all damage.
//
// Check returns an error if it cannot read, or if a version with an unknown format wrote the
// directory. It returns ErrLocked, with the process, if a process has the log open.
func Check(dir string) (*Report, error) { return check(Options{}.withDefaults(), dir) }

func check(o Options, dir string) (*Report, error) {
	c, err := examine(o, dir)
	if err != nil {
		return nil, fmt.Errorf("check log %s: %w", dir, err)
	}
	return c.report, c.lock.release()
}

// checker reads a directory. It holds the directory lock until its user releases the lock.
type checker struct {
	fs     vfs.FS // rejects changes
	dir    string
	lock   *dirLock
	report *Report

	meta     meta
	metaLost bool // no readable META exists
	segments []*walked
	spares   []string // other files in log/ that may hold frames
	runs     []*run
	cells    extents // as of the checkpoint
	badIndex []string
}

// examine takes the directory lock and reads all files.
func examine(o Options, dir string) (c *checker, err error) {
	if err := isLog(o.fs, dir); err != nil {
		return nil, err
	}
	c = &checker{dir: dir, cells: newExtents(), report: &Report{Dir: dir, Segments: []SegmentReport{}, Damage: []Damage{}, Notes: []string{}, Remedies: []Remedy{}, Stuck: []string{}}}
	if c.lock, err = lockDir(o, dir, true); err != nil {
		return nil, err
	}
	c.fs = vfs.Faulty(o.fs, func(call vfs.Call) (out vfs.Outcome) {
		if call.Kind.Changes() {
			out.Err = errReadOnly
		}
		return out
	})
	if err := c.run(); err != nil {
		return nil, errors.Join(err, c.lock.release())
	}
	return c, nil
}

// isLog returns an error if dir cannot be the directory of a log.
func isLog(fs vfs.FS, dir string) (err error) {
	for _, name := range []string{metaName, metaCopyName, "log"} {
		if _, err = fs.Stat(fs.PathJoin(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("it is not a data directory: %w", err)
}

func (c *checker) run() error {
	var found bool
	var err error
	var lost *DamageError
	c.meta, found, err = readMeta(c.fs, c.dir)
	if errors.As(err, &lost) {
		c.metaLost = true
		c.damage(Damage{Path: lost.Path, What: lost.Reason})
	} else if err != nil {
		return err
	}
	if lost := c.meta.lost; lost != nil {
		c.damage(Damage{Path: lost.Path, What: lost.Reason + "; the other copy is whole, and the log opens with it"})
	}
	if err := c.list(); err != nil {
		return err
	}
	if !found && !c.metaLost && len(c.segments) > 0 {
		c.metaLost = true
		c.damage(Damage{Path: c.path(metaName), What: "it is missing beside a log, and so is " + metaCopyName})
	}
	if err := c.checkpoint(); err != nil {
		return err
	}
	if c.metaLost {
		c.report.Stuck = append(c.report.Stuck, "without META or its copy, frames cannot be identified: restore one of them from any backup of this directory, and run the command again")
		return nil
	}
	if err := c.walk(); err != nil {
		return err
	}
	if err := c.indexes(); err != nil {
		return err
	}
	for i := range c.report.Damage {
		c.affected(&c.report.Damage[i])
	}
	c.report.Healthy = len(c.report.Damage) == 0
	if !c.report.Healthy {
		c.remedies()
	}
	return nil
}

func (c *checker) path(elem ...string) string {
	return c.fs.PathJoin(append([]string{c.dir}, elem...)...)
}

func (c *checker) damage(d Damage) { c.report.Damage = append(c.report.Damage, d) }

// list finds the files in log/.
func (c *checker) list() error {
	l := &Log{directory: directory{dir: c.dir}, opts: Options{fs: c.fs}}
	others, err := (&opener{l}).list()
	if err != nil {
		return ignoreMissing(err)
	}
	c.spares = others
	for _, s := range l.segments {
		c.segments = append(c.segments, &walked{path: s.path, first: s.first, size: s.size})
	}
	return nil
}

// newest returns the newest frame known to be durable from META and the checkpoint.
func (c *checker) newest() uint64 {
	cp := &c.report.Checkpoint
	return max(c.meta.Clean, cp.Applied, cp.Seen)
}

// indexes checks the indexes of sealed segments. A missing index is not damage: the log had not
// written it yet.
func (c *checker) indexes() error {
	for i, w := range c.segments {
		s := &segment{path: w.path, first: w.first, size: w.size}
		path := c.path("idx", s.indexName())
		b, err := vfs.ReadFile(c.fs, path)
		if err != nil {
			if err = ignoreMissing(err); err != nil {
				return err
			}
			continue
		}
		_, err = decodeIndex(s, b, c.meta.salt)
		switch last := i == len(c.segments)-1; {
		case err != nil:
			c.badIndex = append(c.badIndex, path)
			c.damage(Damage{Path: path, What: "the index is damaged: the log rebuilds it from the frames when it opens, and nothing is lost"})
		case !last && s.last+1 != c.segments[i+1].first:
			c.badIndex = append(c.badIndex, path)
			c.damage(Damage{Path: path, What: fmt.Sprintf("the index ends with frame %d, its segment with frame %d: the log rebuilds the index when it opens", s.last, c.segments[i+1].first-1)})
		default:
			c.report.Indexes++
		}
	}
	return nil
}

// affected sets d.Affects to the records that the frames of d held.
func (c *checker) affected(d *Damage) {
	if d.First == 0 {
		return
	}
	before, after := newExtents(), newExtents()
	for _, r := range c.runs {
		if r.last < d.First {
			before.add(&r.extents)
		} else {
			after.add(&r.extents)
		}
	}
	all := c.known()
	for _, p := range all.partitions() {
		from, found := before.parts[p]
		if cell, has := c.cells.parts[p]; !found && has && c.report.Checkpoint.Applied == d.First-1 {
			from, found = cell, true
		}
		if !found && d.First > 1 {
			continue // unknown whether the partition had records before
		}
		loss := Loss{Topic: p.Topic, Partition: p.Index, From: from.next, To: Unknown}
		if next, found := after.parts[p]; found {
			loss.To = next.first
		} else if cell, found := c.cells.parts[p]; found && c.report.Checkpoint.Applied >= d.Last {
			loss.To = cell.next
		}
		if loss.To == Unknown || loss.From < loss.To {
			c.unread(&loss, all)
			d.Affects = append(d.Affects, loss)
		}
	}
}

// unread sets l.Unread to the groups that have not read all of l.
func (c *checker) unread(l *Loss, all extents) {
	p := stream.Partition{Topic: l.Topic, Index: l.Partition}
	for at, committed := range all.groups {
		if at.partition == p && (l.To == Unknown || committed < l.To) {
			l.Unread = append(l.Unread, at.group)
		}
	}
	slices.Sort(l.Unread)
}

// known returns all records and offsets that the frames and the checkpoint show.
func (c *checker) known() extents {
	all := newExtents()
	for _, r := range c.runs {
		all.add(&r.extents)
	}
	all.add(&c.cells)
	return all
}

// extents holds the records and offsets of some frames.
type extents struct {
	parts  map[stream.Partition]extent
	groups map[groupPlace]stream.Offset // newest committed offsets
}

// extent is the range of the records of a partition.
type extent struct{ first, next stream.Offset }

type groupPlace struct {
	group     string
	partition stream.Partition
}

func newExtents() extents {
	return extents{map[stream.Partition]extent{}, map[groupPlace]stream.Offset{}}
}

// add merges in the extents of later or overlapping frames.
func (e *extents) add(other *extents) {
	for p, x := range other.parts {
		if mine, found := e.parts[p]; found {
			x = extent{min(x.first, mine.first), max(x.next, mine.next)}
		}
		e.parts[p] = x
	}
	for at, next := range other.groups {
		e.groups[at] = max(next, e.groups[at])
	}
}

func (e *extents) partitions() []stream.Partition {
	all := make([]stream.Partition, 0, len(e.parts))
	for p := range e.parts {
		all = append(all, p)
	}
	slices.SortFunc(all, comparePartitions)
	return all
}

func compareGroups(a, b groupPlace) int {
	return cmp.Or(strings.Compare(a.group, b.group), comparePartitions(a.partition, b.partition))
}
