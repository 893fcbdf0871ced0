// Package redrive says where an event that became a dead letter goes on when it
// is sent back, and brings it there, so that nothing is done a second time that
// state or a topic already shows. The header afterbay-resume says it:
//
//	start                         nothing was done: from the beginning
//	late                          its lateness is judged again; its id is known
//	from score fraud              at this step, with the row of the dead letter
//	only; emit decisions          nothing but these outputs, which were too large
//	from let rate; emit decisions both
//
// Steps are found by what the file names, so that a file which was corrected in
// between takes its dead letters back.
package redrive

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

const (
	from      = "from "
	only      = "only"
	separator = "; "
)

// Point is where an event goes on. The zero value is the beginning.
type Point struct {
	Done   int    // stages that are not run again
	Owed   uint64 // emits among them that are, by index
	Seen   bool   // its id is known
	Judged bool   // its time and lateness are
}

// Takes reports whether an event that goes on at p runs a stage. One without a
// place is run because another failed.
func (p *Point) Takes(o *operator.Placed) bool {
	if o.At > p.Done || o.At == 0 {
		return true
	}
	e, ok := o.Operator.(*operator.Emit)
	return ok && p.Owed>>e.Index&1 != 0
}

// After returns where an event goes on that was parked when the first stages
// were done, and had begun at p.
func (s *Stages) After(p Point, done int) Point {
	for i := range s.stages[:done] {
		if e := s.emit(i); e != nil {
			p.Owed &^= 1 << e.Index
		}
	}
	return Point{Done: max(p.Done, done), Owed: p.Owed, Seen: true, Judged: true}
}

// Stages are those of a pipeline, whose At is set. They do not change, and are
// safe for concurrent use.
type Stages struct {
	stages []operator.Placed
	labels []string
	row    *decode.Scanner
	made   []value.Slot // texts that the stages make
}

// New returns the stages of a pipeline whose rows have this schema.
func New(stages []operator.Placed, schema *value.Schema) *Stages {
	s := &Stages{stages: stages}
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

// emit returns an emit by its place; nil where another operator, or none, stands.
func (s *Stages) emit(i int) *operator.Emit {
	if i < 0 {
		return nil
	}
	e, _ := s.stages[i].Operator.(*operator.Emit)
	return e
}

// Labels returns the labels of the stages. Each is unique: of stages that share one, the
// second has " #2" behind it.
func (s *Stages) Labels() []string { return s.labels }

// Words returns what says that an event goes on after the first stages, and still
// owes emits, by index.
func (s *Stages) Words(done int, owed uint64) string {
	words := only
	if done < len(s.stages) {
		words = from + s.labels[done]
	}
	for i := range s.stages {
		if e := s.emit(i); e != nil && owed>>e.Index&1 != 0 {
			words += separator + s.labels[i]
		}
	}
	return words
}

// Find returns the point that words mean in this pipeline.
func (s *Stages) Find(words string) (Point, error) {
	first, owed, _ := strings.Cut(words, separator)
	switch first {
	case deadletter.Start:
		return Point{}, nil
	case deadletter.Late:
		return Point{Seen: true}, nil
	}
	p := Point{Done: len(s.stages), Seen: true, Judged: true}
	if label, ok := strings.CutPrefix(first, from); ok {
		if p.Done = slices.Index(s.labels, label); p.Done < 0 {
			return Point{}, fmt.Errorf("the pipeline has no step `%s`", label)
		}
	} else if first != only {
		return Point{}, fmt.Errorf("%q does not say where to go on", words)
	}
	for label := range strings.SplitSeq(owed, separator) {
		if label == "" {
			continue
		}
		e := s.emit(slices.Index(s.labels, label))
		if e == nil {
			return Point{}, fmt.Errorf("the pipeline has no step `%s`", label)
		}
		p.Owed |= 1 << e.Index
	}
	return p, nil
}

// Restore sets a row to what the JSON of a dead letter's row has, whose bytes
// must not change while the row is used.
func (s *Stages) Restore(row *value.Row, data []byte) error {
	if err := s.row.Scan(data, row); err != nil {
		return fmt.Errorf("its row: %w", err)
	}
	return nil
}

// Recount counts the texts that the stages made in a row that was stored.
func (s *Stages) Recount(row *value.Row) error { return row.Recount(s.made) }

// Rerun does what the first stages do to a restored row that has no effect: it
// computes the expressions of let and decide, which may be others than when the
// event failed, and finds the ways of routes. It reports whether the event goes on:
// not where a route drops it.
func (s *Stages) Rerun(row *value.Row, done int) (bool, error) {
	on, err := s.rerun(row, done, true)
	if on && done < len(s.stages) && !s.stages[done].Guard.Holds(row) {
		return false, fmt.Errorf("its route leads past step `%s`, where it failed", s.labels[done])
	}
	return on, err
}

// Beyond is Rerun for an event that is made behind the first stages, of others that
// went through them. It returns how many stages are behind it, with those that are not
// on its way.
func (s *Stages) Beyond(row *value.Row, done int) (beyond int, on bool, err error) {
	on, err = s.rerun(row, done, false)
	for done < len(s.stages) && !s.stages[done].Guard.Holds(row) {
		done++
	}
	return done, on, err
}

// rerun is Rerun and Beyond. It computes expressions anew, or only where the row has
// no value of theirs.
func (s *Stages) rerun(row *value.Row, done int, anew bool) (bool, error) {
	if err := s.Recount(row); err != nil {
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
			return false, fmt.Errorf("step `%s` is above the one that failed and was not there then, so it would be left out", s.labels[i])
		}
	}
	return true, nil
}
