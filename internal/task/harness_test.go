package task_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/deep"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// loop is a pipeline of operators made by hand, over a log in memory whose commits a test
// decides. Its input has the fields k, the key, t, the event time in seconds, v, a
// number, and w, a text that may be absent.
type loop struct {
	*testing.T
	log     *tap
	plan    *task.Plan
	options task.Options
	metrics *observe.Metrics
	sources []int32 // partitions of the plan's
	task    *task.Task
	follow  []task.Upstream // of the input
	tells   bool            // watermarks
	stop    func() error    // what start started; nil is nothing
	slow    time.Duration   // that a reader of copies takes until it commits
}

// inLoop runs a test in virtual time, over a loop with two partitions and without operators.
func inLoop(t *testing.T, test func(l *loop)) {
	t.Helper()
	watch := time.AfterFunc(30*time.Second, func() { panic("the loop spins: no time passes in " + t.Name()) })
	defer watch.Stop()
	synctest.Test(t, func(t *testing.T) {
		l := &loop{T: t, log: newTap(t), plan: &task.Plan{
			Name: "p", DeadTopic: "dead", Schema: &value.Schema{}, Input: task.Input{Topic: "in", MaxBytes: 1 << 20}, Keys: task.Keys{Keep: time.Hour},
		}}
		for _, name := range []string{"in", "out", "late", "dead", "rows", "p.order"} {
			if err := l.log.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: 2}); err != nil {
				t.Fatal(err)
			}
		}
		plan := l.plan
		plan.Key = l.slot("k", value.Type{Kind: value.String})
		at := l.slot("t", value.Type{Kind: value.Int})
		for _, slot := range []value.Slot{plan.Key, at, l.slot("v", value.Type{Kind: value.Int}), l.slot("w", value.Type{Kind: value.String, Optional: true})} {
			plan.Fields = append(plan.Fields, decode.Field{Name: slot.Name, Slot: slot})
		}
		plan.Time = operator.Timing{EventTime: operator.EventTime{FromField: true, Slot: at, Unit: time.Second}, LateOutput: 1}
		plan.Meta = operator.Meta{
			ID: l.slot("meta.id", value.Type{Kind: value.String}), Key: l.slot("meta.key", value.Type{Kind: value.String}), Time: l.slot("meta.time", value.Type{Kind: value.Time}),
			Partition: l.slot("meta.partition", value.Type{Kind: value.Int}), Offset: l.slot("meta.offset", value.Type{Kind: value.Int}),
		}
		plan.Outputs = []string{"out", "late"}
		plan.Queue, _ = control.GateOptions{}.Resolved()
		plan.Fingerprint.Pipeline, plan.Fingerprint.Outputs = "p", "f"
		test(l)
		l.end()
		if err := l.log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func (l *loop) slot(name string, t value.Type) value.Slot {
	l.Helper()
	slot, err := l.plan.Schema.Add(name, t)
	if err != nil {
		l.Fatal(err)
	}
	return slot
}

// of returns what is there by a name.
func (l *loop) of(name string) value.Slot {
	l.Helper()
	slot, ok := l.plan.Schema.Lookup(name)
	if !ok {
		l.Fatalf("%s is not there", name)
	}
	return slot
}

// number introduces a number.
func (l *loop) number(name string) value.Slot { return l.slot(name, value.Type{Kind: value.Number}) }

// Slot, Constant and Known implement expression.Names.
func (l *loop) Slot(name string) (value.Slot, bool)             { return l.plan.Schema.Lookup(name) }
func (l *loop) Constant(string) (c expression.Constant, _ bool) { return c, false }
func (l *loop) Known() []string                                 { return nil }

func (l *loop) program(source string) *expression.Program {
	l.Helper()
	p, err := expression.Compile(source, l)
	if err != nil {
		l.Fatal(err)
	}
	return p
}

// put appends operators to the plan. Those from the first that is asked in batches or
// reads predictions on are in the waves.
func (l *loop) put(operators ...operator.Operator) {
	for _, op := range operators {
		l.plan.Stages = append(l.plan.Stages, operator.Placed{Operator: op})
	}
}

// early puts operators that run in log order, before the waves.
func (l *loop) early(operators ...operator.Operator) {
	l.put(operators...)
	l.plan.Waves = len(l.plan.Stages)
}

// let computes a number.
func (l *loop) let(name, source string) *operator.Let {
	program := l.program(source)
	return &operator.Let{Kind: "let", List: []operator.Assign{{Name: name, Slot: l.slot(name, program.Type()), Program: program}}}
}

// emit writes names to the topic `out`, under ids that end in its index.
func (l *loop) emit(index int, names ...string) *operator.Emit {
	e := &operator.Emit{Index: index, Topic: "out"}
	if index > 0 {
		e.Name = fmt.Sprint(index)
	}
	for i, name := range names {
		e.Members, e.Before, e.Values = append(e.Members, []string{name}), append(e.Before, fmt.Appendf(nil, "%s%q:", ","[:min(i, 1)], name)), append(e.Values, l.of(name))
	}
	return e
}

// count counts the events of a key in a minute, or adds up a value.
func (l *loop) count(name, of string, late bool) (read, add operator.Feature) {
	l.Helper()
	aggregate := feature.Count
	if of != "" {
		aggregate = feature.Sum
	}
	set, err := feature.NewSet([]feature.Spec{{Name: name, Windows: []feature.Window{{Name: "60s", Size: time.Minute}}, Aggregates: []feature.Aggregate{aggregate}, Decimals: -1}})
	if err != nil {
		l.Fatal(err)
	}
	if l.plan.Early = set; late {
		l.plan.Early, l.plan.Late = nil, set
	}
	l.plan.Retention = set.Retention()
	f := operator.Feature{Name: name, Late: late, Columns: []value.Slot{l.number(name)}}
	if of != "" {
		f.Value = l.program(of)
	}
	read, add = f, f
	read.Read, add.Add = true, true
	return read, add
}

// counting puts a feature that counts each event of a key and reads the count.
func (l *loop) counting() {
	read, _ := l.count("n", "", false)
	read.Add = true
	l.early(operator.NewFeatures([]operator.Feature{read}))
}

// stub is a model of one number with one score: what answer says.
type stub struct {
	answer func(ctx context.Context, v float64) (float32, error)
	mu     sync.Mutex
	calls  [][]float64
}

func (m *stub) Info() model.Info {
	return model.Info{Kind: "stub", Inputs: model.Numbers(1), Outputs: []model.Output{{Name: "score", Size: 1}}}
}

func (m *stub) Check([]float64, [][]byte) error { return nil }

func (m *stub) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	m.mu.Lock()
	m.calls = append(m.calls, slices.Clone(rows.Values))
	m.mu.Unlock()
	for i, v := range rows.Values {
		score, err := float32(v), error(nil)
		if m.answer != nil {
			score, err = m.answer(ctx, v)
		}
		if err != nil {
			return err
		}
		scores[i] = score
	}
	return nil
}

