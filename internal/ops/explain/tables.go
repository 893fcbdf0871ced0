package explain

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// tables are the topics of a directory that a replayed pipeline looks up rows in.
type tables struct {
	directory inspect.Directory
	names     []string
	unknown   string // why the rows that the live pipeline found are unknown; "" if they are known
	reading   map[stream.Partition]*tableReading
}

// tableReading is one partition of a table, read row by row.
type tableReading struct {
	from  stream.Offset // offset of the newest row read, or a smaller one
	row   stream.Record
	found bool // row is set; otherwise the partition has ended
	next  func() (stream.Record, error, bool)
	stop  func()
}

// follow makes lookups in tables that change over time find the rows that the live pipeline found,
// according to the pipeline's notes. first is the first offset of the replayed partition.
func (t *tables) follow(ctx context.Context, r *pipeline.Runner, home int32, first stream.Offset, notes *pipeline.Notes) {
	*notes, t.unknown = pipeline.Notes{}, ""
	if !slices.ContainsFunc(t.names, func(name string) bool { return !r.AsOfEvent(name) }) {
		return
	}
	topic := r.Plan.Notes()
	err := inspect.ReadNotes(ctx, t.directory, topic, notes)
	if err == nil {
		begin := map[int32]stream.Offset{home: first}
		if r.Plan.Sources != nil {
			begin = nil
		}
		err = inspect.NotesFrom(topic, notes, begin)
	}
	if err != nil {
		notes.Reads = nil
		t.unknown = fmt.Sprintf("tables are read in their current state, not in that of the event: %v", err)
	}
}

// peek returns the first row of a partition at or after an offset. Calls with rising offsets share
// one query.
func (t *tables) peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	r := t.reading[p]
	if r != nil && r.from <= from && (!r.found || from <= r.row.Offset) {
		return r.row, r.found, nil
	}
	if r == nil || r.from > from || from > r.row.Offset+1 {
		if r != nil {
			r.stop()
		}
		r = &tableReading{}
		r.next, r.stop = iter.Pull2(t.rows(ctx, p, from))
		t.reading[p] = r
	}
	row, err, ok := r.next()
	r.from, r.row, r.found = from, row, ok && err == nil
	return r.row, r.found, err
}

// rows yields the rows of a partition, starting at an offset.
func (t *tables) rows(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return t.directory.Records(ctx, inspect.Query{Topic: p.Topic, Partition: p.Index, From: int64(from)})
}

// close ends all queries.
func (t *tables) close() {
	for _, r := range t.reading {
		r.stop()
	}
}
