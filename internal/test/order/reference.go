package order

import (
	"fmt"
	"slices"
	"strings"
)

// Want is the expected result of the compiler for a pipeline.
type Want struct {
	Stages  []string // labels of the stages, in the order of an event
	Waves   int      // how many of them are done event by event, in the order of the log
	Failure []string // of stages that ask: the steps for an event that they give up, after their labels
	Refused []string // paths of what the order refuses, sorted; the rest is empty then
}

// stage is one operation on an event.
type stage struct {
	step   *Step
	list   *list
	label  string
	fed    []string // features that it only reads: they are written below
	own    []string // features that it reads and counts the event in
	writes []string // features that are read above and count the event here
	waves  bool     // it needs a result that is known only after the earlier events of the key
	path   string
	keeps  []string // paths of what keeps something of each key
	gives  []string // those of it that are done for an event that is given up
}

// list is a list of steps in the file: that of the pipeline, of a case or of a failure.
type list struct {
	within *list
	route  *Step // nil of the pipeline
	number int   // of the case
	label  string
}

// above reports whether the events of other go through l.
func (l *list) above(other *list) bool {
	for ; other != nil; other = other.within {
		if other == l {
			return true
		}
	}
	return false
}

// labelled is the label of a stage.
func (l *list) labelled(kind, name string) string {
	if l.label == "" {
		return kind + " " + name
	}
	return kind + " " + name + " in " + l.label
}

// reference goes through a pipeline from its top to its end.
type reference struct {
	stages  []stage
	known   map[string]*list // names that were introduced so far, and where
	fed     map[string]bool  // columns of features that are written below
	failure []string
	refused map[string]bool
}

// Order returns the expected result of the compiler. It applies the rules in docs/design to each
// stage, one after the other.
func (p *Pipeline) Order() Want {
	r := &reference{known: map[string]*list{}, fed: map[string]bool{}, refused: map[string]bool{}}
	top := &list{}
	for _, name := range []string{"a", "b", "user", "url"} {
		r.known[name] = top
	}
	r.steps("steps", p.Steps, top)
	r.keys()
	var w Want
	for path, refused := range r.refused {
		if refused {
			w.Refused = append(w.Refused, path)
		}
	}
	if slices.Sort(w.Refused); w.Refused != nil {
		return w
	}
	return r.want()
}

// has reports whether a name may be read in a list.
func (r *reference) has(name string, in *list) bool {
	where, ok := r.known[name]
	return ok && where.above(in)
}

// waiting is a feature that waits for names to be introduced below it.
type waiting struct {
	*Feature
	path string
}

func (r *reference) steps(path string, steps []Step, in *list) {
	var wait []waiting
	for i := range steps {
		s := &steps[i]
		at := fmt.Sprintf("%s[%d].%s", path, i, s.Kind)
		if s.Kind == "features" {
			wait = append(wait, r.features(at, s, in)...)
		} else {
			r.step(at, s, in)
		}
		for _, name := range s.Makes {
			r.known[name] = in
		}
		wait = r.written(wait, in)
	}
}

// written adds the writing of the features with names that are all known.
func (r *reference) written(wait []waiting, in *list) (still []waiting) {
	var ready, paths []string
	for _, w := range wait {
		if slices.ContainsFunc(w.Uses, func(name string) bool { return !r.has(name, in) }) {
			still = append(still, w)
			continue
		}
		ready, paths = append(ready, w.Name), append(paths, w.path)
		if r.belowGroup(in) {
			r.refused[w.path] = true
		}
	}
	if ready != nil {
		r.stages = append(r.stages, stage{step: &Step{Kind: "features"}, list: in, label: in.labelled("features", ready[0]+" write"), writes: ready, waves: true, keeps: paths})
	}
	return still
}

