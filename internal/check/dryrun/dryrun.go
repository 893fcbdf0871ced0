// Package dryrun runs the pipelines of a file on a log in memory, for afterbay try, dataset and
// skew.
package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/stream"
)

// Program holds the parts of the program that a dry run uses.
type Program struct {
	Loader   *process.Loader
	Events   func(path, format string) (*ingest.Source, error)
	Out, Err io.Writer
}

// dryRun runs the pipelines of a file on a private log in memory. It returns the results batch by
// batch, in the order of the events.
//
// A single pipeline has the same partitions as in production, so watermarks, ids and rows are the
// same too. If it reads several partitions in order, these become idle when all events are given:
// no clock decides. Records of several partitions may meet in an order that depends on timing, in a
// chain or with `order: arrival`. All topics then have one partition, and events keep the order in
// which they were given.
type dryRun struct {
	*Program
	ctx      context.Context
	log      *memory.Log
	parts    []*part                                            // pipelines, upstream first
	straight bool                                               // all topics have one partition
	ordered  bool                                               // a pipeline reads several partitions in order
	quiet    bool                                               // the log drops outputs that no pipeline reads
	mirrors  bool                                               // the events keep the offsets of their log
	apart    bool                                               // batch gets events without their outputs, in the order of their computation
	tables   []string                                           // files of rows, in the form of --table
	past     func(topic string) iter.Seq2[stream.Record, error] // yields the rows of tables as of the event from a log; may be nil
	notes    pipeline.Notes                                     // notes about the pipeline's processing order in a log
	mirrored map[string]bool                                    // tables with the rows of the log, read as the notes say
	batch    func([]*seen) error

	appended int64
	numbers  map[string]int64 // numbers of the batch's events and of records made from them, by position; of all events if ordered
	next     map[stream.Partition]stream.Offset
	appends  map[stream.Partition]stream.Offset // end offsets of the given events

	mu   sync.Mutex // guards seen
	seen []*seen    // events of the batch
}

// part is a pipeline of a dry run.
type part struct {
	pipeline lang.Pipeline
	runner   *pipeline.Runner
	index    int
	stages   map[string]string // name to stage; prefix.* stands for all names with the prefix
}

// seen is an event of a pipeline with its outcome.
type seen struct {
	*part
	number      int64 // number of the given event that it is, or comes from; from 1
	record      stream.Record
	row         value.Row
	time        time.Time
	late        bool
	dropped     bool
	collected   bool     // a group or join collected it
	made        bool     // a group or join made it of other events
	approximate []string // approximate features
	failed      bool
	failure     string // the stage where it failed
	copied      bool   // seen by the repartitioner: its row has no names
	outputs     []stream.Record
}