// score asks a model about a number, ten at once.
func (l *loop) score(m model.Model, input string) *operator.Score {
	return &operator.Score{
		Batch:  operator.Batch{Kind: "score", Model: m, Name: "stub@1", Size: 10},
		Inputs: []value.Slot{l.of(input)}, Codes: make([]*category.Codes, 1), Outputs: []value.Slot{l.number("m.score")}, Fallback: []*expression.Program{nil},
	}
}

// queued is a score whose events go through the async queue.
func (l *loop) queued(m model.Model, input string) *operator.Score {
	l.Helper()
	endpoint, err := control.NewEndpoint(control.EndpointOptions{})
	if err != nil {
		l.Fatal(err)
	}
	s := l.score(m, input)
	s.Async = true
	s.Calling = &operator.Calling{Endpoint: endpoint, Timeout: 5 * time.Second, Backoff: control.Backoff{Base: time.Second, Attempts: 2}, Open: operator.OpenQueue}
	return s
}

// at is an event.
type at struct {
	key     string
	t, v    int
	w, raw  string // raw is the value where it is not made of the others
	part    int32
	headers []stream.Header
}

// send appends events to the input.
func (l *loop) send(events ...at) {
	l.Helper()
	var records []stream.Record
	for _, e := range events {
		text := fmt.Sprintf(`{"k":%q,"t":%d,"v":%d`, e.key, e.t, e.v)
		if e.w != "" {
			text += fmt.Sprintf(`,"w":%q`, e.w)
		}
		records = append(records, stream.Record{Partition: stream.Partition{Topic: l.plan.Topic, Index: e.part}, Key: []byte(e.key), Value: []byte(cmp.Or(e.raw, text+"}")), Headers: e.headers})
	}
	l.append(records...)
}

func (l *loop) append(records ...stream.Record) {
	l.Helper()
	if err := l.log.Append(l.Context(), records...); err != nil {
		l.Fatal(err)
	}
}

// sumOf sums a plan with all that it points to, but for what is outside of it.
func sumOf(plan *task.Plan) uint64 {
	models, endpoint := reflect.TypeFor[model.Model](), reflect.TypeFor[*control.Endpoint]()
	return deep.Sum(plan, func(of reflect.Type) bool { return of.Implements(models) || of == endpoint })
}

