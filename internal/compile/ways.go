package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
)

// ways follows events of clients through the steps of a pipeline. It finds where they may end
// without an answer, and where they may get more than one.
type ways struct {
	answers func(topic string) bool // reports whether a record in the topic answers an event

	ends  spec.Problems // where events may end without an answer
	twice spec.Problems // where events that were already answered end or are answered again
	maybe []string      // where a condition decides whether events are answered twice
}

// answered says which steps may have answered the events that reach a step.
type answered struct {
	all    bool   // emits without a condition answered all events
	always string // path of such an emit that some of the events passed, or ""
	ever   string // path of an emit or call that may have answered some of the events, or ""
}

// through follows events through steps. It returns how the events that reach the end are answered;
// come reports whether any event does.
func (w *ways) through(path string, steps []lang.Step, before answered) (after answered, come bool) {
	for i := range steps {
		at := fmt.Sprintf("%s[%d].%s", path, i, steps[i].StepKind().Name)
		effect := steps[i].Effect()
		if effect.Fails {
			w.failure(at+".on_failure", effect.OnFailure, before)
		}
		for _, write := range effect.Writes {
			switch {
			case write.Silent || !w.answers(write.Topic):
			case write.Emit:
				before = w.emit(at, write.Always, before)
			default:
				before.ever = cmp.Or(before.ever, at)
			}
		}
		for _, step := range effect.Elements { // an event may have no elements, or several
			if writes := step.Effect().Writes; slices.ContainsFunc(writes, func(write lang.Write) bool { return w.answers(write.Topic) }) {
				before.ever = cmp.Or(before.ever, at)
			}
		}
		if effect.Collects {
			before = w.group(at, before)
		}
		if effect.Cases != nil {
			if before, come = w.route(at, effect.Cases, before); !come {
				return before, false
			}
		}
	}
	return before, true
}

// emit handles an emit that answers all events, or some by a condition.
func (w *ways) emit(path string, all bool, before answered) answered {
	switch {
	case before.always != "" && all:
		w.twice = append(w.twice, &spec.Problem{
			Path: path, Message: fmt.Sprintf("events that come here already have a reply from %s: clients get only the first of two replies", before.always),
			Hint: "leave one of the topics out of `replies`, or give the emits conditions that exclude each other",
		})
	case before.ever != "":
		w.maybe = append(w.maybe, fmt.Sprintf("replies: events that come to %s may have a reply from %s already: clients get only the first of two replies; use cases of a route, which exclude each other", path, before.ever))
	}
	before.ever = cmp.Or(before.ever, path)
	if all {
		before.all, before.always = true, cmp.Or(before.always, path)
	}
	return before
}

// group handles a group. Only the event that it makes of its members continues.
func (w *ways) group(path string, before answered) answered {
	if before.ever != "" {
		w.twice = append(w.twice, &spec.Problem{
			Path: path, Message: fmt.Sprintf("its events already have a reply from %s, and end with the group", before.ever),
			Hint: "reply below the group, or leave that topic out of `replies`",
		})
	}
	if !before.all {
		w.end(path, "all events of a group but its newest end in the group")
	}
	return answered{all: before.all}
}

// failure follows an event that is given up. If the event writes nothing, it becomes a dead letter.
func (w *ways) failure(path string, steps []lang.Step, before answered) {
	writes := slices.ContainsFunc(steps, func(s lang.Step) bool {
		return slices.ContainsFunc(s.Effect().Writes, func(write lang.Write) bool { return !write.Emit || !w.answers(write.Topic) })
	})
	if after, _ := w.through(path, steps, before); writes && !after.all {
		w.end(path, "events that failed may write outputs, but no reply")
	}
}

// route follows the cases. An event that takes no case becomes a dead letter.
func (w *ways) route(path string, cases []lang.Case, before answered) (after answered, come bool) {
	after.all = true
	for _, way := range cases {
		at := path + "." + way.Name
		switch {
		case way.Then == "drop" && !before.all:
			w.end(at, "events are dropped")
		case way.Then == "":
			if of, comes := w.through(at+".steps", way.Steps, before); comes {
				after = answered{all: after.all && of.all, always: cmp.Or(after.always, of.always), ever: cmp.Or(after.ever, of.ever)}
				come = true
			}
		}
	}
	return after, come
}

func (w *ways) end(path, message string) {
	w.ends = append(w.ends, &spec.Problem{Path: path, Message: message})
}

// inputs finds events that are dropped before the steps.
func (w *ways) inputs(p *lang.Pipeline) {
	for path, in := range p.EachInput() {
		if in.Dedupe != nil {
			w.end(path+".dedupe", "duplicate events are dropped")
		}
		if in.Time.Late == "drop" {
			w.end(path+".time.late", "late events are dropped")
		}
	}
}

// Unanswered returns the places where events may end without an answer: neither a record in a topic
// that answers accepts, nor a dead letter.
func Unanswered(p *lang.Pipeline, answers func(topic string) bool) spec.Problems {
	w := &ways{answers: answers}
	w.inputs(p)
	if after, come := w.through("steps", p.Steps, answered{}); come && !after.all {
		w.end("steps", "events may reach the end of the steps without a reply")
	}
	return w.ends
}