// features counts and reads features where they stand. If a name of a feature is not known yet, it
// only reads the feature.
func (r *reference) features(path string, s *Step, in *list) (wait []waiting) {
	at := stage{step: s, list: in, path: path}
	for i := range s.Features {
		f := &s.Features[i]
		if r.belowGroup(in) {
			r.refused[path+"."+f.Name] = true
			continue
		}
		if slices.ContainsFunc(f.Uses, func(name string) bool { return !r.has(name, in) }) {
			wait = append(wait, waiting{f, path + "." + f.Name})
			at.fed = append(at.fed, f.Name)
			r.fed[f.Name+".mean"] = true
		} else {
			at.own, at.keeps = append(at.own, f.Name), append(at.keeps, path+"."+f.Name)
			at.waves = at.waves || r.readsFed(f.Uses)
		}
		r.known[f.Name+".mean"] = in
	}
	if at.fed != nil || at.own != nil {
		r.stages = append(r.stages, at)
	}
	return wait
}

func (r *reference) readsFed(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return r.fed[name] })
}

// strays refuses a step that reads names which are out of scope where it stands.
func (r *reference) strays(path string, s *Step, in *list) bool {
	out := slices.ContainsFunc(s.Uses, func(name string) bool { return !r.has(name, in) })
	if out {
		r.refused[path+"."+s.Name] = true
	}
	return out
}

// asks reports whether a step asks a model or service, for many events at once.
func (s *Step) asks() bool {
	return s.Kind == "score" || s.Kind == "fetch" || s.Kind == "lookup" && s.Outside
}

func (r *reference) step(path string, s *Step, in *list) {
	name := s.Name
	if s.Kind == "call" && !s.Keyed && s.Makes != nil {
		name += " " + s.Makes[0]
	}
	at := stage{step: s, list: in, label: in.labelled(s.Kind, name), path: path}
	at.waves = s.asks() || !r.strays(path, s, in) && r.readsFed(s.Uses)
	for i := range s.Cases {
		at.waves = at.waves || r.readsFed(s.Cases[i].Uses)
	}
	switch {
	case s.Kind == "call" && s.Keyed && r.belowGroup(in):
		r.refused[path] = true
		return
	case s.Kind == "score" && s.Model == Kept && r.belowGroup(in):
		r.refused[path+".model"] = true
	case s.Kind == "group" && r.belowGroup(in):
		r.refused[path] = true
		return
	case s.Kind == "group" && r.leftAbove(in):
		r.refused[path] = true
	}
	if s.Keyed {
		at.keeps = []string{path}
	}
	if s.Model == Kept {
		at.keeps = []string{path + ".model"}
	}
	if s.OnFailure != nil {
		at.gives = r.onFailure(path+".on_failure", s, at.label, in)
	}
	r.stages = append(r.stages, at)
	for i := range s.Cases {
		way := &s.Cases[i]
		label := way.Name
		if in.label != "" {
			label = in.label + "." + label
		}
		r.steps(path+"."+way.Name+".steps", way.Steps, &list{within: in, route: s, number: i, label: label})
	}
}

// onFailure records the steps for an event that a step gives up. They are not among the stages:
// they run where the event is given up.
func (r *reference) onFailure(path string, s *Step, label string, in *list) (keeps []string) {
	var labels []string
	own := &list{within: in}
	for i := range s.OnFailure {
		f := &s.OnFailure[i]
		r.strays(fmt.Sprintf("%s[%d].%s", path, i, f.Kind), f, own)
		for _, made := range f.Makes {
			r.known[made] = own
		}
		name := f.Name
		if f.Kind == "call" && !f.Keyed && f.Makes != nil {
			name += " " + f.Makes[0]
		}
		if at := fmt.Sprintf("%s[%d].call", path, i); f.Keyed {
			keeps = append(keeps, at)
			r.refused[at] = r.refused[at] || r.belowGroup(in)
		}
		labels = append(labels, in.labelled(f.Kind, name))
	}
	r.failure = append(r.failure, label+": "+strings.Join(labels, ", "))
	return keeps
}

// belowGroup reports whether a group stands above in the way of the events of a list.
func (r *reference) belowGroup(in *list) bool {
	return slices.ContainsFunc(r.stages, func(s stage) bool { return s.step.Kind == "group" && s.list.above(in) })
}

// begin returns the first stage of the waves.
func (r *reference) begin() int {
	for i := range r.stages {
		if r.stages[i].waves {
			return i
		}
	}
	return len(r.stages)
}

