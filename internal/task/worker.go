package task

import (
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// worker is the loop of one member. One goroutine owns it and its fields.
type worker struct {
	*chunk
	tables    *table.Reader
	preparing *preparing
	waits     func(stream.Partition) bool // reports whether records of a partition were read and wait
	gate      *control.Gate               // gate of the async queue
	down      bool                        // a required endpoint is down
	held      bool                        // all partitions are paused
	standing  bool                        // stopped: too many events become dead letters
}

func newWorker(plan *Plan, shared *shared, options Options, s stream.Member, metrics *observe.Member) *worker {
	way := admission{committer: newCommitter(plan, shared, options, s, metrics)}
	return &worker{chunk: &chunk{admission: way, rows: plan.Schema.NewRows(options.ChunkEvents)}, gate: plan.Queue.Gate(options.Members)}
}

// expireRest continues with the keys that had expired when a transaction was full.
func (w *worker) expireRest() error {
	overdue := 0
	for _, p := range w.partitions {
		if p.overdue {
			w.building.touch(p)
			overdue++
		}
	}
	if overdue == 0 {
		return nil
	}
	if err := w.expire(); err != nil {
		return err
	}
	w.member.Wake()
	return nil
}
