package task

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/internal/task/timer"
	"github.com/afterbay/afterbay/internal/task/watermark"
	"github.com/afterbay/afterbay/stream"
)

const never = output.Never

// partition is the loop's memory of one assigned partition, over the committed
// state. It runs ahead of what is committed; after a failed
// commit it is thrown away.
type partition struct {
	worker     *worker
	id         stream.Partition
	origin     output.Origin
	view       stream.View
	next       stream.Offset // of the next record
	newest     int64         // event time, microseconds; never before the first
	moved      bool          // newest is not yet in a step
	generation uint64
	change     generation.Change // since the generation was stored; Same once it is in a step
	keys       *keyed.Memory
	overdue    bool             // more keys had ended than one step takes
	ids        *dedupe.Set      // seen; nil without Plan.Dedupe
	sources    *watermark.State // nil without Plan.Sources
	groups     *group.Set       // nil without Plan.Groups
	parked     *async.Partition
	tables     *table.State // nil without Plan.Tables
	marks      timer.Marks  // of the chunk, where timers may fire
	markChunk  uint64
	fired      int64     // offset before which all that was due has fired, in steps of its own
	heard      time.Time // when it last had a record or was said to be idle
	idle       bool
	step       uint64 // number of the newest step that moves it
}

func (p *partition) watermark(lateness time.Duration) int64 {
	if p.newest == never {
		return never
	}
	return p.newest - lateness.Microseconds()
}

// newPartition restores what is kept beside a partition. Of keys that takes so
// many bytes at most.
func newPartition(w *worker, a stream.Assigned, keyBytes int64) (*partition, error) {
	plan := w.plan
	p := &partition{
		worker: w, id: a.Partition, origin: output.Origin{Index: a.Partition.Index}, view: a.State, next: a.Next,
		newest: never, fired: -1, heard: w.options.Clock.Now(),
	}
	var err error
	if p.generation, p.change, err = plan.Fingerprint.Load(p.id, p.view); err != nil {
		return nil, err
	}
	p.origin.Provenance = fmt.Appendf(nil, "%s sha256:%s %d", plan.Name, plan.Fingerprint.Outputs, p.generation)
	if data, err := p.view.Get([]byte{statekey.Watermark}); err != nil {
		return nil, err
	} else if len(data) == 8 {
		p.newest = int64(binary.BigEndian.Uint64(data))
	}
	if p.parked, err = w.desk.Restore(a, p.change.Queued()); err != nil {
		return nil, err
	}
	if p.keys, err = keyed.Open(&plan.keys, p.id, p.view, p.parked.Queue, keyBytes); err != nil {
		return nil, err
	}
	if p.groups, err = group.Open(&plan.Groups, p.id, p.view); err != nil {
		return nil, err
	}
	if plan.Dedupe != nil {
		if p.ids, err = dedupe.Restore(p.id, p.view, plan.Dedupe.Spec); err != nil {
			return nil, err
		}
	}
	if plan.Sources != nil {
		p.sources, err = watermark.Restore(p.view, plan.merged())
	}
	return p, err
}
