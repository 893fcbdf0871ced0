package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// answering compares a gateway file with the pipelines beside it: each event of a
// client is to end in a topic that the gateway reads.
type answering struct {
	gateway *config.Gateway
	runners []*afterbay.Runner
	lists   map[string]string // of each topic of the file, the list that names it
}

func newAnswering(g *config.Gateway, runners []*afterbay.Runner) *answering {
	a := &answering{gateway: g, runners: runners, lists: map[string]string{}}
	for path, topic := range g.Topics() {
		list, _, _ := strings.Cut(strings.TrimPrefix(path, "pipeline."), "[")
		a.lists[topic] = list
	}
	return a
}

// unfit is what of a gateway file and pipelines does not fit.
type unfit struct {
	gateway  afterbay.Errors
	pipeline map[int]afterbay.Errors // by index of the runner
	warnings []string                // of the gateway
}

// check follows events from the gateway through the pipelines that they come to. What
// nobody answers is a warning where the file says that it may expire.
func (a *answering) check() (u unfit) {
	u.pipeline = map[int]afterbay.Errors{}
	behind := a.behind()
	if len(behind) == 0 {
		u.gateway = append(u.gateway, a.noPipeline())
		return u
	}
	unanswered := func(of *afterbay.Errors, path string, errs ...*afterbay.Error) {
		if a.gateway.Pipeline.Unreplied != "expire" {
			*of = append(*of, errs...)
			return
		}
		for _, e := range errs {
			u.warnings = append(u.warnings, path+e.Message)
		}
	}
	for _, i := range behind {
		r, wrong := a.runners[i], afterbay.Errors(nil)
		if e := a.keyed(r); e != nil {
			wrong = append(wrong, e)
		}
		for _, e := range r.Unanswered(func(topic string) bool { return a.lists[topic] == "outputs" || a.goesOn(topic) }) {
			unanswered(&wrong, fmt.Sprintf("pipeline %s, %s: ", r.Name(), e.Path), e)
		}
		for _, end := range r.Endings() {
			if e := a.ending(r, end); e != nil {
				unanswered(&u.gateway, "", e)
			}
		}
		if wrong != nil {
			u.pipeline[i] = wrong
		}
	}
	for _, e := range a.unwritten() { // something else may write it; or else this is why
		if len(u.pipeline)+len(u.gateway) > 0 {
			u.gateway = append(u.gateway, e)
		} else {
			u.warnings = append(u.warnings, e.Path+": "+e.Message)
		}
	}
	return u
}

// behind returns the pipelines that clients' events come to, by index.
func (a *answering) behind() (list []int) {
	topics := []string{a.gateway.Pipeline.Input}
	for n := 0; n < len(topics); n++ {
		for i, r := range a.runners {
			if !slices.Contains(list, i) && slices.Contains(r.Inputs(), topics[n]) {
				list = append(list, i)
				topics = append(topics, r.Outputs()...)
			}
		}
	}
	return list
}

// key returns the field that the gateway's events are keyed by, for the first of the
// pipelines that reads them as they are; "" where none does.
func (a *answering) key() string {
	for _, r := range a.runners {
		if key := r.KeyOf(a.gateway.Pipeline.Input); key != "" {
			return key
		}
	}
	return ""
}

// keyed returns what is wrong where a pipeline needs the gateway's events by another
// key than the first one.
func (a *answering) keyed(r *afterbay.Runner) *afterbay.Error {
	topic, first := a.gateway.Pipeline.Input, a.key()
	if key := r.KeyOf(topic); key != "" && key != first {
		return &afterbay.Error{
			Path: "input.key", Message: fmt.Sprintf("topic %q is keyed by %q, for a pipeline before this one: events of clients would be dead letters here", topic, first),
			Hint: copyBy(key),
		}
	}
	return nil
}

func copyBy(key string) string {
	return fmt.Sprintf("have them copied by %s: add `repartition: %d` to the input", key, afterbay.DefaultPartitions)
}

// goesOn reports whether a pipeline reads a topic.
func (a *answering) goesOn(topic string) bool {
	return slices.ContainsFunc(a.runners, func(r *afterbay.Runner) bool { return slices.Contains(r.Inputs(), topic) })
}