// start runs the task until end, which sees that the plan did not change.
func (l *loop) start() {
	l.metrics = observe.NewMetrics(max(1, l.options.Members))
	ctx, cancel := context.WithCancel(l.Context())
	ended := make(chan error, 1)
	plan := task.NewPlan(*l.plan)
	before := sumOf(plan)
	l.task = task.New(plan, l.options, l.metrics)
	l.task.Follow(l.follow)
	l.task.TellWatermarks(l.tells)
	go func() { ended <- l.task.Run(ctx, l.log, l.sources...) }()
	l.stop = func() error {
		cancel()
		err := <-ended
		if sumOf(plan) != before {
			l.Error("the task changed its plan")
		}
		return err
	}
}

// pass lets a time go by.
func (l *loop) pass(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

// end stops the task.
func (l *loop) end() {
	l.Helper()
	if l.stop == nil {
		return
	}
	err := l.stop()
	if l.stop = nil; err != nil {
		l.Errorf("the task ended: %v", err)
	}
}

// run sends events and has the task compute them in a second.
func (l *loop) run(events ...at) {
	l.Helper()
	l.send(events...)
	l.start()
	l.pass(time.Second)
	l.end()
}

// records are those of a topic, by partition.
func (l *loop) records(topic string) (list []stream.Record) {
	for p := range int32(2) {
		for at := stream.Offset(0); ; at++ {
			r, found, err := l.log.Peek(l.Context(), stream.Partition{Topic: topic, Index: p}, at)
			if err != nil {
				l.Fatal(err)
			}
			if !found {
				break
			}
			list = append(list, r)
		}
	}
	return list
}

// wants compares the values of a topic's records.
func (l *loop) wants(topic string, want ...string) {
	l.Helper()
	var got []string
	for _, r := range l.records(topic) {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		l.Errorf("%s has\n%q, want\n%q", topic, got, want)
	}
}

// stored counts the entries of a kind of state beside partition 0.
func (l *loop) stored(kind byte) (n int) {
	l.Helper()
	state, _ := l.state(0)
	for key := range state {
		if key[0] == kind {
			n++
		}
	}
	return n
}

// state is what is kept beside a partition, and the offset where it is read on.
func (l *loop) state(p int32) (entries map[string]string, next stream.Offset) {
	l.Helper()
	id := stream.Partition{Topic: l.plan.Topic, Index: p}
	next, err := l.log.Committed(l.Context(), "p", id)
	if err != nil {
		l.Fatal(err)
	}
	view, err := l.log.State(l.Context(), "p", id)
	if err != nil {
		l.Fatal(err)
	}
	entries = map[string]string{}
	for e, err := range view.Scan(nil) {
		if err != nil {
			l.Fatal(err)
		}
		entries[string(e.Key)] = string(e.Value)
	}
	return entries, next
}

// everything is a text of all that a group left in the log.
func (l *loop) everything() string {
	l.Helper()
	var text bytes.Buffer
	for _, topic := range []string{"out", "late", "dead"} {
		for _, r := range l.records(topic) {
			fmt.Fprintf(&text, "%v@%d %s %s %q\n", r.Partition, r.Offset, r.Key, r.Value, r.Headers)
		}
	}
	for p := range int32(2) {
		entries, next := l.state(p)
		fmt.Fprintf(&text, "%d at %d\n", p, next)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			fmt.Fprintf(&text, "  %q %q\n", key, entries[key])
		}
	}
	return text.String()
}

// tap is a log in memory that notes the transactions, and decides when and how each ends. It
// fails the test where the loop breaks the contract of a Member.
type tap struct {
	*memory.Log
	*testing.T
	most    int                    // records that a Poll returns; 0 is any number
	latency time.Duration          // of a commit
	held    bool                   // commits are decided by release
	fail    func(n int) outcome    // of the n-th transaction, from 1; nil fails none
	early   bool                   // the log writes outputs before their commit
	stalled bool                   // no records of in/1 come, though there are some
	hidden  atomic.Bool            // a transaction of a producer hides the end of in/1
	looking func(stream.Partition) // is called before Offsets; nil is nothing

	outputsMax int // of a transaction; 0 is any number

	mu        sync.Mutex
	commits   []stream.Transaction // in their order
	delivered []string             // values, likewise
	waiting   []func()
	polls     int
	paused    map[stream.Partition]bool // by the loop
}

// outcome is what becomes of a transaction.
type outcome int

const (
	committed outcome = iota
	lost              // an error, and nothing was written
	unknown           // an error, and all was written
)

