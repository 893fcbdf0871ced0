package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/tabular"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/stream"
)

// FeaturesOptions are the flags of afterbay features, which say what each is.
type FeaturesOptions struct {
	File, Events, Out, Pipeline string
	Columns                     []string
	Topic, Format               string
	Tables                      []string
	FromData                    string
	Open                        func(data string) (inspect.Directory, func() error, error) // a data directory
}

// Features writes a row for each event that the pipeline took.
func (a *Program) Features(ctx context.Context, c FeaturesOptions) (err error) {
	format, err := tabular.FormatOf(c.Out)
	if err != nil {
		return failure.Usage("--out %v", err)
	}
	e := &export{FeaturesOptions: c, meter: term.NewMeter(a.Err)}
	if e.dryRun, err = a.newDryRun(ctx, c.File, func(p *lang.Pipeline) bool { return c.Pipeline == "" || p.Name == c.Pipeline }, e.batch); err != nil {
		return err
	}
	e.quiet, e.tables = true, c.Tables
	if err := e.choose(); err != nil {
		return err
	}
	feed, end, err := e.source()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	file, err := os.CreateTemp(filepath.Dir(c.Out), filepath.Base(c.Out)+".*")
	if err != nil {
		return fmt.Errorf("%w: name a file that can be written with --out", err)
	}
	defer os.Remove(file.Name()) // it is renamed where all went well
	defer file.Close()
	if e.writer, err = tabular.New(file, format, e.columns); err != nil {
		return err
	}
	err = e.run(feed)
	e.meter.Clear()
	if err = errors.Join(err, e.writer.Close()); err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(0o644), file.Close(), os.Rename(file.Name(), c.Out)); err != nil {
		return err
	}
	e.report()
	return nil
}

// export is rows on their way to a file.
type export struct {
	FeaturesOptions
	*dryRun
	meter   *term.Meter
	part    *part
	columns []value.Slot
	writer  tabular.Writer

	missing     []string // names that a missing model cuts off
	written     int64
	late        int64
	dropped     int64
	dead        map[string]int // by stage
	approximate map[string]int // rows by the feature that is approximate
	filled      []uint64       // which slots had a value
}

// choose finds the pipeline and its columns.
func (e *export) choose() error {
	e.dead, e.approximate = map[string]int{}, map[string]int{}
	e.part = e.parts[0]
	if e.Pipeline == "" && len(e.parts) > 1 {
		return failure.Usage("%s has %d pipelines: name the one whose rows to write with --pipeline", e.File, len(e.parts))
	}
	if e.Pipeline != "" {
		i := slices.IndexFunc(e.parts, func(p *part) bool { return p.runner.Name() == e.Pipeline })
		if i < 0 {
			return failure.Usage("--pipeline %s: %s has no pipeline of that name", e.Pipeline, e.File)
		}
		e.part = e.parts[i]
	}
	schema := e.part.runner.Plan.Schema
	e.missing = e.part.beyond()
	columns := e.Columns
	if len(columns) == 0 {
		columns = []string{"meta.id", "meta.key", "meta.time", "*"}
	}
	for _, name := range columns {
		found := e.expand(name)
		if len(found) == 0 && slices.Contains(e.missing, name) {
			continue // said at the end
		}
		if len(found) == 0 {
			return failure.Usage("--columns %s: pipeline %s has no such name", name, e.part.runner.Name())
		}
		for _, slot := range found {
			slot.Type.Optional = slot.Type.Optional || e.part.mayLack(slot.Name, len(e.missing) > 0)
			e.columns = append(e.columns, slot)
		}
	}
	if len(e.columns) == 0 {
		return fmt.Errorf("none of the columns is known without model %s", strings.Join(e.part.absentModels(), ", "))
	}
	e.filled = make([]uint64, (len(schema.Slots)+63)/64)
	return nil
}

// expand returns the slots of a name of --columns.
func (e *export) expand(name string) []value.Slot {
	var found []value.Slot
	prefix, several := strings.CutSuffix(name, "*")
	for _, slot := range e.part.runner.Plan.Schema.Slots {
		switch {
		case slot.Name == name,
			name == "*" && e.part.stage(slot.Name) != "",
			several && strings.HasSuffix(prefix, ".") && strings.HasPrefix(slot.Name, prefix):
			found = append(found, slot)
		}
	}
	return found
}

