// Package oracle computes random pipelines in the simplest way: one event at a time, every list
// scanned from its start, sums in unbounded precision. It generates a pipeline and its events from
// a seed, writes the pipeline as a file, and predicts the records of each event. The rules are
// those of the guide (docs/guide/event-time.md, docs/guide/pipeline-file.md, docs/howto/group.md).
// It imports only the standard library, and nothing of the engine under test.
package oracle

import (
	"math"
	"slices"
)

// Event is one record of the input.
type Event struct {
	Partition int
	Key       string
	Value     string
}

// Record is a record that an event produces: a record of an output topic, or a dead letter.
type Record struct {
	Topic string
	ID    string // header afterbay-id
	Stage string // of a dead letter: the header afterbay-stage, else ""
	Value string // the event as it was read, of dead letters and late events
	Row   Row    // of an output, else nil
}

// Row is the JSON object of an output, in the order of its fields.
type Row []Cell

// Cell is one field of a Row.
type Cell struct {
	Name  string
	Value Value
}

// Run returns the records that the events of one partition produce, in order.
func (p *Pipeline) Run(partition int, events []Event) []Record {
	s := &state{Pipeline: p, partition: partition, newest: never, keys: map[string]*key{}, open: map[string][]*turn{}}
	for offset, e := range events {
		s.event(int64(offset), e)
	}
	return s.out
}

const never = math.MinInt64

// state is the state of a partition between events.
type state struct {
	*Pipeline
	partition int
	newest    int64 // event time in microseconds
	ids       []seen
	keys      map[string]*key
	open      map[string][]*turn // members of groups that have not ended, by key and `by`
	out       []Record
}

// seen is an id that an event had, and that event's time.
type seen struct {
	id string
	at int64
}

func (s *state) watermark() int64 {
	if s.newest == never {
		return never
	}
	return s.newest - s.Lateness
}

// event processes one record up to its end.
func (s *state) event(offset int64, record Event) {
	t := &turn{state: s, id: eventID(s.partition, offset), offset: offset, record: record, values: map[string]Value{}}
	if stage := t.arrive(); stage != "" {
		t.end(stage)
		return
	}
	t.key = s.key(record.Key, t.at)
	t.end(t.steps(s.Steps))
}

// Outcomes of an event that are not stages of a dead letter.
const (
	done    = ""
	dropped = "drop"
	late    = "late topic"
)

// end writes the record that the end of an event leaves, if any.
func (t *turn) end(stage string) {
	switch stage {
	case done, dropped:
	case late:
		t.out = append(t.out, Record{Topic: t.LateTopic, ID: t.outputID(t.LateTopic, ""), Value: t.record.Value})
	default:
		t.out = append(t.out, Record{Topic: t.Name + ".dlq", ID: t.outputID(t.Name+".dlq", ""), Stage: stage, Value: t.record.Value})
	}
}

// turn is one event on its way through the steps.
type turn struct {
	*state
	*key
	id     string
	offset int64
	record Event
	at     int64
	values map[string]Value
}

// arrive reads the event and advances time. It returns the outcome of the event if it ends before
// the first step, or "".
func (t *turn) arrive() string {
	if !t.decode() {
		return "decode"
	}
	if t.values[t.Key].text() != t.record.Key {
		return "key"
	}
	at, ok := t.time()
	if !ok {
		return "time"
	}
	t.at = at
	t.newest = max(t.newest, at)
	t.endGroups()
	if t.Dedupe != nil && t.known(t.values[t.Dedupe.ID].text()) {
		return dropped
	}
	if at >= t.watermark() {
		return ""
	}
	switch t.Late {
	case "include":
		return ""
	case "drop":
		return dropped
	case "topic":
		return late
	}
	return "late"
}

// known reports whether id is among the newest ids and not too old. If not, it adds id.
func (t *turn) known(id string) bool {
	for _, s := range t.ids {
		if s.id == id && s.at > t.newest-t.Dedupe.Window {
			return true
		}
	}
	if t.at <= t.newest-t.Dedupe.Window {
		return false // too old to count
	}
	t.ids = append(t.ids, seen{id, t.at})
	if len(t.ids) > t.Dedupe.Max {
		t.ids = t.ids[1:]
	}
	return false
}

// time returns the event's time in microseconds, and whether there is one.
func (t *turn) time() (int64, bool) {
	unit := map[string]int64{"s": 1_000_000, "ms": 1000, "us": 1}[t.Unit]
	ts := t.values["ts"].Int
	if limit := int64(math.MaxInt64) / 1000 / unit; ts > limit || ts < -limit {
		return 0, false
	}
	return ts * unit, ts*unit-farFuture <= 0
}

// farFuture stands for the time of the append: generated times are either long before
// the tests run or centuries after them.
const farFuture = 3_000_000_000_000_000

// steps runs the event through list, and returns its outcome, or "" if it continues.
func (t *turn) steps(list []Step) string {
	for i := range list {
		if end := t.step(&list[i]); end != done {
			return end
		}
	}
	return done
}

func (t *turn) step(s *Step) string {
	switch {
	case s.Features != nil:
		return t.features(s.Features)
	case s.Let != nil:
		stage := "let"
		if s.Decide {
			stage = "decide"
		}
		return t.let(stage, s.Let)
	case s.Route != nil:
		return t.route(s.Route)
	case s.Emit != nil:
		return t.emit(s.Emit)
	case s.Group != nil:
		return t.join(s.Group)
	}
	panic("a step without a kind")
}

// let binds names. A feature that is fed back is written when its last name is known.
func (t *turn) let(stage string, list []Binding) string {
	for _, b := range list {
		v, ok := b.Expr.eval(t.values)
		if !ok {
			return stage
		}
		t.values[b.Name] = v
	}
	for _, f := range t.fedBack() {
		if slices.ContainsFunc(list, func(b Binding) bool { return b.Name == f.Last }) {
			if !t.write(f) {
				return "features"
			}
		}
	}
	return done
}

func (t *turn) route(cases []Case) string {
	for _, c := range cases {
		holds := Value{Bool: true}
		if c.When != nil {
			var ok bool
			if holds, ok = c.When.eval(t.values); !ok {
				return "route"
			}
		}
		switch {
		case !holds.Bool:
			continue
		case c.Then == "drop":
			return dropped
		case c.Then == "dlq":
			return "route"
		}
		return t.steps(c.Steps)
	}
	return "route"
}

func (t *turn) emit(e *Emit) string {
	if e.When != nil {
		v, ok := e.When.eval(t.values)
		if !ok {
			return "emit"
		}
		if !v.Bool {
			return done
		}
	}
	r := Record{Topic: e.Topic, ID: t.outputID(e.Topic, e.Name)}
	for _, name := range e.Names {
		r.Row = append(r.Row, Cell{name, t.values[name]})
	}
	t.out = append(t.out, r)
	return done
}
