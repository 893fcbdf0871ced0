package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// Replay is the result of computing an event again. The pipeline computes the event's partition
// from the first retained record up to that event.
type Replay struct {
	Pipeline string        `json:"pipeline"`
	Missing  string        `json:"missing,omitempty"` // why there is no replay
	From     int64         `json:"from"`              // offset of the first replayed record
	Records  int64         `json:"records"`
	Took     time.Duration `json:"took_ns"`
	Digest   string        `json:"digest,omitempty"` // of the pipeline; "" if it wrote nothing
	Models   []Model       `json:"models,omitempty"`

	Watermark time.Time `json:"watermark,omitzero"`
	Late      bool      `json:"late,omitempty"`
	Dropped   bool      `json:"dropped,omitempty"`
	Stage     string    `json:"stage,omitempty"` // stage at which the event failed
	Error     string    `json:"error,omitempty"`
	Row       []Value   `json:"row,omitempty"` // in the order of the stages

	Same bool     `json:"same"`          // equal to the stored record, byte for byte
	Why  []string `json:"why,omitempty"` // differences of the records and of the pipelines and models that made them
}

// Value is a name with its value as JSON.
type Value struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// replays computes the event again with each of the pipelines to replay.
func (e *explanation) replays(ctx context.Context) error {
	if len(e.Pipelines) == 0 {
		return nil
	}
	p, _ := deadletter.ParsePosition(e.report.Event.Position)
	var names []string
	for _, asked := range e.Pipelines {
		names = append(names, asked.Name)
		asked.Commit = lang.Commit{} // sets when results are written, not their content
		play := &player{directory: e.Directory, topics: e.topics, partition: p.Partition, until: p.Offset, replay: Replay{Pipeline: asked.Name}}
		play.event = p.String()
		if e.report.Event.Kind == KindCopy {
			play.event, play.ordered = e.report.Event.Made.From, true
		}
		play.progress = func(n, of int64) { e.Progress("replaying "+p.Partition.String(), n, of) }
		runner, err := pipeline.New(asked, pipeline.Options{ModelKinds: e.ModelKinds, Observe: play.observe, Reach: true, Announce: e.Announce, Notes: &play.notes})
		if err != nil {
			return fmt.Errorf("pipeline %q: %w", asked.Name, err)
		}
		defer runner.Close()
		e.report.show(runner)
		play.tables = tables{directory: e.Directory, names: runner.Tables(), reading: map[stream.Partition]*tableReading{}}
		defer play.tables.close()
		for _, read := range runner.Reads() {
			if read.Topic != p.Topic || e.report.Output != nil && e.report.Output.Made.Pipeline != read.Group {
				continue
			}
			play.group = read.Group
			if err := play.run(ctx, runner, e.report.Event); err != nil {
				return err
			}
			play.compare(&e.report, e.derived)
			e.report.Replays = append(e.report.Replays, &play.replay)
		}
	}
	if e.report.Replays == nil {
		want := "a pipeline that reads " + p.Topic
		if e.report.Output != nil {
			want = "pipeline " + e.report.Output.Made.Pipeline + " reading " + p.Topic
		}
		return fmt.Errorf("%w: %s, they have %s: name the file of that pipeline, or no file", ErrOtherPipeline, want, strings.Join(names, ", "))
	}
	return nil
}

// show converts values in a format of a pipeline, such as Avro, to JSON.
func (r *Report) show(runner *pipeline.Runner) {
	for _, one := range slices.Concat([]*Record{r.Output, r.Event}, r.Upstream, r.Became) {
		if one == nil {
			continue
		}
		if text := runner.Shown(one.stored.Partition.Topic, one.stored.Value); !bytes.Equal(text, one.stored.Value) {
			one.Value = text
		}
	}
}

