// Package reprocess computes the history of a pipeline again, with the pipeline's new version, as a
// generation beside the live one. It can then hand over to the new generation. Package generation
// explains why that is safe.
package reprocess

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/stream"
)

// Job describes what to reprocess.
type Job struct {
	From time.Time // records appended before From produce no outputs; zero is no limit
	To   time.Time // records appended at To or later are left out; zero is no limit
	// State names the generation that provides the initial state: "live", or the number of a
	// reprocessed generation. Only later events are then reprocessed, and the result can never
	// become live. "" starts without state, at the first retained record.
	State string

	Rate   float64 // most events per second; 0 is no limit
	Follow bool    // continue after catching up with the live generation
	Switch bool    // hand over after catching up

	// Into redirects the results. Each entry has one of these forms:
	//
	//   - A sink of the pipeline. It receives the results once the generation has caught up.
	//     If the generation is already live, the job only delivers them.
	//   - A topic. It receives all outputs except dead letters, in place of the generation's
	//     own topics.
	//   - OUTPUT=TOPIC, which redirects one output.
	//
	// If a name is both a sink and a topic, write sink:NAME or topic:NAME. Results that are written
	// to such topics never become live.
	Into []string

	// HandOver stops the live generation and hands over to a reprocessed one, after the run of the
	// latter has ended. nil uses generation.HandOver, for a live generation that does not run.
	HandOver func(ctx context.Context, begun generation.Begun, given func(generation.Live)) error
}

// Validate returns all errors in a job.
func (j Job) Validate() error {
	var errs []error
	if j.Rate < 0 || j.Rate > 0 && j.Rate < 1 {
		errs = append(errs, fmt.Errorf("rate %g: use 1 or more events a second, or 0 for no limit", j.Rate))
	}
	if !j.To.IsZero() && !j.To.After(j.From) {
		errs = append(errs, fmt.Errorf("from %v to %v: the range is empty", j.From, j.To))
	}
	if (j.Switch || j.Follow) && j.part() {
		errs = append(errs, errors.New("a part of the events cannot become the live generation: leave out from and to, or leave out switch and follow"))
	}
	if len(j.Into) > 0 && j.Switch {
		errs = append(errs, errors.New("into and switch exclude each other: leave one out. To fill a sink, reprocess into it again after the switch; outputs in another topic are never live"))
	}
	if j.State != "" && j.Switch {
		errs = append(errs, errors.New("a generation with a copied state lacks earlier outputs, so it cannot become the live generation: leave out switch. To keep the state for the new pipeline, change the file of the live one"))
	}
	return errors.Join(errs...)
}

// part reports whether the job covers only a part of the events.
func (j Job) part() bool { return !j.From.IsZero() || !j.To.IsZero() }

// Progress is the progress of a job.
type Progress struct {
	Generation uint64            `json:"generation"`
	Group      string            `json:"group"`
	Topics     []string          `json:"topics"`          // topics that it writes until it is live
	Into       map[string]string `json:"into,omitempty"`  // topics other than its own, by output
	First      []stream.Offset   `json:"first,omitempty"` // first event with outputs, by partition
	Resumed    bool              `json:"resumed,omitempty"`
	Events     int64             `json:"events"` // events done
	Of         int64             `json:"of"`     // events in total so far; may grow
	Rate       float64           `json:"rate"`   // recent events per second
	Models     []journal.Count   `json:"models,omitempty"`
	Delivered  uint64            `json:"delivered,omitempty"` // records delivered to the sink
	Sink       string            `json:"sink,omitempty"`      // sink that receives the results
	CaughtUp   bool              `json:"caught_up"`
	Outputs    int64             `json:"outputs,omitempty"`      // only in a dry run
	Dead       int64             `json:"dead_letters,omitempty"` // only in a dry run
	Live       []generation.Live `json:"live,omitempty"`         // partitions handed over
	Done       bool              `json:"done"`                   // this is the last progress
}

// Run runs a job with a changed pipeline, and yields its progress. If it ends early, a later Run of
// the same job with the same pipeline continues where it stopped.
func Run(ctx context.Context, log generation.Log, runner *pipeline.Runner, job Job) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		r := &run{log: log, runner: runner, job: job, yield: yield}
		if n, ok := log.(*generation.Names); ok {
			r.log = n.Log
		}
		if err := r.begin(ctx); err != nil {
			yield(r.progress, fmt.Errorf("reprocess pipeline %q: %w", runner.Name(), err))
			return
		}
		if r.progress.Done {
			yield(r.progress, nil)
			return
		}
		work := r.work
		if r.live {
			work = r.deliver
		}
		err := work(ctx)
		if other := (*generation.ErrOtherState)(nil); r.begun.State != "" && errors.As(err, &other) {
			err = fmt.Errorf("the state of group %q was written with %s: undo the change, or reprocess from the first record, without a state (%w)", r.begun.State, other.What, err)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(r.progress, fmt.Errorf("reprocess pipeline %q: %w", runner.Name(), err))
		}
	}
}