func (a *answering) noPipeline() *afterbay.Error {
	var inputs []string
	for _, r := range a.runners {
		inputs = append(inputs, r.Inputs()...)
	}
	return &afterbay.Error{
		Path: "pipeline.input", Message: fmt.Sprintf("no pipeline here reads topic %q: events of clients would only expire", a.gateway.Pipeline.Input),
		Hint: "name the input of one, or the file of the pipeline that has it; they read " + strings.Join(inputs, ", "),
	}
}

// ending returns why a topic that ends events of clients does not: nobody reads it, or
// as another end.
func (a *answering) ending(r *afterbay.Runner, end afterbay.Ending) *afterbay.Error {
	list := a.lists[end.Topic]
	switch {
	case list == end.As, list == "" && a.goesOn(end.Topic):
		return nil
	case list != "":
		return &afterbay.Error{
			Path: "pipeline." + list, Message: fmt.Sprintf("topic %q of pipeline %q is no topic of %s", end.Topic, r.Name(), list),
			Hint: fmt.Sprintf("name it in %s instead", end.As),
		}
	}
	return a.nobodyReads(r.Name(), end)
}

func (a *answering) nobodyReads(pipeline string, end afterbay.Ending) *afterbay.Error {
	return &afterbay.Error{
		Path: "pipeline." + end.As, Message: fmt.Sprintf("nobody reads topic %q: events of clients that pipeline %q ends there would only expire", end.Topic, pipeline),
		Hint: fmt.Sprintf("add it: %s: [%s]; or let them expire: unreplied: expire", end.As, strings.Join(append(a.of(end.As), end.Topic), ", ")),
	}
}

// unread finds what a log alone shows: of a pipeline whose dead letters or ends the
// file names, the topic of the others, where there is one that the file does not name.
func (a *answering) unread(topics []stream.Topic) (found afterbay.Errors) {
	there := func(name string) bool {
		return slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == name })
	}
	for _, t := range topics {
		pipeline, ok := naming.Owner(t.Name, naming.Ended)
		letters := deadletter.Topic(pipeline)
		switch {
		case !ok || !there(letters):
		case a.lists[t.Name] == "" && a.lists[letters] == "dead_letters":
			found = append(found, a.nobodyReads(pipeline, afterbay.Ending{Topic: t.Name, As: "outputs"}))
		case a.lists[t.Name] == "outputs" && a.lists[letters] == "":
			found = append(found, a.nobodyReads(pipeline, afterbay.Ending{Topic: letters, As: "dead_letters"}))
		}
	}
	return found
}

// of returns the topics that a list of the file names.
func (a *answering) of(list string) (topics []string) {
	for path, topic := range a.gateway.Topics() {
		if strings.HasPrefix(path, "pipeline."+list+"[") {
			topics = append(topics, topic)
		}
	}
	return topics
}

// unwritten returns the topics of the file that no pipeline writes.
func (a *answering) unwritten() (found afterbay.Errors) {
	var written []string
	for _, r := range a.runners {
		written = append(written, r.Outputs()...)
	}
	for path, topic := range a.gateway.Topics() {
		if path != "pipeline.input" && !slices.Contains(written, topic) {
			found = append(found, &afterbay.Error{
				Path: path, Message: fmt.Sprintf("no pipeline here writes topic %q", topic), Hint: "they write " + strings.Join(written, ", "),
			})
		}
	}
	return found
}

// fits refuses pipelines by which clients' events would have no result.
func (f *front) fits(pipelines []pipeline) error {
	a := newAnswering(f.file, runnersOf(pipelines))
	u := a.check()
	f.warnings, f.key = u.warnings, a.key()
	var found []error
	if len(u.gateway) > 0 {
		found = append(found, f.file.Explain(u.gateway))
	}
	for i, p := range pipelines {
		if errs := u.pipeline[i]; len(errs) > 0 {
			found = append(found, p.source.Explain(p.index, errs))
		}
	}
	if len(found) > 0 {
		return cannotRun(found...)
	}
	return nil
}