// player is a stream.Log over one partition of a directory. It holds the replay's state in memory,
// and keeps only the outputs of the last event.
type player struct {
	directory inspect.Directory
	topics    []inspect.Topic
	group     string
	partition stream.Partition
	until     stream.Offset // offset of the event
	event     string        // position of the event in its first topic
	ordered   bool          // the partition is read in time order: to its end, until the event's turn
	tables    tables        // tables that the pipeline looks up
	notes     pipeline.Notes
	came      bool // the event's turn has come
	progress  func(n, of int64)
	runner    *pipeline.Runner
	replay    Replay
	outputs   []stream.Record
	finish    func() // ends the run
}

var (
	_ stream.Log    = (*player)(nil)
	_ stream.Member = (*playing)(nil)
)

// run replays the partition up to the event.
func (p *player) run(ctx context.Context, runner *pipeline.Runner, event *Record) error {
	p.runner = runner
	p.replay.Models = parseModels(strings.Join(runner.Plan.Models, ", "))
	if event.Missing != "" {
		p.replay.Missing = "the event is " + event.Missing
		return nil
	}
	p.tables.follow(ctx, runner, p.partition.Index, p.extent(p.partition).First, &p.notes)
	start := time.Now()
	ran, finish := context.WithCancel(ctx)
	defer finish()
	p.finish = finish
	if err := runner.Run(ran, p); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	p.replay.Took = time.Since(start)
	return ctx.Err()
}

// observe keeps the row of the event.
func (p *player) observe(o *pipeline.Observed) {
	if o.Made || o.Record.Partition != p.partition || !p.ordered && o.Record.Offset != p.until || p.ordered && header.Get(o.Record, header.Source) != p.event {
		return
	}
	p.came = true
	r := &p.replay
	r.Watermark, r.Late, r.Dropped, r.Stage, r.Row = o.Watermark, o.Late, o.Dropped, o.Stage, nil
	if o.Err != nil {
		r.Error = o.Err.Error()
	}
	if reads := p.runner.Reads(); reads[len(reads)-1].Group != p.group {
		return // repartitioning has its own names
	}
	for _, slot := range p.runner.Plan.Schema.Slots {
		if o.Row.Has(slot) && slot.Name[0] != 0 {
			r.Row = append(r.Row, Value{slot.Name, expression.AppendValue(nil, o.Row, &slot)})
		}
	}
}

// compare determines whether the replay made the stored record, and if not, why.
func (p *player) compare(report *Report, topics derived) {
	r := &p.replay
	if r.Missing != "" {
		return
	}
	stored := topics.madeBy(report.Became, p.replay.Digest)
	if report.Output != nil {
		stored = []*Record{report.Output}
	}
	var wrong []string
	var made *Made
	used := map[int]bool{}
	for _, s := range stored {
		if s.Made.Pipeline != p.group {
			continue
		}
		made = s.Made
		i := slices.IndexFunc(p.outputs, func(o stream.Record) bool {
			return o.Partition.Topic == topics.output(s.stored.Partition.Topic) && header.Get(&o, header.ID) == s.ID
		})
		if i < 0 {
			wrong = append(wrong, "the replay does not write "+s.Position)
			continue
		}
		used[i] = true
		if list := differences(&s.stored, &p.outputs[i]); len(list) > 0 {
			wrong = append(wrong, fmt.Sprintf("the %s of %s differs: %s", strings.Join(list, ", "), s.Position, p.outputs[i].Value))
		}
	}
	if report.Output == nil && report.More == 0 && len(used) < len(p.outputs) {
		wrong = append(wrong, "the replay writes an output that is not in the log: the event is not committed yet, or its output is no longer retained")
	}
	r.Same = len(wrong) == 0
	r.Why = append(wrong, p.otherMaker(made)...)
	if !r.Same {
		r.Why = append(r.Why, p.unknown(made, len(r.Why) > len(wrong))...)
	}
}