// errLeft means that the caller stopped reading the progress.
var errLeft = errors.New("nobody listens")

// run is a job in progress.
type run struct {
	log      generation.Log // the log itself
	runner   *pipeline.Runner
	job      Job
	yield    func(Progress, error) bool
	read     pipeline.Read // the input of the job
	begun    generation.Begun
	sink     string            // sink that receives the results
	into     map[string]string // topics that receive the results, by output
	live     bool              // the generation is live
	parts    []extent
	progress Progress
	shown    time.Time
	before   int64 // events done at that time
}

// extent is a partition of the input.
type extent struct {
	stream.Partition
	first stream.Offset
	until stream.Offset // offset that the live group had committed
}

// ErrUnchanged means that there is nothing to reprocess: the pipeline is the same as the live
// generation.
var ErrUnchanged = errors.New("the pipeline equals the live generation, so nothing needs reprocessing: change its model or its file first")

// begin finds the generation of the job, or starts a new one.
func (r *run) begin(ctx context.Context) error {
	if err := r.job.Validate(); err != nil {
		return err
	}
	if err := r.plan(ctx); err != nil {
		return err
	}
	if r.progress.Done {
		return nil
	}
	if err := r.mayCopy(ctx); err != nil {
		return err
	}
	if !r.progress.Resumed {
		if first, err := generation.Begin(ctx, r.log, r.runner.Name(), int32(len(r.parts)), r.begun); err != nil {
			return err
		} else if !first { // another process began a generation with this number
			*r = run{log: r.log, runner: r.runner, job: r.job, yield: r.yield}
			return r.begin(ctx)
		}
	}
	return generation.Copy(ctx, r.log, r.runner.Name(), r.begun)
}

// plan finds the generation of the job, or decides which one to start.
func (r *run) plan(ctx context.Context) error {
	if err := r.input(); err != nil {
		return err
	}
	topics, err := r.log.Topics(ctx)
	if err != nil {
		return err
	}
	if err := r.partitions(ctx, topics); err != nil {
		return err
	}
	if err := r.aim(topics); err != nil {
		return err
	}
	h, err := generation.Read(ctx, r.log, r.runner.Name())
	if err != nil {
		return err
	}
	group := h.GroupOf(h.Current())
	if last := h.Current(); last > 0 && !h.Everywhere(last) {
		if begun, _ := h.Find(last); begun.Fingerprint != r.runner.Plan.Fingerprint.Outputs {
			return fmt.Errorf("generation %d was handed only some partitions: hand over the others with its file first", last)
		}
		group = ""
	}
	number, was, err := r.current(ctx, h, group)
	if err != nil {
		return err
	}
	if was == r.runner.Plan.Fingerprint.Outputs && group != "" {
		begun, ok := h.Find(h.Current())
		if ok && r.sink != "" {
			r.begun, r.live, r.progress.Resumed = begun, true, true
			return nil
		}
		if ok && r.job.Switch { // an earlier job did the switch; it may have been killed afterwards
			r.switched(h, begun)
			return nil
		}
		if !r.job.part() && r.job.State == "" && r.into == nil {
			return ErrUnchanged
		}
	}
	begun := generation.Begun{
		Pipeline: r.runner.Name(), Generation: number + 1, Fingerprint: r.runner.Plan.Fingerprint.Outputs, Models: r.runner.Plan.Models, Group: group, Was: was,
		Input: r.read.Topic, Outputs: r.runner.Outputs(), Queues: r.runner.Plan.Queues(), Into: r.into,
	}
	if begun.From, err = r.offsets(ctx, r.job.From); err == nil {
		begun.To, err = r.offsets(ctx, r.job.To)
	}
	if err == nil {
		begun.State, begun.Start, err = r.snapshot(ctx, h, group)
	}
	if err != nil {
		return err
	}
	if found, err := r.find(ctx, h, begun, number); err != nil || found {
		return err
	}
	if group == "" {
		return fmt.Errorf("generation %d was handed only some partitions: hand over the others first, by switch alone", h.Current())
	}
	for _, b := range h.Begun {
		begun.Generation = max(begun.Generation, b.Generation+1)
	}
	r.begins(begun)
	return r.untouched(h, topics)
}

// input finds the input to read, or returns why it cannot be read again.
func (r *run) input() error {
	if asked := r.runner.StageReads(); len(asked) > 0 {
		return fmt.Errorf("pipeline %q has features by other fields (topic %s), and their stages belong to the live generation, so it cannot be reprocessed: give the changed file another pipeline name, and run both", r.runner.Name(), asked[0].Topic)
	}
	reads := r.runner.Reads()
	r.read = reads[len(reads)-1]
	if generation.Numbered(r.read.Topic) && r.job.part() {
		return fmt.Errorf("from and to: %s is read in the order of several partitions, so the records of a time range are not adjacent: leave them out, to reprocess all", r.read.Topic)
	}
	return nil
}

