package task

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/order"
)

// waits tracks how long copies wait for their turn.
type waits struct {
	reader *order.Reader
	names  map[order.Holder]string
	newest order.Holder // argument of the newest call of nameOf
	name   string       // name of newest
}

// turn returns how long an event waited for its turn, and for what. For a queued event the wait is
// not known.
func (w *waits) turn(plan *Plan, it *item) observe.Turn {
	turn := observe.Turn{Ordered: plan.InTurns(), Appended: it.appended}
	switch {
	case plan.Sources == nil:
	case it.resumed != nil:
		if c, err := order.ParseCopy(header.Value(it.Record, header.Order)); err == nil {
			turn.Appended = c.AppendTime()
		}
	default:
		waited, of := w.reader.Held(it.Record.Partition, it.Record.Offset)
		turn.Waited, turn.For = waited, w.nameOf(plan, of)
	}
	return turn
}

// nameOf returns the name of the source or stage that events wait for. It caches the names.
func (w *waits) nameOf(plan *Plan, of order.Holder) string {
	if of == w.newest && w.names != nil {
		return w.name
	}
	name, known := w.names[of]
	if !known {
		if w.names == nil {
			w.names = map[order.Holder]string{}
		}
		name = plan.Holder(of)
		w.names[of] = name
	}
	w.newest, w.name = of, name
	return name
}

// Holder returns the name of what events of the plan wait for. That is a source partition, or the
// topic of the stage that answers. It returns "" if they wait for neither.
func (p *Plan) Holder(of order.Holder) string {
	switch {
	case of.Stage && of.By == "": // the ask of a stage waits for the values that its event returns
		return naming.Of(naming.Root(p.Name), naming.Repartition)
	case of.Stage:
		return naming.By(naming.Root(p.Name), of.By)
	case of.Source < 0:
		return ""
	}
	return p.SourceName(of.Source)
}

// SourceName returns the topic and partition for a source partition number, or "" if no source has
// it.
func (p *Plan) SourceName(number int32) string {
	for _, s := range p.Sources {
		if s.Rank == order.Topic(number) {
			return fmt.Sprintf("%s/%d", s.Topic, order.Partition(number))
		}
	}
	return ""
}