// onlyReads reports whether a stage reads features and does nothing else.
func (s *stage) onlyReads() bool { return s.fed != nil && s.own == nil }

// leftAbove reports whether events of a list leave something above its end, or are done in
// waves there.
func (r *reference) leftAbove(in *list) bool {
	return slices.ContainsFunc(r.stages[r.begin():], func(s stage) bool {
		leaves := s.waves || s.own != nil || s.writes != nil || s.step.Kind == "emit" || s.step.Kind == "call"
		return leaves && s.list.above(in)
	})
}

// queues reports whether a stage may queue events: as its file says, or where its model,
// outside of the process, does not answer.
func (s *stage) queues() (may, says bool) {
	for l := s.list; l != nil && l.route != nil; l = l.within {
		says = says || l.route.Cases[l.number].Async
	}
	switch says = says || s.step.Async || s.step.Model == Called; {
	case s.step.Kind == "fetch", s.step.Outside:
		return true, true
	case s.step.Kind == "score":
		return says || s.step.Model == Far, says
	}
	return false, false
}

// excludes reports whether no event comes to both lists: they are in two cases of a route.
func (l *list) excludes(other *list) bool {
	for ; l != nil; l = l.within {
		for o := other; o != nil; o = o.within {
			if l.route != nil && l.route == o.route && l.number != o.number {
				return true
			}
		}
	}
	return false
}

// ordered reports whether the events of a key wait for each other: a step says so, or it
// costs nothing, as they do for features that are written below what may queue them.
func (r *reference) ordered() bool {
	may, says := false, false
	for i := range r.stages {
		s := &r.stages[i]
		if s.step.Ordered || s.writes != nil && may && !says {
			return true
		}
		m, y := s.queues()
		may, says = may || m, says || y
	}
	return false
}

// keys refuses state per key below a step that queues events in any order. It also refuses groups
// and models with state if the events of a key wait for each other.
func (r *reference) keys() {
	if r.ordered() {
		if slices.ContainsFunc(r.stages, func(s stage) bool { return s.step.Kind == "group" }) {
			r.refused["steps"] = true
		}
		for i := range r.stages { // a timer removes the state of a key, and waits for no event
			if s := &r.stages[i]; s.step.Model == Kept {
				r.refused[s.keeps[0]] = true
			}
		}
		return
	}
	for i := range r.stages {
		s := &r.stages[i]
		queued := slices.ContainsFunc(r.stages[:i], func(above stage) bool {
			may, _ := above.queues()
			return may && !above.list.excludes(s.list)
		})
		for _, path := range s.keeps {
			r.refused[path] = r.refused[path] || queued
		}
		itself, _ := s.queues()
		for _, path := range s.gives {
			r.refused[path] = r.refused[path] || queued || itself
		}
	}
}

// inLog reports whether a stage is done in the order of the log: it stands above the
// waves, or is needed by a group, which is made of events in that order.
func (r *reference) inLog(i int) bool {
	s := &r.stages[i]
	if i < r.begin() {
		return true
	}
	return !s.onlyReads() && slices.ContainsFunc(r.stages[i:], func(below stage) bool { return below.step.Kind == "group" && s.list.above(below.list) })
}

func (r *reference) want() Want {
	begin := r.begin()
	var log, reads, waves []string
	for i := range r.stages {
		s := &r.stages[i]
		label := func(names []string) string { return s.list.labelled("features", names[0]) }
		switch {
		case i < begin && (s.fed != nil || s.own != nil):
			if s.own != nil {
				log = append(log, label(s.own))
			}
			for _, name := range s.fed { // known no sooner than in the waves, so read when they begin
				reads = append(reads, s.list.labelled("features", name))
			}
		case s.fed != nil || s.own != nil:
			waves = append(waves, label([]string{s.step.Name}))
		case r.inLog(i):
			log = append(log, s.label)
		default:
			waves = append(waves, s.label)
		}
	}
	return Want{Stages: slices.Concat(log, reads, waves), Waves: len(log), Failure: r.failure}
}
