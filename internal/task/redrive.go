package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// A dead letter that is sent back is resumed where it failed. So effects that are already in state
// or in a topic do not repeat. The header afterbay-resume says where:
//
//	start                         nothing was done: from the beginning
//	late                          its lateness is judged again; its id is known
//	from score fraud              at this step, with the row of the dead letter
//	only; emit decisions          nothing but these outputs, which were too large
//	from let rate; emit decisions both
//
// Steps are found by their names in the pipeline file, so that a corrected file can take its dead
// letters back.

const (
	resumeFrom      = "from "
	resumeOnly      = "only"
	resumeSeparator = "; "
)

// point says where an event continues. The zero value is the beginning.
type point struct {
	done   int    // number of operators that do not run again
	owed   uint64 // emits among the done operators that still run, by index
	seen   bool   // its id was already checked
	judged bool   // its time and lateness were already checked

	composed bool // a group or a join made the event, which was a dead letter
}

// takes reports whether an event that continues at p runs an operator. An operator with At 0 runs
// because another operator failed.
func (p *point) takes(o *operator.Placed) bool {
	if o.At > p.done || o.At == 0 {
		return true
	}
	e, ok := o.Operator.(*operator.Emit)
	return ok && p.owed>>e.Index&1 != 0
}

// after returns the point of an event that began at p and was queued after the first done
// operators.
func (s *resumption) after(p point, done int) point {
	for i := range s.stages[:done] {
		if e := s.emit(i); e != nil {
			p.owed &^= 1 << e.Index
		}
	}
	return point{done: max(p.done, done), owed: p.owed, seen: true, judged: true}
}

// resumption finds where events continue among the operators of a pipeline. The At of the operators
// must be set. A resumption is immutable and safe for concurrent use.
type resumption struct {
	stages []operator.Placed
	labels []string // unique labels of stages: the second of two equal labels ends with " #2"
	row    *decode.Scanner
	made   []value.Slot // texts that the operators make
}

// newResumption returns the resumption of a pipeline with rows of this schema.
func newResumption(stages []operator.Placed, schema *value.Schema) *resumption {
	s := &resumption{stages: stages}
	seen := map[string]int{}
	for i := range stages {
		label := stages[i].Label()
		if seen[label]++; seen[label] > 1 {
			label += " #" + strconv.Itoa(seen[label])
		}
		s.labels = append(s.labels, label)
		s.made = append(s.made, operator.TextsOf(stages[i].Operator)...)
	}
	var fields []decode.Field
	for _, slot := range schema.Slots {
		if slot.Name[0] == 0 {
			continue
		}
		slot.Type.Optional = true
		fields = append(fields, decode.Field{Name: slot.Name, Slot: slot})
	}
	s.row = decode.New(fields)
	return s
}

// emit returns the emit with an index in stages, or nil if the operator there is no emit or i is
// negative.
func (s *resumption) emit(i int) *operator.Emit {
	if i < 0 {
		return nil
	}
	e, _ := s.stages[i].Operator.(*operator.Emit)
	return e
}

// words returns the resume header of an event that continues after the first done operators. owed
// is the set of emits that it still owes, by index.
func (s *resumption) words(done int, owed uint64) string {
	words := resumeOnly
	if done < len(s.stages) {
		words = resumeFrom + s.labels[done]
	}
	for i := range s.stages {
		if e := s.emit(i); e != nil && owed>>e.Index&1 != 0 {
			words += resumeSeparator + s.labels[i]
		}
	}
	return words
}

// find returns the point that a resume header means in this pipeline.
func (s *resumption) find(words string) (point, error) {
	first, owed, _ := strings.Cut(words, resumeSeparator)
	switch first {
	case deadletter.Start:
		return point{}, nil
	case deadletter.Late:
		return point{seen: true}, nil
	}
	p := point{done: len(s.stages), seen: true, judged: true}
	if label, ok := strings.CutPrefix(first, resumeFrom); ok {
		if p.done = slices.Index(s.labels, label); p.done < 0 {
			return point{}, fmt.Errorf("the pipeline has no step `%s`", label)
		}
	} else if first != resumeOnly {
		return point{}, fmt.Errorf("%q does not name the step to continue with", words)
	}
	for label := range strings.SplitSeq(owed, resumeSeparator) {
		if label == "" {
			continue
		}
		e := s.emit(slices.Index(s.labels, label))
		if e == nil {
			return point{}, fmt.Errorf("the pipeline has no step `%s`", label)
		}
		p.owed |= 1 << e.Index
	}
	return p, nil
}

