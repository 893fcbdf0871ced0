package task

import (
	"fmt"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// A feature by a field other than the key is computed by a stage, a plan that reads its own topic
// by that field. See docs/adr/0043-by.md.
//
//  1. The repartitioner writes an ask for each event that has the field: CopyPlan.Asks.
//  2. The stage counts the ask and answers it: Plan.Answers.
//  3. The reader of the copies waits for the answers: Plan.Asked.
//  4. After processing, the event tells the stage what to count after a delay: Plan.Returns.

// Staged holds the parts of a plan that concern stages.
type Staged struct {
	Asked   []string      // fields that stages answer for
	Answers *AnswersPlan  // nil if the plan is not a stage
	Delay   time.Duration // delay before values that events return to the stage are counted; 0 if events return none
	Returns []Return
}

// Ask describes the asks to the stage of one field.
type Ask struct {
	Topic  string
	By     value.Slot   // the field
	Fields []value.Slot // fields that the stage uses
}

// AnswersPlan turns a plan into the plan of a stage.
type AnswersPlan struct {
	By      string       // the field
	Columns []value.Slot // columns of the answer

	names string
}

// Return describes the values that a processed event returns to the stage of a field.
type Return struct {
	Topic string
	By    string // the field
	Said  []operator.Said
}

// WaitsFor returns the stages that the copies of the plan wait for.
func (s *Staged) WaitsFor() order.Stages { return order.Stages{By: s.Asked, Delay: s.Delay} }

// ask appends one ask for each of CopyPlan.Asks if the event has the field. It returns the list of
// asks for the header of the copy.
func (s *transaction) ask(plan *Plan, it *item, c *order.Copy) (asked []byte) {
	p := plan.Copy
	if len(p.Asks) == 0 || c.Late && !p.Late {
		return nil
	}
	key := it.Row.AppendKey(nil, plan.Key)
	home := stream.Place(key, p.Partitions)
	for i := range p.Asks {
		a := &p.Asks[i]
		if !it.Row.Has(a.By) {
			continue
		}
		key = it.Row.AppendKey(key[:0], a.By)
		to := stream.Partition{Topic: a.Topic, Index: stream.Place(key, p.Partitions)}
		if s.Ask(&it.Event, to, a.By, a.Fields, home, c); it.Failure != nil {
			return nil
		}
		asked = order.AppendAsk(asked, a.By.Name, to.Index)
	}
	return asked
}

// answer appends the answer of a stage to an ask. A record without an ask gets no answer.
func (s *transaction) answer(plan *Plan, it *item) {
	home, ok := order.HomeOf(header.Value(it.Record, header.Ask))
	c, err := order.ParseCopy(header.Value(it.Record, header.Order))
	if !ok || err != nil {
		return
	}
	answer := operator.Answer{Names: plan.Answers.names}
	if it.Failure != nil {
		answer = operator.Answer{Failure: it.Failure.Err.Error()}
	} else {
		answer.Approximate = strings.Join(it.Approximate, ",")
		for _, column := range plan.Answers.Columns {
			answer.Values = operator.AppendValue(answer.Values, it.Row, column)
		}
		if n, most := len(answer.Values), s.Form.MaxBytes; n > most {
			answer = operator.Answer{Failure: fmt.Sprintf("features by %s: the columns take %d bytes: all of a field take at most %d, so set a smaller take", plan.Answers.By, n, most)}
		}
	}
	to := order.Question{Source: c.Key.Source, Offset: c.Key.Offset, By: plan.Answers.By}
	s.Answer(stream.Partition{Topic: plan.Outputs[0], Index: home}, it.Record.Time, to, &answer)
}

// answers reports whether an event is an ask. If an ask fails, its answer carries the failure, and
// the waiting event becomes the dead letter.
func (p *Plan) answers(it *item) bool {
	return p.Answers != nil && header.Value(it.Record, header.Ask) != nil
}

// give appends the values that an event returns to each stage that has a delay and was asked for
// the event.
func (s *transaction) give(returns []Return, it *item) {
	c, err := order.ParseCopy(header.Value(it.Record, header.Order))
	if err != nil || !it.read() {
		return
	}
	for by, partition := range order.Asks(it.Record) {
		for i := range returns {
			if r := &returns[i]; r.By == by {
				to := stream.Partition{Topic: r.Topic, Index: partition}
				s.Answer(to, it.Record.Time, order.Question{Source: c.Key.Source, Offset: c.Key.Offset}, r.says(it.Row))
			}
		}
	}
}

// says returns the values that an event returns to the stage. It omits features without a value in
// the row.
func (r *Return) says(row *value.Row) *operator.Answer {
	a := &operator.Answer{}
	for _, said := range r.Said {
		if row.Has(said.Slot) {
			a.Say(said.Feature, row, said.Slot)
		}
	}
	return a
}
