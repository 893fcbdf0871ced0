package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// RowsOptions select the events to process and the columns to return.
type RowsOptions struct {
	File, Events string
	Pipeline     string   // name of the pipeline; "" is the only one of the file
	Columns      []string // names, or prefix.*, in order; empty means meta.id, meta.key, meta.time and all others
	Topic        string   // topic for the events; "" is the input of the first pipeline. With FromLog, "" means the inputs of Pipeline, which runs alone
	Format       string   // format of the events
	Partitions   int32    // partitions of the topic for events of a file; 0 uses the pipeline file
	Key          string   // field that keys them there; "" is the key of the input
	Tables       []string // TOPIC:KEY=FILE
	Parallelism  int      // members in the consumer group of each pipeline; 0 is 1
	Outputs      bool     // keep the pipelines' outputs in the log of the replay

	// FromLog takes the events from the topic in the log that Open opens, and not from a file.
	FromLog bool
	Open    func() (inspect.Directory, func() error, error)

	// Committed takes only events that the pipelines have committed in that log.
	Committed bool

	// End is called with the log of the replay when all events are processed. It may be nil.
	End func(log *memory.Log) error
}

// Event is an event of the pipeline with its outcome.
type Event struct {
	Record      *stream.Record
	Row         *value.Row
	Time        time.Time // zero if unknown
	Late        bool
	Dropped     bool
	Collected   bool // a group or join collected it: an event made of it follows
	Made        bool // a group or join made it of other events; Record is not in the log
	Failed      bool
	Uncopied    bool     // a repartitioner dropped it, or failed: Row is empty
	Stage       string   // stage where it failed
	Approximate []string // approximate features
}

// Source is a partition that events were taken from, with the range of its records.
type Source struct {
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	First     stream.Offset `json:"first"`
	Next      stream.Offset `json:"next"`
}

// Rows computes the rows of a pipeline. Create it with NewRows.
type Rows struct {
	RowsOptions
	Columns  []value.Slot // the selected columns
	Missing  []string     // names that are missing because of a missing model
	Appended int64        // number of events so far
	Sources  []Source     // the partitions that events were taken from, by topic and partition; set when Run has returned

	// TablesRead is the end offset of the rows of tables as of the event that the replay took. It
	// is set with Committed: the pipelines have read the tables up to there.
	TablesRead map[stream.Partition]stream.Offset

	Forced inspect.Forced // forced events of the live pipeline; set when Run has returned

	*dryRun
	part *part
	each func(*Event) error
}

// NewRows loads the pipelines of a file and finds the columns.
func (a *Program) NewRows(ctx context.Context, o RowsOptions) (*Rows, error) {
	r := &Rows{RowsOptions: o}
	var err error
	wanted := func(p *lang.Pipeline) bool { return o.Pipeline == "" || p.Name == o.Pipeline }
	alone := o.FromLog && o.Topic == "" && !o.Committed // the log contains the outputs of the others
	runs := func(p *lang.Pipeline) bool { return !alone || wanted(p) }
	if r.dryRun, err = a.newDryRun(ctx, o.File, o.Parallelism, runs, wanted, r.batch); err != nil {
		return nil, err
	}
	r.quiet, r.apart, r.tables = !o.Outputs, true, o.Tables
	return r, r.choose()
}