// restore sets a row from the JSON of a dead letter's row. The caller must not change data while
// the row is used. restore reports whether a group or a join made the event.
func (s *resumption) restore(row *value.Row, data []byte) (composed bool, err error) {
	if err := s.row.Scan(data, row); err != nil {
		return false, fmt.Errorf("its row: %w", err)
	}
	return s.completes(row), nil
}

// completes reports whether a group or a join made the event of a restored row. If a group did,
// completes sets the lists of fields that the events of the group did not have yet.
func (s *resumption) completes(row *value.Row) (composed bool) {
	for i := range s.stages {
		switch o := s.stages[i].Operator.(type) {
		case *operator.Group:
			if row.Has(o.Columns.Ended) {
				composed = true
				o.Complete(row)
			}
		case *operator.Join:
			composed = composed || row.Has(o.Matched)
		}
	}
	return composed
}

// lacking returns an error if the row of an event that a group or a join made lacks a required
// field. This happens if the input did not have the field when the event was made.
func lacking(row *value.Row, fields []decode.Field) error {
	for i := range fields {
		if s := fields[i].Slot; !s.Type.Optional && !row.Has(s) {
			return fmt.Errorf("the event was created before field %q was added, so it has no value for it: make the field optional", fields[i].Name)
		}
	}
	return nil
}

// recount counts the texts that the operators made in a stored row.
func (s *resumption) recount(row *value.Row) error { return row.Recount(s.made) }

// rerun repeats the effects of the first operators on a restored row. It computes the expressions
// of let and decide, which may have changed since the event failed, and finds the cases of routes.
// It reports false if a route drops the event.
func (s *resumption) rerun(row *value.Row, done int) (bool, error) {
	on, err := s.redo(row, done, true)
	if on && done < len(s.stages) && !s.stages[done].Guard.Holds(row) {
		return false, fmt.Errorf("its route does not contain step `%s`, where it failed", s.labels[done])
	}
	return on, err
}

// beyond is rerun for an event that is made of others, after the first operators processed those.
// It returns how many operators are done, including those of other cases.
func (s *resumption) beyond(row *value.Row, done int) (beyond int, on bool, err error) {
	on, err = s.redo(row, done, false)
	for done < len(s.stages) && !s.stages[done].Guard.Holds(row) {
		done++
	}
	return done, on, err
}

// redo implements rerun and beyond. If anew is set, it computes all expressions again. Otherwise it
// computes only those without a value in the row.
func (s *resumption) redo(row *value.Row, done int, anew bool) (bool, error) {
	if err := s.recount(row); err != nil {
		return false, err
	}
	e := operator.Event{Row: row}
	for i := range s.stages[:done] {
		stage := &s.stages[i]
		if !stage.Guard.Holds(row) {
			continue
		}
		if again, ok := stage.Operator.(operator.Redoable); ok {
			if err := again.Redo(&e, anew); err != nil {
				return false, fmt.Errorf("step `%s` above the one that failed: %w", s.labels[i], err)
			}
			if !e.Alive() {
				return false, nil
			}
		} else if operator.Lacks(row, stage.Operator) {
			return false, fmt.Errorf("step `%s` is new and above the step that failed, so it would be skipped", s.labels[i])
		}
	}
	return true, nil
}

// goOn sets a queued event to continue at an operator. The event may have been a dead letter before
// it was queued. The error is the event's.
func (ch *chunk) goOn(it *item, stage int) error {
	if it.Return = deadletter.Returned(it.Record.Headers); it.Return != nil {
		it.point, _ = ch.plan.resumption.find(it.Return.Resume) // find succeeded when the record was read
	}
	it.point = ch.plan.resumption.after(it.point, stage)
	return ch.plan.resumption.recount(it.Row)
}

// words returns the resume header for a dead letter of the event. It returns "" if the event cannot
// be resumed, because effects would repeat.
func (ch *chunk) words(it *item) string {
	f, all := it.Failure, len(ch.plan.Stages)
	switch {
	case ch.plan.Answers != nil: // the event already finished, and this record only returns its values to a stage
		return ""
	case f.At > it.point.done:
		return ch.plan.resumption.words(f.At-1, it.Owed)
	case f.At > 0: // an emit that the event owed
		return ch.plan.resumption.words(it.point.done, it.point.owed&^it.Emits|it.Owed)
	case it.Owed != 0:
		return ch.plan.resumption.words(all, it.Owed)
	case f.Stage == "late":
		return deadletter.Late
	case f.Stage == "call" || f.Stage == "each" || f.Stage == "source": // some of its records may already be written
		return ""
	case it.Return != nil:
		return it.Return.Resume
	}
	return deadletter.Start
}
