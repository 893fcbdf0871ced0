package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// world is a scenario with loaded pipelines and built records. Every way of running the scenario
// starts from it.
type world struct {
	*Scenario
	pipelines []pipeline        // in dependency order: writers of a topic before its readers
	records   [][]stream.Record // by command
	announce  func(text string)
	serial    bool // the order of records is defined only if each event waits for the previous one
}

// pipeline is a pipeline and its place in a file.
type pipeline struct {
	lang.Pipeline
	file   *config.File
	index  int             // index in the file
	runner *running.Runner // for queries only; it is not run
}

// prepare loads the pipelines and builds the records.
func (s *Scenario) prepare(o Options) (*world, error) {
	w := &world{Scenario: s, announce: o.Announce, records: make([][]stream.Record, len(s.commands))}
	var errs []error
	for i := range s.commands {
		if s.commands[i].word == "pipeline" {
			errs = append(errs, w.load(&s.commands[i], o.Code))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := w.chain(); err != nil {
		return nil, err
	}
	w.serial = slices.ContainsFunc(w.pipelines, func(p pipeline) bool {
		return p.runner.Plan.Arrival && len(p.runner.Reads()) > 1 || (w.partitions > 1 || p.runner.Plan.Queues()) && len(w.pipelines) > 1
	})
	for i := range s.commands {
		errs = append(errs, w.check(i, &s.commands[i]))
	}
	return w, errors.Join(errs...)
}

func (s *Scenario) errorAt(c *command, format string, args ...any) error {
	return &Error{s.name, c.line, fmt.Sprintf(format, args...)}
}

// load loads and checks the pipelines of a pipeline command.
func (w *world) load(c *command, code lang.Code) error {
	path := w.name
	text := []byte(strings.Repeat("\n", c.line) + strings.Join(c.below, "\n") + "\n") // empty lines keep the line numbers of the scenario
	if len(c.args) > 0 {
		path = w.path(c.args[0])
		var err error
		if text, err = readFile(path); err != nil {
			return w.errorAt(c, "%v", err)
		}
	}
	kinds, err := builtin.Kinds().With(code)
	if err != nil {
		return w.errorAt(c, "%v", err)
	}
	file, err := lang.ParseBeside(path, text, func(name string) (string, bool) {
		value, ok := w.environment[name]
		return value, ok
	}, kinds)
	if err != nil {
		return err
	}
	for i, p := range file.Pipelines {
		if slices.ContainsFunc(w.pipelines, func(other pipeline) bool { return other.Name == p.Name }) {
			return w.errorAt(c, "a second pipeline is named %q", p.Name)
		}
		p.Code = code
		if found := p.Engine.Check(); len(found) > 0 {
			return file.Explain(i, found)
		}
		w.divide(&p)
		runner, err := builtin.New(p, running.Options{Offline: true, Reach: true, Announce: w.announce})
		if err != nil {
			return file.Explain(i, err)
		}
		p.Sinks = slices.DeleteFunc(slices.Clone(p.Sinks), func(s lang.Sink) bool {
			return !slices.ContainsFunc(code.Sinks, func(k sink.Kind) bool { return k.Name == s.Kind })
		})
		w.pipelines = append(w.pipelines, pipeline{p, file, i, runner})
	}
	return nil
}

// divide sets the number of partitions of a pipeline's topics to that of the scenario.
func (w *world) divide(p *lang.Pipeline) {
	p.Input.Partitions = w.partitions
	p.Inputs = slices.Clone(p.Inputs)
	for i := range p.Inputs {
		p.Inputs[i].Partitions = w.partitions
	}
	if len(p.Inputs) > 0 || p.Input.Repartition > 0 {
		p.Input.Repartition = w.partitions
	}
}

// chain orders the pipelines, and checks the topics that they read from each other.
func (w *world) chain() error {
	runners := make([]*running.Runner, len(w.pipelines))
	for i, p := range w.pipelines {
		runners[i] = p.runner
	}
	order, found := running.Chain(runners)
	var errs []error
	var ordered []pipeline
	for i, p := range w.pipelines {
		if err, ok := found[i]; ok {
			errs = append(errs, p.file.Explain(p.index, err))
		}
	}
	for _, i := range order {
		ordered = append(ordered, w.pipelines[i])
	}
	w.pipelines = ordered
	return errors.Join(errs...)
}

// runnerOf builds the runner of a pipeline for a way.
func (w *world) runnerOf(i int, v way) (*running.Runner, error) {
	p := w.pipelines[i].Pipeline
	p.Commit = lang.Commit{Size: v.step, Interval: v.interval}
	p.Delivery = v.delivery
	p.Steps = withBatch(p.Steps, v.batch)
	options := v.options
	options.Offline = true
	options.Announce = w.announce
	r, err := builtin.New(p, options)
	if err != nil {
		return nil, fmt.Errorf("pipeline %q: %w", p.Name, err)
	}
	return r, nil
}

// withBatch returns a copy of the steps with another batch size for model calls.
func withBatch(list []lang.Step, size int) []lang.Step {
	if size == 0 {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		switch s := list[i].(type) {
		case *steps.Score:
			score := *s
			score.Batch.Size, list[i] = size, &score
		case *steps.Route:
			route := &steps.Route{Cases: slices.Clone(s.Cases)}
			for j := range route.Cases {
				route.Cases[j].Steps = withBatch(route.Cases[j].Steps, size)
			}
			list[i] = route
		case *steps.Each:
			each := *s
			each.Steps, list[i] = withBatch(s.Steps, size), &each
		}
	}
	return list
}

// check checks a command against the pipelines, and builds the records of an event.
func (w *world) check(i int, c *command) error {
	var named []string // the name of the pipeline, if the command has one
	switch c.word {
	case "event":
		return w.event(i, c)
	case "row":
		table := c.row.Partition.Topic
		if !slices.ContainsFunc(w.pipelines, func(p pipeline) bool { return looksUp(p.Steps, table) }) {
			return w.errorAt(c, "no pipeline looks up %s", table)
		}
	case "state":
		named = c.args[1:]
	case "watermark", "counts":
		named = c.args
	}
	if len(named) > 0 && !slices.ContainsFunc(w.pipelines, func(p pipeline) bool { return p.Name == named[0] }) {
		return w.errorAt(c, "no pipeline is named %q", named[0])
	}
	return nil
}

// looksUp reports whether any of the steps looks up a table.
func looksUp(list []lang.Step, table string) bool {
	for s := range lang.EachStep(list) {
		if l, ok := s.(*steps.Lookup); ok && l.Table == table {
			return true
		}
	}
	return false
}

func (w *world) event(i int, c *command) error {
	if c.event.partition >= w.partitions {
		return w.errorAt(c, "there is no partition %d: the line partitions defines their number", c.event.partition)
	}
	var topics []string
	for _, p := range w.pipelines {
		for _, in := range p.EachInput() {
			if topics = append(topics, in.Topic); c.event.topic != "" && in.Topic != c.event.topic {
				continue
			}
			for n := range c.event.times {
				w.records[i] = append(w.records[i], c.event.record(in, n))
			}
			return nil
		}
	}
	return w.errorAt(c, "no pipeline reads topic %q; they read %s", c.event.topic, strings.Join(topics, ", "))
}

// named returns the index of the pipeline that a command names, or 0 if it names none.
func (w *world) named(args []string) int {
	return max(0, slices.IndexFunc(w.pipelines, func(p pipeline) bool { return len(args) > 0 && p.Name == args[0] }))
}
