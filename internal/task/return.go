package task

import (
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// returned looks at whether the event was a dead letter that was sent back, and
// takes its row from there. It reports whether there is an event to go on with:
// an event for another pipeline and a client's cancel are not.
func (a *admission) returned(it *item) bool {
	it.Return = deadletter.Returned(it.Record.Headers)
	switch {
	case it.partition.parked.Cancels(it.Record), it.Return != nil && it.Return.Letters != a.plan.DeadTopic:
		it.Become(operator.Notice)
		return false
	case it.Return == nil:
		return true
	}
	var err error
	if it.point, err = a.plan.resumption.Find(it.Return.Resume); err == nil && it.point.Judged {
		err = a.plan.resumption.Restore(it.Row, it.Return.Row)
	}
	if err != nil {
		it.fail("redrive", err)
	}
	return err == nil
}

// goOn has a parked event go on with a stage, where it may have been a dead
// letter before it was parked. The error is the event's.
func (ch *chunk) goOn(it *item, stage int) error {
	if it.Return = deadletter.Returned(it.Record.Headers); it.Return != nil {
		it.point, _ = ch.plan.resumption.Find(it.Return.Resume) // which found it when it was read
	}
	it.point = ch.plan.resumption.After(it.point, stage)
	return ch.plan.resumption.Recount(it.Row)
}

// rerun brings the event to where it failed.
func (a *admission) rerun(it *item) {
	on, err := a.plan.resumption.Rerun(it.Row, it.point.Done)
	if err != nil {
		it.fail("redrive", err)
	}
	if !on && err == nil {
		it.Become(operator.Filtered)
	}
}

// words says where the event of a dead letter goes on when it is sent back; ""
// is nowhere, since more would be done a second time.
func (ch *chunk) words(it *item) string {
	f, all := it.Failure, len(ch.plan.Stages)
	switch {
	case f.At > it.point.Done:
		return ch.plan.resumption.Words(f.At-1, it.Owed)
	case f.At > 0: // an emit that it owed
		return ch.plan.resumption.Words(it.point.Done, it.point.Owed&^it.Emits|it.Owed)
	case it.Owed != 0:
		return ch.plan.resumption.Words(all, it.Owed)
	case f.Stage == "late":
		return deadletter.Late
	case f.Stage == "call" || f.Stage == "source":
		return ""
	case it.Return != nil:
		return it.Return.Resume
	}
	return deadletter.Start
}