func newTap(t *testing.T) *tap {
	return &tap{Log: memory.New(memory.Options{}), T: t, latency: time.Millisecond, paused: map[stream.Partition]bool{}}
}

// Peek implements stream.Inspector.
func (l *tap) Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	for ; l.hidden.Load() && p.Topic == "in" && p.Index == 1 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
	}
	return l.Log.Peek(ctx, p, from)
}

// Offsets implements stream.Inspector.
func (l *tap) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	if l.looking != nil {
		l.looking(p)
	}
	return l.Log.Offsets(ctx, p)
}

// Join implements stream.Log.
func (l *tap) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	joined := &tapped{Member: s, log: l}
	if l.early && err == nil {
		return deliverer{joined}, nil
	}
	return joined, err
}

// deliverer is a tapped member that takes outputs before their commit.
type deliverer struct{ *tapped }

// Deliver implements stream.Deliverer.
func (d deliverer) Deliver(outputs []stream.Record) {
	for _, r := range outputs[len(d.log.delivered):] {
		d.log.delivered = append(d.log.delivered, string(r.Value))
	}
}

// release decides the commits that are held.
func (l *tap) release() {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, decide := range waiting {
		decide()
	}
	synctest.Wait()
}

// done returns the transactions that were handed over.
func (l *tap) done() []stream.Transaction {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.commits)
}

type tapped struct {
	stream.Member
	log         *tap
	stalled     bool // at the newest Poll
	outstanding bool // guarded by log.mu
}

// pollsMax ends a loop that spins.
const pollsMax = 20_000

// Poll implements stream.Member.
func (s *tapped) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	if s.log.polls++; s.log.polls > pollsMax {
		return stream.Batch{}, errors.New("the loop spins")
	}
	if s.log.most > 0 {
		limit = min(limit, s.log.most)
	}
	if slow := (stream.Partition{Topic: "in", Index: 1}); s.log.stalled {
		s.Member.Pause(slow)
	} else if s.stalled {
		s.Member.Resume(slow)
	}
	s.stalled = s.log.stalled
	return s.Member.Poll(ctx, limit)
}

// Pause implements stream.Member.
func (s *tapped) Pause(partitions ...stream.Partition) {
	for _, p := range partitions {
		s.log.paused[p] = true
	}
	s.Member.Pause(partitions...)
}

// Resume implements stream.Member.
func (s *tapped) Resume(partitions ...stream.Partition) {
	for _, p := range partitions {
		delete(s.log.paused, p)
	}
	s.Member.Resume(partitions...)
}

// Commit implements stream.Member.
func (s *tapped) Commit(step stream.Transaction) *stream.Pending {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.outstanding {
		l.Error("a transaction was handed over before the one before it was decided")
	}
	s.outstanding = true
	before := cloned(step)
	l.commits = append(l.commits, before)
	becomes, pending := committed, stream.NewPending()
	if l.fail != nil {
		becomes = l.fail(len(l.commits))
	}
	decide := func() {
		if !equal(before, step) {
			l.Error("a transaction was changed before it was decided")
		}
		err := error(nil)
		for _, c := range step.Changes {
			if _, moved := step.Offsets[c.Partition]; !moved {
				l.Errorf("a transaction changes state beside %v without its offset", c.Partition)
				becomes, err = lost, errors.New("the loop broke the contract")
			}
		}
		if err != nil {
			// nothing is written
		} else if l.outputsMax > 0 && len(step.Outputs) > l.outputsMax {
			becomes, err = lost, stream.ErrTooLarge
		} else if becomes == lost {
			err = stream.ErrFenced
		}
		if becomes != lost {
			err = s.Member.Commit(step).Wait(context.Background())
		}
		if becomes == unknown {
			err = stream.ErrFenced
		}
		l.mu.Lock()
		s.outstanding = false
		l.mu.Unlock()
		pending.Decide(err)
		s.Wake()
	}
	if l.held {
		l.waiting = append(l.waiting, decide)
	} else {
		time.AfterFunc(l.latency, decide)
	}
	return pending
}

func cloned(s stream.Transaction) stream.Transaction {
	c := stream.Transaction{Offsets: maps.Clone(s.Offsets), Changes: slices.Clone(s.Changes), Outputs: slices.Clone(s.Outputs)}
	for i := range c.Changes {
		c.Changes[i].Key, c.Changes[i].Value = bytes.Clone(c.Changes[i].Key), bytes.Clone(c.Changes[i].Value)
	}
	for i := range c.Outputs {
		c.Outputs[i].Value = bytes.Clone(c.Outputs[i].Value)
	}
	return c
}

func equal(a, b stream.Transaction) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