// otherMaker lists the differences between the pipeline now and when it made a record.
func (p *player) otherMaker(made *Made) []string {
	var list []string
	if made == nil {
		return nil
	}
	for _, m := range made.Models {
		if !slices.Contains(p.replay.Models, m) {
			list = append(list, fmt.Sprintf("model %s was %s, but the file has %s", m.Name, m.Digest, modelNow(p.replay.Models, m.Name)))
		}
	}
	if now := p.replay.Digest; made.Digest != now && now != "" {
		list = append(list, fmt.Sprintf("the pipeline was %s, but the file has %s", made.Digest, now))
	}
	return list
}

// unknown lists other possible reasons for a different replay.
func (p *player) unknown(made *Made, explained bool) []string {
	var list []string
	if made != nil && made.Generation > 1 {
		list = append(list, fmt.Sprintf("it was generation %d of the pipeline: the state from earlier generations is unknown", made.Generation))
	}
	if p.tables.unknown != "" {
		list = append(list, p.tables.unknown)
	}
	if p.replay.From > 0 {
		list = append(list, fmt.Sprintf("%v begins at offset %d: the state before it is unknown", p.partition, p.replay.From))
	}
	if len(list) == 0 && !explained && made != nil {
		list = append(list, "pipeline, models and beginning are the same: this should not happen, please report it")
	}
	return list
}

// modelNow returns the model that the file now has in place of an earlier one.
func modelNow(models []Model, was string) string {
	name, _, _ := strings.Cut(was, "@")
	for _, m := range models {
		if now, _, _ := strings.Cut(m.Name, "@"); now == name {
			return m.String()
		}
	}
	return "none"
}

var errReadOnly = errors.New("a replay writes nothing")

// CreateTopic implements stream.Log; the topics are those of the directory.
func (p *player) CreateTopic(context.Context, stream.Topic) error { return nil }

// DeleteTopic implements stream.Log.
func (p *player) DeleteTopic(context.Context, string) error { return errReadOnly }

// Topics implements stream.Log.
func (p *player) Topics(context.Context) ([]stream.Topic, error) {
	var list []stream.Topic
	for _, t := range p.topics {
		list = append(list, stream.Topic{Name: t.Name, Partitions: int32(len(t.Partitions)), Key: t.Key})
	}
	return list, nil
}

// Append implements stream.Log.
func (p *player) Append(context.Context, ...stream.Record) error { return errReadOnly }

// AppendOnce implements stream.Log.
func (p *player) AppendOnce(context.Context, string, int64, ...stream.Record) (int, error) {
	return 0, errReadOnly
}

// Tail implements stream.Log for tables. It ends after the newest row.
func (p *player) Tail(ctx context.Context, at stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return p.tables.rows(ctx, at, from)
}

// Offsets implements stream.Inspector for tables. The other topics are empty, because a replay
// stores nothing.
func (p *player) Offsets(_ context.Context, at stream.Partition) (first, next stream.Offset, err error) {
	if !slices.Contains(p.tables.names, at.Topic) {
		return 0, 0, nil
	}
	extent := p.extent(at)
	return extent.First, extent.Next, nil
}

// extent returns the range of offsets that a partition of the directory holds.
func (p *player) extent(at stream.Partition) inspect.Partition {
	i := slices.IndexFunc(p.topics, func(t inspect.Topic) bool { return t.Name == at.Topic })
	return p.topics[i].Partitions[at.Index]
}

// Peek implements stream.Inspector for tables.
func (p *player) Peek(ctx context.Context, at stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	if !slices.Contains(p.tables.names, at.Topic) {
		return stream.Record{}, false, nil
	}
	return p.tables.peek(ctx, at, from)
}

// Committed implements stream.Inspector.
func (p *player) Committed(context.Context, string, stream.Partition) (stream.Offset, error) {
	return 0, nil
}

// State implements stream.Inspector.
func (p *player) State(context.Context, string, stream.Partition) (stream.View, error) {
	return memory.State{}, nil
}

// Groups implements stream.Inspector.
func (p *player) Groups(context.Context) ([]string, error) { return nil, nil }

