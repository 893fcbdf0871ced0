package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/stream"
)

// way is one configuration for running a scenario. The ways differ in everything that must not
// change a result.
type way struct {
	name     string
	embedded bool
	other    func(context.Context, string) (engine, error) // opens another kind of log; the string is a folder for it
	single   bool                                          // each event waits until the previous one is processed
	kills    []string                                      // stages where a process is killed, once at each
	step     int                                           // events per commit
	interval time.Duration
	batch    int // rows per model call
	delivery lang.Delivery
	options  running.Options
}

var ways = []way{
	{name: "memory log, all events at once"},
	{name: "memory log, event by event, nothing cached", single: true, step: 1, batch: 1, options: running.Options{Keys: 1}, delivery: lang.AtMostOnce},
	{name: "memory log, three members, commits of two events", step: 2, batch: 2, options: running.Options{Members: 3, Keys: 1}, delivery: lang.AtLeastOnce},
	{name: "memory log, killed at every stage", step: 3, interval: time.Millisecond, kills: stages, options: running.Options{Keys: 1}},
	{name: "embedded log, all events at once", embedded: true, interval: 20 * time.Millisecond},
	{name: "embedded log, two members, killed before and during a commit", embedded: true, step: 2, batch: 3, kills: []string{"write", "sync"}, options: running.Options{Members: 2, Keys: 1}},
}

// onLog returns the way that runs on the log at a URL. Two members share the work, and the process
// is killed at every stage.
func onLog(url string, code lang.Code) way {
	return way{
		name: "log " + url + ", two members, killed at every stage", step: 3, interval: time.Millisecond, kills: stages, options: running.Options{Members: 2, Keys: 1},
		other: func(ctx context.Context, folder string) (engine, error) {
			return builtin.OpenLog(ctx, url, code, stream.Process{Dir: folder, Logger: slog.New(slog.DiscardHandler)})
		},
	}
}

// A way is stopped after wayTimeout plus eventTimeout per event. A way that waits for each event
// does so only for the first singleMax events.
const (
	wayTimeout   = time.Minute
	eventTimeout = 10 * time.Millisecond
	singleMax    = 1000
)

// run is a scenario that runs in one way.
type run struct {
	*world
	way     way
	folder  string // parent of the folders of the embedded logs
	engine  engine
	opened  int // number of the folder that engine is in
	process *process
	waiting []stream.Record  // not yet appended
	singles int              // events that the run waited for because of way.single
	notes   map[int][]string // results that were read during the run, by command

	files sync.Mutex // held while the log is appended to or copied; locked before mu

	mu     sync.Mutex                  // guards the fields below
	kills  []string                    // stages where a process must still be killed
	killed map[string]int              // number of killed processes, by stage
	copies int                         // copies of the log's folder; each kill makes one
	copied error                       // error of the newest copy
	sights map[string]map[string]sight // by pipeline and position
	moved  error                       // set if two computations of one event differed
}

// sight is what the engine reported about an event.
type sight struct {
	at, watermark time.Time
	late, dropped bool
	stage         string
	source        string // source position of a copied event
}

// run runs the scenario in one way.
func (w *world) run(ctx context.Context, v way, folder string) (_ *outcome, err error) {
	most := wayTimeout
	for _, records := range w.records {
		most += time.Duration(len(records)) * eventTimeout
	}
	ctx, stop := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took more than %v", most))
	defer stop()
	r := &run{
		world: w, way: v, folder: folder, notes: map[int][]string{},
		kills: slices.Clone(v.kills), killed: map[string]int{}, sights: map[string]map[string]sight{},
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.engine.Close()) }()
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if err := r.commands(ctx); err != nil {
		_ = r.process.end() // its error is only a consequence
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if err := noKill(r.process.end()); err != nil {
		return nil, err
	}
	if r.moved != nil {
		return nil, r.moved
	}
	return r.outcome(ctx)
}

