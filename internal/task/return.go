package task

import (
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// returned looks at whether the event was a dead letter that was sent back, and
// takes its row from there. It reports whether there is an event to go on with:
// an event for another pipeline and a client's cancel are not.
func (w *worker) returned(it *item) bool {
	it.Return = deadletter.Returned(it.Record.Headers)
	switch {
	case it.partition.parked.Cancels(it.Record), it.Return != nil && it.Return.Letters != w.plan.DeadTopic:
		it.Become(operator.Notice)
		return false
	case it.Return == nil:
		return true
	}
	var err error
	if it.point, err = w.plan.resumption.Find(it.Return.Resume); err == nil && it.point.Judged {
		err = w.plan.resumption.Restore(it.Row, it.Return.Row)
	}
	if err != nil {
		it.fail("redrive", err)
	}
	return err == nil
}

// goOn has a parked event go on with a stage, where it may have been a dead
// letter before it was parked. The error is the event's.
func (w *worker) goOn(it *item, stage int) error {
	if it.Return = deadletter.Returned(it.Record.Headers); it.Return != nil {
		it.point, _ = w.plan.resumption.Find(it.Return.Resume) // which found it when it was read
	}
	it.point = w.plan.resumption.After(it.point, stage)
	return w.plan.resumption.Recount(it.Row)
}

// rerun brings the event to where it failed.
func (w *worker) rerun(it *item) {
	on, err := w.plan.resumption.Rerun(it.Row, it.point.Done)
	if err != nil {
		it.fail("redrive", err)
	}
	if !on && err == nil {
		it.Become(operator.Filtered)
	}
}

// words says where the event of a dead letter goes on when it is sent back; ""
// is nowhere, since more would be done a second time.
func (w *worker) words(it *item) string {
	f, all := it.Failure, len(w.plan.Stages)
	switch {
	case f.At > it.point.Done:
		return w.plan.resumption.Words(f.At-1, it.Owed)
	case f.At > 0: // an emit that it owed
		return w.plan.resumption.Words(it.point.Done, it.point.Owed&^it.Emits|it.Owed)
	case it.Owed != 0:
		return w.plan.resumption.Words(all, it.Owed)
	case f.Stage == "late":
		return deadletter.Late
	case f.Stage == "call" || f.Stage == "source":
		return ""
	case it.Return != nil:
		return it.Return.Resume
	}
	return deadletter.Start
}