// newDryRun loads the pipelines of a file that runs accepts. If cut returns true for a
// pipeline, it ends before the first score of a model that cannot be loaded; a nil cut cuts none.
// batch gets the results of each batch of events.
func (a *Program) newDryRun(ctx context.Context, path string, members int, runs, cut func(*lang.Pipeline) bool, batch func([]*seen) error) (*dryRun, error) {
	file, err := config.Load(path, a.Loader.Kinds)
	if errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%w: name a pipeline file that can be read", err)
	}
	if err != nil {
		return nil, failure.NotValid(err)
	}
	r := &dryRun{Program: a, ctx: ctx, log: memory.New(memory.Options{}), batch: batch, numbers: map[string]int64{}, next: map[stream.Partition]stream.Offset{}, appends: map[stream.Partition]stream.Offset{}}
	var found []error
	var loaded []process.Pipeline
	parts := map[*pipeline.Runner]*part{}
	chosen := slices.DeleteFunc(slices.Clone(file.Pipelines), func(p lang.Pipeline) bool { return !runs(&p) })
	r.straight = len(chosen) > 1 || slices.ContainsFunc(chosen, func(p lang.Pipeline) bool { return byArrival(&p) })
	for i, p := range file.Pipelines {
		if !runs(&p) {
			continue
		}
		if r.straight {
			p.Inputs = slices.Clone(p.Inputs)
			for k := range p.Inputs {
				onePartition(&p.Inputs[k])
			}
			onePartition(&p.Input)
		}
		computeAtOnce(&p)
		play := &part{pipeline: p, stages: stagesOf(&p)}
		play.runner, err = a.Loader.New(p, pipeline.Options{
			Offline: true, Bounded: true, Members: max(1, members), HeldBytes: 1 << 40, Logger: a.Loader.Logger, Reach: true, Rows: cut != nil && cut(&p), Notes: &r.notes, Observe: func(o *pipeline.Observed) { r.observe(play, o) },
		})
		if err != nil {
			found = append(found, file.Explain(i, err))
			continue
		}
		play.addMade()
		r.ordered = r.ordered || play.runner.Plan.Sources != nil
		parts[play.runner] = play
		loaded = append(loaded, process.Pipeline{File: path, Source: file, Index: i, Runner: play.runner})
	}
	if len(found) > 0 {
		return nil, failure.CannotRun(found...)
	}
	ordered, err := process.UpstreamFirst(loaded)
	if err != nil {
		return nil, err
	}
	for i, p := range ordered {
		parts[p.Runner].index = i
		r.parts = append(r.parts, parts[p.Runner])
	}
	return r, nil
}

// byArrival reports whether events of several partitions are processed in order of arrival.
func byArrival(p *lang.Pipeline) bool {
	for _, in := range p.EachInput() {
		if in.Time.ByArrival() {
			return true
		}
	}
	return false
}

// computeAtOnce removes the wait for rows of tables, because the rows are appended first.
func computeAtOnce(p *lang.Pipeline) {
	for s := range lang.EachStep(p.Steps) {
		if l, ok := s.(*steps.Lookup); ok {
			l.Versions.Wait = 0
		}
	}
}

// onePartition gives a topic and its repartition topic one partition each. It keeps a value out of
// range, so that the compiler reports it.
func onePartition(in *lang.Input) {
	if in.Topic != "" && in.Partitions >= 0 && in.Partitions <= 1024 {
		in.Partitions = 1
	}
	if in.Repartition > 0 && in.Repartition <= 1024 {
		in.Repartition = 1
	}
}

// stagesOf returns the stage that introduces each name of a pipeline.
func stagesOf(p *lang.Pipeline) map[string]string {
	stages := map[string]string{"meta.*": ""}
	for _, in := range append(slices.Clone(p.Inputs), p.Input) {
		for _, f := range in.Fields {
			stages[f.Name] = "event"
		}
	}
	for s := range lang.EachStep(p.Steps) {
		for name := range lang.DeclaredBy(p, s) {
			stages[name] = s.StepKind().Name
		}
	}
	return stages
}

// addMade adds the names that joins and groups introduce, if the pipeline uses any of them.
func (p *part) addMade() {
	for s := range lang.EachStep(p.pipeline.Steps) {
		name := ""
		switch s := s.(type) {
		case *steps.Join:
			name = s.Name
		case *steps.Group:
			name = s.Name
		}
		used := slices.ContainsFunc(p.runner.Plan.Schema.Slots, func(slot value.Slot) bool { return strings.HasPrefix(slot.Name, name+".") })
		if name != "" && used {
			p.stages[name+".*"] = s.StepKind().Name
		}
	}
}

// shown returns the stages in display order. decide comes last, after kinds of steps without a
// fixed position.
func (p *part) shown() []string {
	list := []string{"event", "lookup", "let", "features", "fetch", "score", "call"}
	for _, kind := range slices.Sorted(maps.Values(p.stages)) {
		if kind != "" && kind != "decide" && !slices.Contains(list, kind) {
			list = append(list, kind)
		}
	}
	return append(list, "decide")
}

// stage returns the stage that introduces a name, or "" if the name is not shown.
func (p *part) stage(name string) string {
	if s, ok := p.stages[name]; ok {
		return s
	}
	prefix, _, _ := strings.Cut(name, ".")
	return p.stages[prefix+".*"]
}

