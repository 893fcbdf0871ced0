package task

import (
	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// goOn has a parked event go on with a stage, where it may have been a dead
// letter before it was parked. The error is the event's.
func (ch *chunk) goOn(it *item, stage int) error {
	if it.Return = deadletter.Returned(it.Record.Headers); it.Return != nil {
		it.point, _ = ch.plan.resumption.Find(it.Return.Resume) // which found it when it was read
	}
	it.point = ch.plan.resumption.After(it.point, stage)
	return ch.plan.resumption.Recount(it.Row)
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