// open opens the log. An embedded log has the data that the last process left.
func (r *run) open(ctx context.Context) error {
	switch {
	case !r.way.embedded && r.engine != nil:
		return nil
	case r.way.other != nil:
		log, err := r.way.other(ctx, r.folder)
		if err == nil {
			r.engine = log
		}
		return err
	case !r.way.embedded:
		r.engine = memory.New(memory.Options{})
		return nil
	}
	log, err := embedded.Open(r.copyOf(r.opened), embedded.Options{
		SegmentBytes: 256 << 10, CheckpointInterval: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	r.engine = log
	return nil
}

func (r *run) copyOf(n int) string { return filepath.Join(r.folder, strconv.Itoa(n)) }

// begin starts a process on the log.
func (r *run) begin(ctx context.Context) error {
	log := newMortal(r.engine)
	v := r.way
	v.options.Bounded = true
	v.options.Fault = func(stage string) { r.fault(log, stage) }
	runners := make([]*running.Runner, 0, len(r.pipelines))
	for i := range r.pipelines {
		v.options.Observe = func(o *task.Observed) { r.observe(r.pipelines[i].Name, o) }
		one, err := r.runnerOf(i, v)
		if err != nil {
			return err
		}
		if err := one.CreateTopics(ctx, r.engine); err != nil {
			return err
		}
		runners = append(runners, one)
	}
	r.process = start(ctx, log, runners)
	return nil
}

// fault kills the process if a kill is still due at this stage, and keeps a copy of its files.
func (r *run) fault(log *mortal, stage string) {
	r.mu.Lock()
	wanted := slices.Contains(r.kills, stage)
	r.mu.Unlock()
	if !wanted {
		return
	}
	r.files.Lock() // no append may happen while the files are copied
	defer r.files.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.kills, stage) || !log.kill() {
		return
	}
	r.kills = slices.DeleteFunc(r.kills, func(s string) bool { return s == stage })
	r.killed[stage]++
	if r.way.embedded {
		r.copies++
		r.copied = copyFolder(r.copyOf(r.copies), r.copyOf(r.opened))
	}
}

// observe records the outcome of an event. It must be the same each time that the event is
// computed.
func (r *run) observe(pipeline string, o *task.Observed) {
	if o.Made {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	position := fmt.Sprintf("%v@%d", o.Record.Partition, o.Record.Offset)
	now := sight{o.Time, o.Watermark, o.Late, o.Dropped, o.Stage, header.Get(o.Record, header.Source)}
	if r.sights[pipeline] == nil {
		r.sights[pipeline] = map[string]sight{}
	}
	if before, ok := r.sights[pipeline][position]; ok && before != now && r.moved == nil {
		r.moved = fmt.Errorf("event %s was computed twice: once %+v and once %+v", position, before, now)
	}
	r.sights[pipeline][position] = now
}

// commands executes the commands of the scenario.
func (r *run) commands(ctx context.Context) error {
	for i := range r.Scenario.commands {
		c := &r.Scenario.commands[i]
		switch c.word {
		case "event":
			for _, record := range r.records[i] {
				if err := r.single(ctx); err != nil {
					return err
				}
				r.waiting = append(r.waiting, record)
			}
		case "row":
			if err := r.settle(ctx); err != nil {
				return err
			}
			r.waiting = []stream.Record{*c.row}
			if err := r.append(ctx); err != nil {
				return err
			}
		case "crash":
			if err := r.crash(ctx, c); err != nil {
				return err
			}
		case "state":
			if err := r.settle(ctx); err != nil {
				return err
			}
			lines, err := r.state(ctx, c)
			if err != nil {
				return err
			}
			r.notes[i] = lines
		}
	}
	return r.settle(ctx)
}

// settle appends the waiting records, and waits until they are all processed. It starts a new
// process after each kill.
func (r *run) settle(ctx context.Context) error { return r.wait(ctx, (*process).settle) }

// single waits until the previous event is processed, if the way or the scenario requires that.
func (r *run) single(ctx context.Context) error {
	switch {
	case len(r.waiting) == 0 || !r.serial && !(r.way.single && r.singles < singleMax):
		return nil
	case r.serial:
		return r.settle(ctx)
	}
	r.singles++
	return r.wait(ctx, (*process).read)
}

// wait appends the waiting records and calls until. After each kill it starts a new process and
// calls until again.
func (r *run) wait(ctx context.Context, until func(*process) error) error {
	if err := r.append(ctx); err != nil {
		return err
	}
	for {
		err := until(r.process)
		if !errors.Is(err, errKilled) {
			return err
		}
		if err := r.revive(ctx); err != nil {
			return err
		}
	}
}

// append appends the waiting records while a process is alive. After append has returned, the
// records are in the files that a kill leaves.
func (r *run) append(ctx context.Context) error {
	records := r.waiting
	r.waiting = nil
	if len(records) == 0 {
		return nil
	}
	for {
		done, err := r.appendAlive(ctx, records)
		if done || err != nil {
			return err
		}
		if err := errors.Join(noKill(r.process.end()), r.revive(ctx)); err != nil {
			return err
		}
	}
}

// appendAlive appends records if the process is alive. It does not wait for the end of a killed
// process, because that one may wait for r.files.
func (r *run) appendAlive(ctx context.Context, records []stream.Record) (alive bool, err error) {
	r.files.Lock()
	defer r.files.Unlock()
	if r.process.log.alive() != nil {
		return false, nil
	}
	return true, r.engine.Append(ctx, records...)
}

// noKill returns err, or nil if it is errKilled.
func noKill(err error) error {
	if errors.Is(err, errKilled) {
		return nil
	}
	return err
}

// crash starts a process that is killed while it processes the records since the last wait. It then
// continues with a new process.
func (r *run) crash(ctx context.Context, c *command) error {
	waiting := r.waiting
	r.waiting = nil
	if err := r.settle(ctx); err != nil { // everything above the command, and the kills of the way itself
		return err
	}
	if err := noKill(r.process.end()); err != nil {
		return err
	}
	kills := r.kills // no process runs, so no lock is needed
	r.kills = []string{c.args[0]}
	if err := r.engine.Append(ctx, waiting...); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	err := r.process.settle()
	if err == nil {
		r.process.log.turn()  // a commit is in flight until the loop has seen its result
		err = r.process.end() // the process may reach the stage while it ends
	}
	r.kills = kills
	switch {
	case errors.Is(err, errKilled):
		return r.revive(ctx)
	case err == nil && r.way.name == ways[0].name:
		return r.errorAt(c, "the process was never at stage %q with a step in flight", c.args[0])
	case err == nil: // the way commits so early that no transaction is in flight at the stage
		return r.begin(ctx)
	}
	return err
}

// revive starts a new process on the files that the killed one left.
func (r *run) revive(ctx context.Context) error {
	if r.copied != nil {
		return fmt.Errorf("copy of the log: %w", r.copied)
	}
	if r.way.embedded {
		if err := r.engine.Close(); err != nil {
			return err
		}
		r.opened = r.copies
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	return r.begin(ctx)
}

// state reads and formats the features of a key.
func (r *run) state(ctx context.Context, c *command) ([]string, error) {
	key := c.args[0]
	p := r.process.runners[r.named(c.args[1:])]
	reads := p.Reads()
	topic := reads[len(reads)-1].Topic
	view, err := r.engine.State(ctx, p.Name(), stream.Partition{Topic: topic, Index: stream.Place([]byte(key), r.partitions)})
	if err != nil {
		return nil, err
	}
	columns, newest, err := p.Plan.Describe(key, view.Get)
	if err != nil || columns == nil {
		return nil, err
	}
	texts := []string{clock(newest)}
	for _, column := range columns {
		texts = append(texts, fmt.Sprintf("%s=%v", column.Name, column.Value))
	}
	return []string{strings.Join(texts, " ")}, nil
}
