package process

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// answering compares a gateway file with the pipelines of the process. Each event of a client must
// end in a topic that the gateway reads.
type answering struct {
	gateway *config.Gateway
	runners []*pipeline.Runner
	lists   map[string]string // list of the file that names each topic
}

func newAnswering(g *config.Gateway, runners []*pipeline.Runner) *answering {
	a := &answering{gateway: g, runners: runners, lists: map[string]string{}}
	for path, topic := range g.Topics() {
		list, _, _ := strings.Cut(strings.TrimPrefix(path, "pipeline."), "[")
		a.lists[topic] = list
	}
	return a
}

// Fit says how a gateway file and pipelines fit together.
type Fit struct {
	Gateway   spec.Problems
	Pipelines map[int]spec.Problems // by index of the pipeline
	Warnings  []string              // warnings about the gateway
	Key       string                // key of the gateway's events, for the first pipeline that reads them; "" if no pipeline does
	Behind    []int                 // indexes of the pipelines that receive clients' events
}

// CompareGateway compares a gateway file with the pipelines of the process.
func CompareGateway(g *config.Gateway, runners []*pipeline.Runner) Fit {
	a := newAnswering(g, runners)
	fit := a.check()
	fit.Key, fit.Behind = a.key(), a.behind()
	return fit
}

// check follows events from the gateway through the pipelines that receive them. An event without a
// reply is an error, or a warning if the file has unreplied: expire.
func (a *answering) check() (u Fit) {
	u.Pipelines = map[int]spec.Problems{}
	behind := a.behind()
	if len(behind) == 0 {
		u.Gateway = append(u.Gateway, a.noPipeline())
		return u
	}
	unanswered := func(of *spec.Problems, path string, errs ...*spec.Problem) {
		if a.gateway.Pipeline.Unreplied != "expire" {
			*of = append(*of, errs...)
			return
		}
		for _, e := range errs {
			u.Warnings = append(u.Warnings, path+e.Message)
		}
	}
	u.Gateway = append(u.Gateway, a.encoded()...)
	for _, i := range behind {
		r, wrong := a.runners[i], spec.Problems(nil)
		if e := a.keyed(r); e != nil {
			wrong = append(wrong, e)
		}
		for _, e := range r.Unanswered(func(topic string) bool { return a.lists[topic] == "outputs" || a.goesOn(topic) }) {
			unanswered(&wrong, fmt.Sprintf("pipeline %s, %s: ", r.Name(), e.Path), e)
		}
		for _, end := range r.Endings() {
			if e := a.ending(r, end); e != nil {
				unanswered(&u.Gateway, "", e)
			}
		}
		if wrong != nil {
			u.Pipelines[i] = wrong
		}
	}
	for _, e := range a.unwritten() { // another program may write the topic; if there are errors, this may be their cause
		if len(u.Pipelines)+len(u.Gateway) > 0 {
			u.Gateway = append(u.Gateway, e)
		} else {
			u.Warnings = append(u.Warnings, e.Path+": "+e.Message)
		}
	}
	return u
}

// encoded returns the topics of the file with records that are not JSON. Clients could not read
// these.
func (a *answering) encoded() (found spec.Problems) {
	for path, topic := range a.gateway.Topics() {
		for _, r := range a.runners {
			if path != "pipeline.input" && slices.Contains(r.Encoded, topic) {
				found = append(found, &spec.Problem{
					Path: path, Message: fmt.Sprintf("pipeline %q writes topic %q with a format, and clients get JSON", r.Name(), topic),
					Hint: "let the pipeline write the replies to a separate topic without a format, and name that topic",
				})
			}
		}
	}
	return found
}

// behind returns the indexes of the pipelines that receive clients' events.
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

// key returns the key field of the gateway's events, for the first pipeline that reads them
// directly. It returns "" if no pipeline does.
func (a *answering) key() string {
	for _, r := range a.runners {
		if key := r.KeyOf(a.gateway.Pipeline.Input); key != "" {
			return key
		}
	}
	return ""
}

// keyed returns a problem if a pipeline needs the gateway's events by another key than the first
// pipeline.
func (a *answering) keyed(r *pipeline.Runner) *spec.Problem {
	topic, first := a.gateway.Pipeline.Input, a.key()
	if key := r.KeyOf(topic); key != "" && key != first {
		return &spec.Problem{
			Path: "input.key", Message: fmt.Sprintf("topic %q is keyed by %q for an earlier pipeline of the chain: events of clients would be dead letters here", topic, first),
			Hint: copyBy(key),
		}
	}
	return nil
}

