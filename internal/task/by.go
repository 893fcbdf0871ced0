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

// Features by another field than the key are computed by a stage: docs/adr/0043-by.md.
//
//  1. The repartitioner writes an ask for each event that has the field: CopyPlan.Asks.
//  2. The stage counts it and answers: Plan.Answers.
//  3. The reader of the copies waits for the answers: Plan.Asked.
//  4. The event says what is to be counted after a delay: Plan.Returns.

// Staged is what a plan has to do with stages.
type Staged struct {
	Asked   []string      // fields whose stages answer
	Answers *AnswersPlan  // nil is no stage
	Delay   time.Duration // of what events say to the stage; 0 is that they say nothing
	Returns []Return
}

// Ask is what the stage of a field is asked with.
type Ask struct {
	Topic  string
	By     value.Slot   // the field
	Fields []value.Slot // that the stage uses
}

// AnswersPlan makes a plan that of a stage.
type AnswersPlan struct {
	By      string       // the field
	Columns []value.Slot // that it answers with

	names string
}

// Return is what an event says to the stage of a field when it is through.
type Return struct {
	Topic string
	By    string // the field
	Said  []operator.Said
}

// WaitsFor returns what the copies that the plan reads wait for.
func (s *Staged) WaitsFor() order.Stages { return order.Stages{By: s.Asked, Delay: s.Delay} }

// ask appends the asks for an event to the stages of its fields, and returns what its copy says
// of them.
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

// answer appends the answer of a stage to an ask. A turn has none.
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

// answers reports whether an event is an ask, whose answer has its failure: the event becomes
// a dead letter where it waits.
func (p *Plan) answers(it *item) bool {
	return p.Answers != nil && header.Value(it.Record, header.Ask) != nil
}

// give appends what an event says to the stages that it was asked for and that have a delay.
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

// says returns what an event says. A row without a value says nothing of that feature.
func (r *Return) says(row *value.Row) *operator.Answer {
	a := &operator.Answer{}
	for _, said := range r.Said {
		if row.Has(said.Slot) {
			a.Say(said.Feature, row, said.Slot)
		}
	}
	return a
}