// beyond returns the names of the pipeline that its schema lacks, since they
// come with or after a score whose model is not there.
func (p *part) beyond() []string {
	var list []string
	schema := p.runner.Plan.Schema
	for name := range p.stages {
		_, there := schema.Lookup(name)
		if prefix, several := strings.CutSuffix(name, "*"); several {
			there = slices.ContainsFunc(schema.Slots, func(s value.Slot) bool { return strings.HasPrefix(s.Name+".", prefix) })
		} else if _, several := p.stages[name+".*"]; several {
			continue
		}
		if !there && name != "meta.*" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// mayLack reports whether a row may lack a name although its type is not
// optional: where a route leads past it or, in a pipeline that was cut, a
// feature reads what is cut off.
func (p *part) mayLack(name string, cut bool) bool {
	if stage := p.stage(name); stage == "" || stage == "event" {
		return false
	}
	return cut || slices.ContainsFunc(p.pipeline.Steps, func(s lang.Step) bool {
		return s.Effect().Cases != nil
	})
}

// absentModels returns the names of the models whose file is not there.
func (p *part) absentModels() []string {
	var list []string
	for _, m := range p.pipeline.Models {
		if _, err := os.Stat(m.File); m.File != "" && err != nil {
			list = append(list, fmt.Sprintf("%s (%s)", m.Name, m.File))
		}
	}
	return list
}

// source returns what appends the events, and what to call after.
func (e *export) source() (feed func(context.Context) error, end func() error, err error) {
	if e.FromData != "" {
		return e.data()
	}
	source, err := e.Program.Events(e.FeaturesOptions.Events, e.Format)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error { return e.publish(ctx, source, e.Topic) }, source.Close, nil
}

// data returns the source of a data directory's topic: its records with their
// times and, where that is how they are read, in their partitions.
func (e *export) data() (feed func(context.Context) error, end func() error, err error) {
	topic := cmp.Or(e.Topic, e.parts[0].runner.Input())
	directory, closeDirectory, err := e.Open(e.FromData)
	if err != nil {
		return nil, nil, err
	}
	about, err := inspect.Find(e.ctx, directory, topic)
	if err == nil && !e.straight {
		err = e.log.CreateTopic(e.ctx, stream.Topic{Name: topic, Partitions: int32(len(about.Partitions)), Key: about.Key})
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeDirectory())
	}
	e.past = func(topic string) iter.Seq2[stream.Record, error] {
		return directory.Records(e.ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions})
	}
	return func(ctx context.Context) error {
		const batch = 4096
		var records []stream.Record
		for r, err := range directory.Records(ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
			if err != nil {
				return err
			}
			if e.straight {
				r.Partition.Index = 0
			}
			if records = append(records, r); len(records) == batch {
				if err := e.play(ctx, records); err != nil {
					return err
				}
				records = records[:0]
			}
		}
		return e.play(ctx, records)
	}, closeDirectory, nil
}

// batch writes the rows of a batch.
func (e *export) batch(batch []*seen) error {
	for _, s := range batch {
		if s.part != e.part {
			continue
		}
		if s.late {
			e.late++
		}
		switch {
		case s.failed:
			e.dead[s.failure]++
			continue
		case s.dropped:
			e.dropped++
			continue
		}
		for _, feature := range s.approximate {
			e.approximate[feature]++
		}
		for i, word := range s.row.Present {
			e.filled[i] |= word
		}
		if err := e.writer.Write(&s.row); err != nil {
			return err
		}
		e.written++
	}
	e.meter.Show("%d events, %d rows, %s", e.appended, e.written, e.meter.Rate(e.appended))
	return nil
}

// report says on standard error what was written and what was not.
func (e *export) report() {
	out := e.Err
	fmt.Fprintf(out, "wrote %d rows of %d columns to %s in %v\n", e.written, len(e.columns), e.FeaturesOptions.Out, e.meter.Elapsed())
	fmt.Fprintf(out, "no rows: %d dropped, dead letters: %s\n", e.dropped, term.Counts(e.dead))
	writeApproximate(out, e.approximate)
	var runners []*pipeline.Runner
	for _, p := range e.parts {
		runners = append(runners, p.runner)
	}
	for _, w := range pipeline.Arrivals(runners)[slices.Index(e.parts, e.part)] {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	for _, odd := range e.part.runner.Snapshot().OddTimes {
		fmt.Fprintf(out, "event times look wrong: %s\n", odd)
	}
	if len(e.missing) > 0 {
		fmt.Fprintf(out, "not known without model %s: %s\n", strings.Join(e.part.absentModels(), ", "), strings.Join(e.missing, ", "))
	}
	var empty []string
	for _, c := range e.columns {
		if e.filled[c.Bit>>6]>>(c.Bit&63)&1 == 0 {
			empty = append(empty, c.Name)
		}
	}
	if len(empty) > 0 && e.written > 0 {
		fmt.Fprintf(out, "empty in all rows: %s\n", strings.Join(empty, ", "))
	}
	if in := e.part.pipeline.Input; in.Topic != "" && in.Time.Field == "" && e.FromData == "" {
		fmt.Fprintf(out, "pipeline %s names no field of event time (input.time): its windows and gaps are those of this run, not of the events\n", e.part.runner.Name())
	}
}