func copyBy(key string) string {
	return fmt.Sprintf("repartition them by %s: add `repartition: %d` to the input", key, compile.DefaultPartitions)
}

// goesOn reports whether a pipeline reads a topic.
func (a *answering) goesOn(topic string) bool {
	return slices.ContainsFunc(a.runners, func(r *pipeline.Runner) bool { return slices.Contains(r.Inputs(), topic) })
}

func (a *answering) noPipeline() *spec.Problem {
	var inputs []string
	for _, r := range a.runners {
		inputs = append(inputs, r.Inputs()...)
	}
	return &spec.Problem{
		Path: "pipeline.input", Message: fmt.Sprintf("no pipeline here reads topic %q: events of clients would only expire", a.gateway.Pipeline.Input),
		Hint: "name the input of one, or the file of the pipeline that has it; they read " + strings.Join(inputs, ", "),
	}
}

// ending returns a problem if the gateway does not read a topic where clients' events end, or reads
// it as another kind of end.
func (a *answering) ending(r *pipeline.Runner, end compile.Ending) *spec.Problem {
	list := a.lists[end.Topic]
	switch {
	case list == end.As, list == "" && a.goesOn(end.Topic):
		return nil
	case list != "":
		return &spec.Problem{
			Path: "pipeline." + list, Message: fmt.Sprintf("topic %q of pipeline %q is not a topic of %s", end.Topic, r.Name(), list),
			Hint: fmt.Sprintf("name it in %s instead", end.As),
		}
	}
	return a.nobodyReads(r.Name(), end)
}

func (a *answering) nobodyReads(writer string, end compile.Ending) *spec.Problem {
	return &spec.Problem{
		Path: "pipeline." + end.As, Message: fmt.Sprintf("the gateway does not read topic %q: events of clients that pipeline %q ends there would only expire", end.Topic, writer),
		Hint: fmt.Sprintf("add it: %s: [%s]; or let them expire: unreplied: expire", end.As, strings.Join(append(a.of(end.As), end.Topic), ", ")),
	}
}

// unread finds missing topics with the log alone. If the log has both the dead letters and the ends
// of a pipeline, but the file names only one of both topics, it reports the other.
func (a *answering) unread(topics []stream.Topic) (found spec.Problems) {
	there := func(name string) bool {
		return slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == name })
	}
	for _, t := range topics {
		owner, ok := naming.Owner(t.Name, naming.Ended)
		letters := deadletter.Topic(owner)
		switch {
		case !ok || !there(letters):
		case a.lists[t.Name] == "" && a.lists[letters] == "dead_letters":
			found = append(found, a.nobodyReads(owner, compile.Ending{Topic: t.Name, As: "outputs"}))
		case a.lists[t.Name] == "outputs" && a.lists[letters] == "":
			found = append(found, a.nobodyReads(owner, compile.Ending{Topic: letters, As: "dead_letters"}))
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
func (a *answering) unwritten() (found spec.Problems) {
	var written []string
	for _, r := range a.runners {
		written = append(written, r.Outputs()...)
	}
	for path, topic := range a.gateway.Topics() {
		if path != "pipeline.input" && !slices.Contains(written, topic) {
			found = append(found, &spec.Problem{
				Path: path, Message: fmt.Sprintf("no pipeline here writes topic %q", topic), Hint: "they write " + strings.Join(written, ", "),
			})
		}
	}
	return found
}

// Fits returns an error if clients' events would get no reply from these pipelines.
func (f *Gateway) Fits(pipelines []Pipeline) error {
	u := CompareGateway(f.file, Runners(pipelines))
	f.warnings, f.key = u.Warnings, u.Key
	var found []error
	if len(u.Gateway) > 0 {
		found = append(found, f.file.Explain(u.Gateway))
	}
	for i, p := range pipelines {
		if errs := u.Pipelines[i]; len(errs) > 0 {
			found = append(found, p.Source.Explain(p.Index, errs))
		}
	}
	if len(found) > 0 {
		return failure.CannotRun(found...)
	}
	return nil
}