// Close implements stream.Log.
func (p *player) Close() error { return nil }

// Join implements stream.Log. Members of groups other than the replayed one receive nothing.
func (p *player) Join(ctx context.Context, group string, _ ...string) (stream.Member, error) {
	if group != p.group {
		return generation.NewIdle(), nil
	}
	s := &playing{Idle: generation.NewIdle(), player: p, state: memory.State{}, first: p.extent(p.partition).First}
	s.next, s.stop = iter.Pull2(p.directory.Records(ctx, inspect.Query{
		Topic: p.partition.Topic, Partition: p.partition.Index, From: int64(s.first), Limit: int64(p.last() - s.first + 1),
	}))
	return s, nil
}

// last returns the offset of the last record to read.
func (p *player) last() stream.Offset {
	if p.ordered {
		return p.extent(p.partition).Next - 1
	}
	return p.until
}

// turnWait is the longest wait for the turn of an event after all records are read.
const turnWait = time.Second

// wait waits for the next step of a time order: the event's turn, or the commit after it.
func (s *playing) wait(ctx context.Context) (stream.Batch, error) {
	if s.came {
		return s.Idle.Poll(ctx, 0)
	}
	short, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	batch, err := s.Idle.Poll(short, 0)
	if err != nil && ctx.Err() == nil {
		s.replay.Missing = "the event is not released yet: it waits for events of other partitions"
		s.finish()
	}
	return batch, err
}

// playing is the stream.Member of a replay.
type playing struct {
	*generation.Idle
	*player
	assigned bool
	ended    bool
	first    stream.Offset
	next     func() (stream.Record, error, bool)
	stop     func()
	state    memory.State
}

// Poll implements stream.Member.
func (s *playing) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	var batch stream.Batch
	if !s.assigned {
		s.assigned = true
		batch.Assigned = []stream.Assigned{{Partition: s.partition, Next: s.first, State: s.state}}
	}
	for !s.ended && len(batch.Records) < limit {
		r, err, ok := s.next()
		if !ok && err == nil && s.ordered { // the newest offsets may have no record
			s.ended = true
			break
		}
		if !ok && err == nil {
			err = fmt.Errorf("%v@%d: %w: it was deleted during the command", s.partition, s.until, ErrNotFound)
		}
		if err != nil {
			return batch, err
		}
		if s.replay.Records == 0 {
			s.replay.From = int64(r.Offset)
		}
		s.ended = !s.ordered && r.Offset >= s.until
		batch.Records = append(batch.Records, r)
		if s.replay.Records++; s.replay.Records%progressEvery == 0 {
			s.progress(s.replay.Records, int64(s.until-s.first+1))
		}
	}
	if len(batch.Records) > 0 || len(batch.Assigned) > 0 {
		return batch, nil
	}
	if s.ordered {
		return s.wait(ctx)
	}
	return s.Idle.Poll(ctx, limit)
}

// Commit implements stream.Member. It ends the replay after the event.
func (s *playing) Commit(step stream.Transaction) *stream.Pending {
	s.state.Apply(step.Changes...)
	for i := range step.Outputs {
		o := &step.Outputs[i]
		if s.replay.Digest == "" {
			_, s.replay.Digest, _ = parsePipeline(header.Get(o, header.Pipeline))
		}
		if header.Get(o, header.Position) == s.event {
			s.outputs = append(s.outputs, cloneRecord(o))
		}
	}
	if s.ordered && s.came || !s.ordered && step.Offsets[s.partition] > s.until {
		s.finish()
	}
	pending := stream.NewPending()
	pending.Decide(nil)
	s.Wake()
	return pending
}

// cloneRecord copies a record, because the transaction owns its bytes.
func cloneRecord(r *stream.Record) stream.Record {
	c := *r
	c.Key, c.Value, c.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return c
}

// Close implements stream.Member.
func (s *playing) Close() error {
	s.stop()
	return nil
}