// switched records that the generation is live already.
func (r *run) switched(h *generation.History, begun generation.Begun) {
	r.begins(begun)
	r.name()
	r.progress.Resumed, r.progress.CaughtUp, r.progress.Done = true, true, true
	for _, lives := range h.Live {
		for _, l := range lives {
			if l.Generation == begun.Generation {
				r.given(l)
			}
		}
	}
}

// find searches a generation that this job started earlier.
func (r *run) find(ctx context.Context, h *generation.History, want generation.Begun, live uint64) (bool, error) {
	for _, b := range slices.Backward(h.Begun) {
		same := b.Fingerprint == want.Fingerprint && slices.Equal(b.From, want.From) && slices.Equal(b.To, want.To) && maps.Equal(b.Into, want.Into) && b.State == want.State
		if !same || (want.Group != "" || b.Generation != h.Current()) && (b.Group != want.Group || b.Generation <= live) {
			continue
		}
		if !slices.Equal(b.Start, want.Start) { // the generation of the initial state has advanced since then
			if copied, err := generation.Copied(ctx, r.log, r.runner.Name(), b); err != nil || !copied {
				return false, err
			}
		}
		r.progress.Resumed = true
		r.begins(b)
		return true, nil
	}
	return false, nil
}

// partitions finds the partitions of the input.
func (r *run) partitions(ctx context.Context, topics []stream.Topic) error {
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == r.read.Topic })
	if i < 0 {
		return fmt.Errorf("its input: %w %q: run the pipeline first", stream.ErrUnknownTopic, r.read.Topic)
	}
	for index := range topics[i].Partitions {
		p := stream.Partition{Topic: r.read.Topic, Index: index}
		first, _, err := r.log.Offsets(ctx, p)
		if err != nil {
			return err
		}
		if first > 0 && generation.Numbered(p.Topic) {
			return fmt.Errorf("%v begins at offset %d: its first event is no longer retained, so its events cannot be reprocessed from there. To keep the state, change the file of the live pipeline", p, first)
		}
		r.parts = append(r.parts, extent{Partition: p, first: first})
	}
	return nil
}

// current returns the number and the digest of a group's generation.
func (r *run) current(ctx context.Context, h *generation.History, group string) (number uint64, digest string, err error) {
	if group == "" {
		return h.Current() - 1, "", nil
	}
	for _, p := range r.parts {
		view, err := r.log.State(ctx, group, p.Partition)
		if err != nil {
			return 0, "", err
		}
		n, d, err := generation.Stored(view)
		if err != nil {
			return 0, "", fmt.Errorf("generation of %v: %w", p.Partition, err)
		}
		if n > number {
			number, digest = n, d
		}
	}
	if number == 0 {
		return 0, "", errors.New("it has computed nothing yet: start afterbay run with the earlier file")
	}
	return number, digest, nil
}

// offsets returns, for each partition, the first offset with a record appended at or after a time.
// It returns nil for the zero time.
func (r *run) offsets(ctx context.Context, at time.Time) ([]stream.Offset, error) {
	if at.IsZero() {
		return nil, nil
	}
	list := make([]stream.Offset, len(r.parts))
	for i, p := range r.parts {
		first, next, err := r.log.Offsets(ctx, p.Partition)
		if err != nil {
			return nil, err
		}
		var failed error
		n := sort.Search(int(next-first), func(k int) bool {
			record, found, err := r.log.Peek(ctx, p.Partition, first+stream.Offset(k))
			if err != nil {
				failed = err
			}
			return err != nil || !found || !record.Time.Before(at)
		})
		if failed != nil {
			return nil, failed
		}
		list[i] = first + stream.Offset(n)
	}
	return list, nil
}

// paid returns the calls that the journals of the generation paid for and saved.
func (r *run) paid(ctx context.Context, group string) ([]journal.Count, error) {
	var all journal.Stats
	for _, p := range r.parts {
		view, err := r.log.State(ctx, group, p.Partition)
		if err != nil {
			return nil, err
		}
		head, err := view.Get([]byte{statekey.JournalHead})
		if err != nil || head == nil {
			continue
		}
		stats, err := journal.ReadStats(head)
		if err != nil {
			return nil, err
		}
		all.Add(stats)
	}
	return all.Models, nil
}

// idle reports whether the async queue of the generation is empty.
func (r *run) idle(ctx context.Context, group string) (bool, error) {
	if !r.runner.Plan.Queues() {
		return true, nil
	}
	for _, p := range r.parts {
		if none, err := async.None(ctx, r.log, group, p.Partition); err != nil || !none {
			return false, err
		}
	}
	return true, nil
}