// Run processes the events, and calls each for every event of the pipeline, in processing order
// within each partition.
func (r *Rows) Run(each func(*Event) error) error {
	r.each = each
	feed, end, err := r.source()
	if err != nil {
		return err
	}
	err = r.run(func(ctx context.Context) error {
		if err := feed(ctx); err != nil {
			return err
		}
		if err := r.finish(ctx); err != nil || r.End == nil {
			return err
		}
		if err := r.readTablesOut(ctx); err != nil {
			return err
		}
		return r.End(r.log)
	})
	if r.Sources == nil {
		r.Sources = r.taken()
	}
	slices.SortFunc(r.Sources, func(a, b Source) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return errors.Join(err, end())
}

// Runner returns the runner of the pipeline.
func (r *Rows) Runner() *pipeline.Runner { return r.part.runner }

// Stage returns the kind of the step that introduces a name, or event. It returns "" if the name is
// not shown.
func (r *Rows) Stage(name string) string { return r.part.stage(name) }

// Straight reports whether all topics of the replay have one partition.
func (r *Rows) Straight() bool { return r.straight }

// FollowsNotes reports whether tables are read as the notes of the pipeline say.
func (r *Rows) FollowsNotes() bool { return len(r.mirrored) > 0 }

// AbsentModels returns the names of the models with a missing file.
func (r *Rows) AbsentModels() []string { return r.part.absentModels() }

// Timeless reports whether the input has no field for event time.
func (r *Rows) Timeless() bool {
	return r.part.pipeline.Input.Topic != "" && r.part.pipeline.Input.Time.Field == ""
}

// Arrivals returns the reasons why rows depend on the order of arrival.
func (r *Rows) Arrivals() []string {
	var runners []*pipeline.Runner
	for _, p := range r.parts {
		runners = append(runners, p.runner)
	}
	list := pipeline.Arrivals(runners)[slices.Index(r.parts, r.part)]
	if len(r.parts) > 1 && r.FromLog {
		list = append(list, "all topics of this replay of a chain have one partition, so rows may differ from the live ones. Without --topic, rows are computed from the outputs of the earlier pipelines in the log")
	}
	return slices.DeleteFunc(list, func(finding string) bool {
		for topic := range r.mirrored {
			if finding == pipeline.NewestRows(topic) {
				return true
			}
		}
		return false
	})
}

// taken returns the ranges of records that were appended to the log of the replay.
func (r *Rows) taken() (list []Source) {
	for p, next := range r.appends {
		list = append(list, Source{p.Topic, p.Index, 0, next})
	}
	return list
}

// choose finds the pipeline and its columns.
func (e *Rows) choose() error {
	if e.Pipeline == "" && len(e.parts) > 1 {
		return failure.Usage("%s has %d pipelines: name the pipeline of the rows with --pipeline", e.File, len(e.parts))
	}
	i := slices.IndexFunc(e.parts, func(p *part) bool { return e.Pipeline == "" || p.runner.Name() == e.Pipeline })
	if i < 0 {
		return failure.Usage("--pipeline %s: %s has no pipeline of that name", e.Pipeline, e.File)
	}
	e.part = e.parts[i]
	e.Missing = e.part.beyond()
	columns := e.RowsOptions.Columns
	if len(columns) == 0 {
		columns = []string{"meta.id", "meta.key", "meta.time", "*"}
	}
	for _, name := range columns {
		found := e.expand(name)
		if len(found) == 0 && slices.Contains(e.Missing, name) {
			continue // reported at the end
		}
		if len(found) == 0 {
			return failure.Usage("--columns %s: pipeline %s has no such name", name, e.part.runner.Name())
		}
		for _, slot := range found {
			slot.Type.Optional = slot.Type.Optional || e.part.mayLack(slot.Name, len(e.Missing) > 0)
			e.Columns = append(e.Columns, slot)
		}
	}
	if len(e.Columns) == 0 {
		return fmt.Errorf("none of the columns is known without model %s", strings.Join(e.part.absentModels(), ", "))
	}
	return nil
}

// expand returns the slots for a name in --columns.
func (e *Rows) expand(name string) []value.Slot {
	var found []value.Slot
	prefix, several := strings.CutSuffix(name, "*")
	for _, slot := range e.part.runner.Plan.Schema.Slots {
		switch {
		case e.part.runner.Plan.OfElements(slot): // elements of lists have it, and events do not
		case slot.Name == name,
			name == "*" && e.part.stage(slot.Name) != "",
			several && strings.HasSuffix(prefix, ".") && strings.HasPrefix(slot.Name, prefix):
			found = append(found, slot)
		}
	}
	return found
}

// beyond returns the names of the pipeline that its schema lacks, because they come with or after a
// score of a missing model.
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

// mayLack reports whether a row may lack a name although its type is not optional. There are three
// reasons: a route bypasses it, a group computes only used names, or the pipeline was cut and a
// feature reads a name of the missing part.
func (p *part) mayLack(name string, cut bool) bool {
	stage := p.stage(name)
	if stage == "" || stage == "event" {
		return false
	}
	return cut || stage == "group" || slices.ContainsFunc(p.pipeline.Steps, func(s lang.Step) bool {
		return s.Effect().Cases != nil
	})
}

// absentModels returns the names and files of the models with a missing file.
func (p *part) absentModels() []string {
	var list []string
	for _, m := range p.pipeline.Models {
		if _, err := os.Stat(m.File); m.File != "" && err != nil {
			list = append(list, fmt.Sprintf("%s (%s)", m.Name, m.File))
		}
	}
	return list
}

// source returns a function that appends the events, and one to call at the end.
func (e *Rows) source() (feed func(context.Context) error, end func() error, err error) {
	if e.FromLog && (e.Partitions > 0 || e.Key != "") {
		return nil, nil, failure.Usage("--partitions and --key are for events of a file: those of a log have their partitions")
	}
	if e.FromLog {
		return e.data()
	}
	if err := e.placeFile(); err != nil {
		return nil, nil, err
	}
	source, err := e.Program.Events(e.RowsOptions.Events, e.Format)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error { return e.publish(ctx, source, e.Topic) }, source.Close, nil
}

// placeFile creates the topic for the events of a file as the options say, so that the events have
// the same partitions as in production.
func (e *Rows) placeFile() error {
	if e.Partitions == 0 && e.Key == "" {
		return nil
	}
	if e.straight {
		return failure.Usage("--partitions and --key: all topics of this replay have one partition, as the order of the events depends on when they are copied")
	}
	topic := cmp.Or(e.Topic, e.parts[0].runner.Input())
	for _, in := range e.parts[0].pipeline.EachInput() {
		if in.Topic != topic {
			continue
		}
		about := stream.Topic{Name: topic, Partitions: cmp.Or(e.Partitions, in.Partitions, pipeline.DefaultPartitions), Key: cmp.Or(e.Key, in.KeyPath())}
		copied := in.Repartition > 0 || len(e.parts[0].pipeline.Inputs) > 0
		if !copied && about.Key != in.KeyPath() {
			return failure.Usage("--key %s: the pipeline reads %s by the key %s. Events of another key need input.repartition", e.Key, topic, in.KeyPath())
		}
		if !copied && in.Partitions > 0 && about.Partitions != in.Partitions {
			return failure.Usage("--partitions %d: the pipeline file says that %s has %d", e.Partitions, topic, in.Partitions)
		}
		return e.log.CreateTopic(e.ctx, about)
	}
	return nil // publish reports that there is no such topic
}

// data returns the source for the topics of a log. The records keep their times. If the replay has
// the same partitions, they also keep their partitions.
func (e *Rows) data() (feed func(context.Context) error, end func() error, err error) {
	topics := []string{e.Topic}
	if e.Topic == "" {
		topics = e.sourceTopics()
	}
	directory, closeDirectory, err := e.Open()
	if err != nil {
		return nil, nil, err
	}
	log := &recorded{Rows: e, directory: directory}
	e.past = log.past
	if e.Committed {
		if err := log.readTables(); err != nil {
			return nil, nil, errors.Join(err, closeDirectory())
		}
	}
	if e.mirrors = !e.straight; e.mirrors {
		if err := log.follow(); err != nil {
			return nil, nil, errors.Join(err, closeDirectory())
		}
	}
	for _, topic := range topics {
		if err := log.add(topic); err != nil {
			return nil, nil, errors.Join(err, closeDirectory())
		}
	}
	if !e.straight {
		if e.Forced, err = inspect.FollowForced(e.ctx, directory, e.part.runner, log.ends(), &e.notes); err != nil {
			return nil, nil, errors.Join(err, closeDirectory())
		}
	}
	return log.feed, closeDirectory, nil
}

// sourceTopics returns the topics that the pipelines read and do not write themselves.
func (e *Rows) sourceTopics() (list []string) {
	for _, p := range e.parts {
		for _, topic := range p.runner.Inputs() {
			written := slices.ContainsFunc(e.parts, func(o *part) bool { return slices.Contains(o.runner.Outputs(), topic) })
			if !written && !slices.Contains(list, topic) {
				list = append(list, topic)
			}
		}
	}
	return list
}

// recorded holds the records of a log in the topics that the pipelines read.
type recorded struct {
	*Rows
	directory inspect.Directory
}

// add adds a topic to the sources.
func (l *recorded) add(topic string) error {
	about, err := inspect.Find(l.ctx, l.directory, topic)
	if errors.Is(err, stream.ErrUnknownTopic) {
		return fmt.Errorf("%w. Rows are computed from the inputs of pipeline %s in the log: if another pipeline writes the topic, run that pipeline first", err, l.part.runner.Name())
	}
	if err != nil {
		return err
	}
	if !l.straight {
		if err := l.log.CreateTopic(l.ctx, stream.Topic{Name: topic, Partitions: int32(len(about.Partitions)), Key: about.Key}); err != nil {
			return err
		}
	}
	var committed map[int32]stream.Offset
	limited := l.Committed || len(l.mirrored) > 0 // the rows that later events found are unknown
	if limited {
		if committed, err = l.committed(topic); err != nil {
			return err
		}
	}
	for i, extent := range about.Partitions {
		next := extent.Next
		if limited {
			next = min(next, committed[int32(i)])
		}
		l.Sources = append(l.Sources, Source{topic, int32(i), extent.First, next})
	}
	return nil
}

// ends returns the end offsets of the partitions.
func (l *recorded) ends() map[stream.Partition]stream.Offset {
	ends := map[stream.Partition]stream.Offset{}
	for _, s := range l.Sources {
		ends[stream.Partition{Topic: s.Topic, Index: s.Partition}] = s.Next
	}
	return ends
}

// past yields the rows of a table from the log.
func (l *recorded) past(topic string) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for r, err := range l.directory.Records(l.ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
			if err == nil && l.Committed && r.Offset >= l.TablesRead[r.Partition] {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// readTables finds, for each partition of a table, how far the pipelines have read it at most.
func (l *recorded) readTables() error {
	l.TablesRead = map[stream.Partition]stream.Offset{}
	for _, p := range l.parts {
		read, err := inspect.TablesRead(l.ctx, l.directory, p.runner.Name(), true)
		if err != nil {
			return err
		}
		for _, by := range read {
			for at, next := range by {
				l.TablesRead[at] = max(l.TablesRead[at], next)
			}
		}
	}
	return nil
}

// committed returns, for each partition of a topic, the greatest offset that one of the pipelines
// has committed.
func (l *recorded) committed(topic string) (map[int32]stream.Offset, error) {
	committed := map[int32]stream.Offset{}
	for _, p := range l.parts {
		lags, err := l.directory.Lag(l.ctx, p.runner.Name())
		if err != nil {
			return nil, err
		}
		for _, lag := range lags {
			if lag.Topic == topic {
				committed[lag.Partition] = max(committed[lag.Partition], lag.Committed)
			}
		}
	}
	return committed, nil
}

// feed replays the records partition by partition. If records of several partitions meet, it
// replays them sorted by time instead. If the pipeline sorts them itself, this only keeps few of
// them waiting; no result depends on it.
func (l *recorded) feed(ctx context.Context) error {
	const batch = 4096
	var records []stream.Record
	take := func(r stream.Record) error {
		if l.straight {
			r.Partition.Index = 0
		}
		if records = append(records, r); len(records) < batch {
			return nil
		}
		err := l.play(ctx, records)
		records = records[:0]
		return err
	}
	all := []iter.Seq2[stream.Record, error]{}
	for _, s := range l.Sources {
		all = append(all, l.records(ctx, s))
	}
	if l.straight || l.ordered {
		all = []iter.Seq2[stream.Record, error]{byTime(all)}
	}
	for _, list := range all {
		for r, err := range list {
			if err == nil {
				err = take(r)
			}
			if err != nil {
				return err
			}
		}
	}
	return l.play(ctx, records)
}

// records yields the records of a partition to replay.
func (l *recorded) records(ctx context.Context, s Source) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		if s.First >= s.Next {
			return
		}
		for r, err := range l.directory.Records(ctx, inspect.Query{Topic: s.Topic, Partition: s.Partition}) {
			if err == nil && r.Offset >= s.Next || !yield(r, err) {
				return
			}
		}
	}
}

// byTime merges records of several partitions by time. Records of one partition keep their order.
func byTime(all []iter.Seq2[stream.Record, error]) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		type head struct {
			stream.Record
			turn time.Time // the newest time in the partition so far
			next func() (stream.Record, error, bool)
		}
		var heads []*head
		advance := func(h *head) (more bool, err error) {
			if h.Record, err, more = h.next(); h.Time.After(h.turn) {
				h.turn = h.Time
			}
			return more, err
		}
		for _, list := range all {
			h := &head{}
			var stop func()
			h.next, stop = iter.Pull2(list)
			defer stop()
			heads = append(heads, h)
		}
		for i := 0; i < len(heads); {
			more, err := advance(heads[i])
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			if i++; !more {
				i--
				heads = slices.Delete(heads, i, i+1)
			}
		}
		for len(heads) > 0 {
			least := 0
			for i := range heads {
				if heads[i].turn.Before(heads[least].turn) {
					least = i
				}
			}
			if !yield(heads[least].Record, nil) {
				return
			}
			more, err := advance(heads[least])
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			if !more {
				heads = slices.Delete(heads, least, least+1)
			}
		}
	}
}

// batch passes the events of the pipeline in a batch to each.
func (r *Rows) batch(batch []*seen) error {
	r.Appended = r.appended
	for _, s := range batch {
		if s.part != r.part {
			continue
		}
		err := r.each(&Event{
			Record: &s.record, Row: &s.row, Time: s.time, Late: s.late, Dropped: s.dropped, Collected: s.collected, Made: s.made, Failed: s.failed, Uncopied: s.copied, Stage: s.failure,
			Approximate: s.approximate,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