// observe records an event. Pipelines call it concurrently.
func (r *dryRun) observe(p *part, o *pipeline.Observed) {
	reads := p.runner.Reads()
	s := &seen{
		part: p, record: *o.Record, time: o.Time, late: o.Late, dropped: o.Dropped, collected: o.Collected, made: o.Made, approximate: slices.Clone(o.Approximate), failed: o.Err != nil, failure: o.Stage,
		copied: o.Record.Partition.Topic != reads[len(reads)-1].Topic,
	}
	switch {
	case !s.copied:
		s.row = p.runner.Plan.Schema.NewRows(1)[0]
		copy(s.row.Num, o.Row.Num)
		copy(s.row.Present, o.Row.Present)
		for i, text := range o.Row.Str {
			s.row.Str[i] = strings.Clone(text)
		}
	case !s.failed && !s.dropped:
		return // the pipeline itself observes it again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, s)
}

// run runs the pipelines while feed appends events.
func (r *dryRun) run(feed func(ctx context.Context) error) error {
	defer r.log.Close()
	for _, p := range r.parts {
		if err := p.runner.CreateTopics(r.ctx, r.log); err != nil {
			return err
		}
	}
	if err := r.fillTables(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	var log stream.Log = r.log
	if r.quiet {
		log = newForgetful(r)
	}
	for _, p := range r.parts {
		group.Go(func() error { return p.runner.Run(ctx, log) })
	}
	group.Go(func() error {
		defer stop()
		return feed(ctx)
	})
	err := group.Wait()
	if r.ctx.Err() != nil {
		return errors.New("stopped by a signal")
	}
	return err
}

// fillTables appends the rows of tables. The caller must give the rows of a table that no pipeline
// of the file writes: without them the results would differ from live ones.
func (r *dryRun) fillTables() error {
	given := map[string]bool{}
	for _, text := range r.tables {
		to, path, isFile := strings.Cut(text, "=")
		topic, key, hasKey := strings.Cut(to, ":")
		if !isFile || !hasKey {
			return failure.Usage("--table %s: write TOPIC:KEY=FILE, such as users:user=users.ndjson", text)
		}
		if !slices.ContainsFunc(r.parts, func(p *part) bool { return slices.Contains(p.runner.Tables(), topic) }) {
			return failure.Usage("--table %s: no pipeline looks up %s", text, topic)
		}
		if slices.ContainsFunc(r.parts, func(p *part) bool { return p.runner.AsOfAppend(topic) }) {
			return failure.Usage("--table %s: rows of %s are valid from their append on, which a file does not say: give the lookup a time, or use --from-data", text, topic)
		}
		given[topic] = true
		source, err := r.Events(path, "")
		if err != nil {
			return err
		}
		_, err = ingest.Publish(r.ctx, r.log, source, ingest.Options{Name: source.Name, Format: source.Format, Topic: topic, Key: key})
		if err = errors.Join(err, source.Close()); err != nil {
			return fmt.Errorf("rows of table %s: %w", topic, err)
		}
	}
	for _, p := range r.parts {
		for _, topic := range p.runner.Tables() {
			written := slices.ContainsFunc(r.parts, func(o *part) bool { return slices.Contains(o.runner.Outputs(), topic) })
			if !given[topic] && !written && r.past != nil && p.runner.AsOfEvent(topic) {
				given[topic] = true
				if err := r.copyTable(topic); err != nil {
					return fmt.Errorf("rows of table %s: %w", topic, err)
				}
			}
			if !given[topic] && !written && !r.mirrored[topic] {
				return failure.Usage("pipeline %s looks up %s: name a file of its rows with --table %s:KEY=FILE; an empty one is a table without rows", p.runner.Name(), topic, topic)
			}
		}
	}
	return nil
}

// copyTable appends the rows of a table from a log, with the times of their appends.
func (r *dryRun) copyTable(topic string) error {
	for record, err := range r.past(topic) {
		if err != nil {
			return err
		}
		record.Partition.Index = stream.ByKey
		if err := r.log.Append(r.ctx, record); err != nil {
			return err
		}
	}
	return nil
}

// publish appends the events of a source to a topic; "" is the input of the first pipeline.
func (r *dryRun) publish(ctx context.Context, source *ingest.Source, topic string) error {
	to, err := r.input(ctx, topic)
	if err != nil {
		return err
	}
	_, err = ingest.Publish(ctx, &feed{r}, source, ingest.Options{Name: source.Name, Format: source.Format, Topic: to.Name, Key: to.Key})
	return err
}

// input returns a topic that a pipeline reads; "" is the input of the first pipeline.
func (r *dryRun) input(ctx context.Context, topic string) (stream.Topic, error) {
	topic = cmp.Or(topic, r.parts[0].runner.Input())
	topics, err := r.log.Topics(ctx)
	if err != nil {
		return stream.Topic{}, err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
	if i < 0 {
		return stream.Topic{}, failure.Usage("no pipeline reads topic %s: use --topic %s", topic, r.parts[0].runner.Input())
	}
	return topics[i], nil
}

// feed is an ingest.Appender.
type feed struct{ *dryRun }

// Append implements ingest.Appender.
func (f *feed) Append(ctx context.Context, records ...stream.Record) error {
	return f.play(ctx, records)
}

// AppendOnce implements ingest.Appender.
func (f *feed) AppendOnce(ctx context.Context, _ string, _ int64, records ...stream.Record) (int, error) {
	return 0, f.play(ctx, records)
}

// play appends a batch, waits until the pipelines have processed it, and hands over the results.
func (r *dryRun) play(ctx context.Context, records []stream.Record) error {
	write := r.log.Append
	if r.mirrors {
		write = r.log.Mirror
	}
	if err := write(ctx, records...); err != nil {
		return err
	}
	if !r.ordered {
		clear(r.numbers)
	}
	for i := range records {
		r.appended++
		if !r.apart {
			r.numbers[position(&records[i])] = r.appended
		}
		r.appends[records[i].Partition] = records[i].Offset + 1
	}
	for _, p := range r.parts {
		if err := p.runner.WaitRead(ctx, r.log); err != nil {
			return err
		}
	}
	if r.ordered && !r.apart {
		return nil // events and their outputs may come later
	}
	return r.handOver(ctx)
}

// finish makes the pipelines process the events that wait for others, and hands over the results.
func (r *dryRun) finish(ctx context.Context) error {
	for _, p := range r.parts {
		if err := p.runner.Finish(ctx, r.log); err != nil {
			return err
		}
	}
	return r.handOver(ctx)
}

// handOver passes the observed events to batch.
func (r *dryRun) handOver(ctx context.Context) error {
	r.mu.Lock()
	batch := r.seen
	r.seen = nil
	r.mu.Unlock()
	slices.SortFunc(batch, func(a, b *seen) int { // an event before the events made from it
		return cmp.Or(a.index-b.index, compareBool(b.copied, a.copied), strings.Compare(a.record.Partition.Topic, b.record.Partition.Topic),
			int(a.record.Partition.Index-b.record.Partition.Index), cmp.Compare(a.record.Offset, b.record.Offset))
	})
	if r.apart {
		return r.batch(batch)
	}
	byPosition := map[string]*seen{}
	for _, s := range batch {
		at := position(&s.record)
		if _, ok := r.numbers[at]; !ok {
			r.numbers[at] = r.numbers[cause(&s.record)]
		}
		s.number = r.numbers[at]
		if !s.made && !r.quiet {
			byPosition[s.runner.Name()+" "+at] = s
		}
	}
	slices.SortStableFunc(batch, func(a, b *seen) int { return cmp.Compare(a.number, b.number) })
	if err := r.outputs(ctx, byPosition); err != nil {
		return err
	}
	return r.batch(batch)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func position(r *stream.Record) string {
	return string(header.AppendPosition(make([]byte, 0, 64), r.Partition, r.Offset))
}

// at returns the position where the event was read first.
func (s *seen) at() string { return cmp.Or(header.SourceOf(&s.record), position(&s.record)) }

// cause returns the position of the record that a pipeline made a record from.
func cause(r *stream.Record) string {
	if at := header.Get(r, header.Source); at != "" { // set on a copy: the position of the record that was copied
		return at
	}
	return header.Get(r, header.Position)
}

// madeAt returns the position of the part's event that a record was made from. If the part reads
// several partitions in order, this is the event's number in that order.
func (p *part) madeAt(r *stream.Record) string {
	if at := header.Get(r, header.Repartition); at != "" {
		return p.runner.Plan.Topic + "/" + at
	}
	return header.Get(r, header.Position)
}

// made returns the event that a part made a record from, or nil if events does not contain it. A
// timer that fires after the last event has the position of the next one; its record belongs to the
// last.
func (p *part) made(events map[string]*seen, r *stream.Record) *seen {
	at := p.madeAt(r)
	s := events[p.runner.Name()+" "+at]
	partition, number, ok := strings.Cut(at, "@")
	for n, _ := strconv.ParseInt(number, 10, 64); s == nil && ok && p.runner.Plan.Sources != nil && n > 0; {
		n--
		s = events[fmt.Sprintf("%s %s@%d", p.runner.Name(), partition, n)]
	}
	return s
}

// outputs adds the records written since the last batch to the events that they were made from.
func (r *dryRun) outputs(ctx context.Context, events map[string]*seen) error {
	topics, err := r.log.Topics(ctx)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if !slices.ContainsFunc(r.parts, func(p *part) bool { return slices.Contains(p.runner.Outputs(), t.Name) }) {
			continue
		}
		for index := range t.Partitions {
			p := stream.Partition{Topic: t.Name, Index: index}
			_, end, err := r.log.Offsets(ctx, p)
			if err != nil {
				return err
			}
			if r.next[p] == end {
				continue // Tail would wait for more records
			}
			for record, err := range r.log.Tail(ctx, p, r.next[p]) {
				if err != nil {
					return err
				}
				name, _, _ := strings.Cut(header.Get(&record, header.Pipeline), " ")
				name, _, _ = strings.Cut(name, ".") // drop the suffix of a repartitioner
				i := slices.IndexFunc(r.parts, func(p *part) bool { return p.runner.Name() == name })
				if i >= 0 {
					if s := r.parts[i].made(events, &record); s != nil {
						s.outputs = append(s.outputs, record)
					}
				}
				if r.next[p]++; r.next[p] == end {
					break
				}
			}
		}
	}
	return nil
}

// dead reports whether an output is a dead letter.
func (s *seen) dead(output *stream.Record) bool {
	return output.Partition.Topic == s.runner.Outputs()[len(s.runner.Outputs())-1]
}

// forgetful is a log that drops outputs that no pipeline reads. In a long run they would take most
// of the memory.
type forgetful struct {
	*memory.Log
	read map[string]bool // topics that pipelines read
}

func newForgetful(r *dryRun) *forgetful {
	f := &forgetful{r.log, map[string]bool{}}
	for _, p := range r.parts {
		for _, read := range slices.Concat(p.runner.Reads(), p.runner.StageReads()) {
			f.read[read.Topic] = true
		}
		for _, topic := range p.runner.Tables() {
			f.read[topic] = true
		}
	}
	return f
}

// Join implements stream.Log.
func (f *forgetful) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := f.Log.Join(ctx, group, topics...)
	return &forgetfulMember{s, f.read}, err
}

type forgetfulMember struct {
	stream.Member
	read map[string]bool
}

// Commit implements stream.Member.
func (s *forgetfulMember) Commit(step stream.Transaction) *stream.Pending {
	var kept []stream.Record
	for _, o := range step.Outputs {
		if s.read[o.Partition.Topic] {
			kept = append(kept, o)
		}
	}
	step.Outputs = kept
	return s.Member.Commit(step)
}
