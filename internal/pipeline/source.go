package pipeline

import (
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// Reading returns how the reading of the pipeline's input stands: throttled while
// as many events wait off the loop as Queue.High says, in one session at least. How
// long it was paused is that of the session that was for longest. ok is false where
// no event ever waits there.
func (r *Runner) Reading() (marks control.GateOptions, state control.GateState, ok bool) {
	if !r.Plan.Queues() {
		return marks, state, false
	}
	counts, memory := r.metrics[0].Counts(), r.metrics[0].Memory()
	return r.Plan.Queue, control.GateState{
		Throttled: memory.Throttled > 0, Depth: int(memory.Parked), Switches: int(counts.Switches),
		Paused: time.Duration(memory.ThrottledMost) * time.Microsecond,
	}, true
}
