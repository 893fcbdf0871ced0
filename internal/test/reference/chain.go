package reference

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

//go:embed testdata/chain.yaml
var chain string

// Chain returns the pipeline file that Terminals, Fraud, Copy and Activity compute. Its model is
// that of Pipeline. Its functions are those of functions.go, which a test must implement again for
// the engine.
func Chain() []byte { return []byte(chain) }

// Message is a record of a log, in or out.
type Message struct {
	Topic      string
	Partition  int // of an output with another key: where place puts it
	Offset     int64
	Time       int64 // microseconds since 1970
	Key, Value []byte
	Headers    []Header
	first      string // where it was read first, if it is a copy
}

// Header is one header of a Message.
type Header struct{ Key, Value string }

// headersSaid are the afterbay- headers that String shows: the others have digests, or error
// messages.
var headersSaid = []string{"id", "position", "repartition", "source", "order", "stage", "watermark"}

// String shows everything of a message that the reference computes. It omits the offset, which
// depends on the interleaving of partitions, and digests and error messages.
func (m Message) String() string {
	text := fmt.Sprintf("%s/%d %q at %d %q", m.Topic, m.Partition, m.Key, m.Time, m.Value)
	for _, name := range headersSaid {
		text += " " + name + "=" + m.header("afterbay-"+name)
	}
	for _, h := range m.Headers {
		if !strings.HasPrefix(h.Key, "afterbay-") {
			text += fmt.Sprintf(" %s=%q", h.Key, h.Value)
		}
	}
	return text
}

func (m Message) header(key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return ""
}

// Made is the result of a stage for one partition of its input.
type Made struct {
	Outputs                        []Message // of all topics, in order
	Dropped, Late, Repeated, Fired int
	Functions                      []Memory // state of the functions at the end, by function and key
	IDs                            int      // ids still in reach of dedupe
}

// Memory is the state of a function for a key.
type Memory struct {
	Function, Key string
	Values        map[string]string
	Timers        map[string]Timer
}

// Timer is a timer. It is due before the first event after After with a watermark of at least At.
// SetBy is the hash, in hexadecimal, of the id of the event or timer that set it.
type Timer struct {
	At, After int64
	SetBy     string
}

// stage computes one partition of a pipeline of the chain. It keeps everything in plain lists and
// scans all of it at every event.
type stage struct {
	name      string
	place     func(key []byte) int
	made      Made
	newest    int64 // event time
	watermark int64
	seen      []seen
	memories  map[[2]string]*Memory // by function and key
	soonest   int64                 // no timer is due before
	onTimer   map[string]func(*call) error
}

type seen struct {
	id string
	at int64
}

func newStage(name string, place func([]byte) int) *stage {
	return &stage{name: name, place: place, newest: never, watermark: never, soonest: math.MaxInt64, memories: map[[2]string]*Memory{}, onTimer: map[string]func(*call) error{}}
}

// arrival is an event on its way through a stage.
type arrival struct {
	Message
	at     int64 // event time
	fields map[string]any
}

func (m *Message) position() string {
	if m.first != "" {
		return m.first
	}
	return fmt.Sprintf("%s/%d@%d", m.Topic, m.Partition, m.Offset)
}

// firstOffset is where a copy was read first, in its partition.
func (m *Message) firstOffset() (at int64) {
	_, text, _ := strings.Cut(m.first, "@")
	at, _ = strconv.ParseInt(text, 10, 64)
	return at
}

// places are the headers that say where an output's event was read.
func (m *Message) places() []Header {
	if !strings.HasSuffix(m.Topic, ".repartition") {
		return []Header{{"afterbay-position", m.position()}}
	}
	var list []Header
	if m.first != "" { // else it is a timer
		list = append(list, Header{"afterbay-position", m.first})
	}
	return append(list, Header{"afterbay-repartition", fmt.Sprintf("%d@%d", m.Partition, m.Offset)})
}

// id returns the event's id: its own, or the position where it was read first.
func (s *stage) id(m *Message) string {
	if id := m.header("afterbay-id"); id != "" {
		return id
	}
	if source := m.header("afterbay-source"); strings.Contains(source, "@") {
		return source
	}
	return m.position()
}

// output is the id of what the pipeline writes of an event to a topic. The name is that
// of the step, with # before it, and of the output of a function, with / before it.
func (s *stage) output(event, topic, name string) string {
	pipeline, _, _ := strings.Cut(s.name, ".")
	return pipeline + ":" + event + ":" + topic + name
}

// write appends an output. A key other than nil sends it where place says.
func (s *stage) write(m *Message, topic string, key []byte, at int64, id string, value []byte) {
	out := Message{
		Topic: topic, Partition: m.Partition, Time: at, Key: m.Key, Value: value,
		Headers: append([]Header{{"afterbay-id", id}}, m.places()...),
	}
	if key != nil {
		out.Partition, out.Key = s.place(key), key
	}
	s.made.Outputs = append(s.made.Outputs, out)
}

// emit writes what an emit makes of an event.
func (s *stage) emit(a *arrival, topic string, key []byte, members ...any) {
	s.write(&a.Message, topic, key, a.at, s.output(s.id(&a.Message), topic, ""), object(members...))
}

// dead makes a message a dead letter: it is written as it came. Its watermark
// is known where its time is. That of a copied topic, which may have more
// partitions, is placed by its key, or by its value where it has none.
func (s *stage) dead(m *Message, stage string, at int64, timed bool) {
	pipeline, _, copied := strings.Cut(s.name, ".repartition.")
	out := Message{
		Topic: pipeline + ".dlq", Partition: m.Partition, Time: at, Key: m.Key, Value: m.Value,
		Headers: []Header{{"afterbay-id", s.output(s.id(m), pipeline+".dlq", "")}, {"afterbay-event", s.id(m)}},
	}
	out.Headers = append(append(out.Headers, m.places()...), Header{"afterbay-stage", stage})
	if timed && s.watermark != never {
		out.Headers = append(out.Headers, Header{"afterbay-watermark", watermarkText(s.watermark)})
	}
	if copied {
		out.Partition = s.place(m.Value)
		if m.Key != nil {
			out.Partition = s.place(m.Key)
		}
	}
	out.Headers = append(out.Headers, foreign(m.Headers)...)
	s.made.Outputs = append(s.made.Outputs, out)
}

// aside writes a late event as it came.
func (s *stage) aside(m *Message, topic string, at int64) {
	out := Message{
		Topic: topic, Partition: m.Partition, Time: at, Key: m.Key, Value: m.Value,
		Headers: append([]Header{{"afterbay-id", s.output(s.id(m), topic, "")}}, m.places()...),
	}
	out.Headers = append(out.Headers, Header{"afterbay-watermark", watermarkText(s.watermark)})
	out.Headers = append(out.Headers, foreign(m.Headers)...)
	s.made.Outputs = append(s.made.Outputs, out)
}

// foreign are the headers that an event came with and keeps.
func foreign(headers []Header) []Header {
	var out []Header
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, "afterbay-") {
			out = append(out, h)
		}
	}
	return out
}

func watermarkText(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }

// arrive moves the watermark to an event's time.
func (s *stage) arrive(at, lateness int64) {
	s.newest = max(s.newest, at)
	s.watermark = s.newest - lateness
}

// repeated reports whether id is among the newest ids and in the window before the newest time. If
// not, it adds id.
func (s *stage) repeated(id string, at, window int64, most int) bool {
	remembered := s.seen[max(0, len(s.seen)-most):]
	for _, o := range remembered {
		if o.id == id && o.at > s.newest-window {
			return true
		}
	}
	if at > s.newest-window {
		s.seen = append(s.seen, seen{id, at})
	}
	return false
}

// end returns the result, with the state at the end.
func (s *stage) end(window int64, most int) Made {
	for _, o := range s.seen[max(0, len(s.seen)-most):] {
		if o.at > s.newest-window {
			s.made.IDs++
		}
	}
	for _, m := range s.memories {
		if len(m.Values)+len(m.Timers) > 0 {
			s.made.Functions = append(s.made.Functions, *m)
		}
	}
	sort.Slice(s.made.Functions, func(i, j int) bool {
		a, b := s.made.Functions[i], s.made.Functions[j]
		return a.Key < b.Key || a.Key == b.Key && a.Function < b.Function
	})
	return s.made
}

// field is a field of an event: string, number, int, bool or time.
type field struct {
	name, kind string
	optional   bool
}

// read reads the fields of an event. It omits an optional field that is absent or null.
func read(value []byte, fields []field) (map[string]any, error) {
	found, err := members(value)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, f := range fields {
		values := found[f.name]
		if f.optional && (len(values) == 0 || len(values) == 1 && string(values[0]) == "null") {
			continue
		}
		if len(values) != 1 || string(values[0]) == "null" {
			return nil, fmt.Errorf("field %s stands there %d times or is null", f.name, len(values))
		}
		if out[f.name], err = f.parse(values[0]); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return out, nil
}

func (f field) parse(text []byte) (any, error) {
	var err error
	switch f.kind {
	case "string":
		var v string
		err = json.Unmarshal(text, &v)
		return v, err
	case "number":
		var v float64
		err = json.Unmarshal(text, &v)
		return v, err
	case "int":
		var v int64
		err = json.Unmarshal(text, &v)
		return v, err
	case "bool":
		var v bool
		err = json.Unmarshal(text, &v)
		return v, err
	case "time": // microseconds
		var v string
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		at, err := time.Parse(time.RFC3339, v)
		return at.UnixMicro(), err
	}
	return nil, errors.New("no kind " + f.kind)
}

// counts is a key's counted panes and entries in windows of 60s/5s and 1h.
type counts struct {
	panes   []Pane
	entries []Entry
}

// add takes in an event and returns how many are in each window.
func (c *counts) add(at int64) (minute, hour int64) {
	minute = addPane(&c.panes, floorDiv(at, 5*second), 12, 0).count
	c.entries = addEntry(c.entries, Entry{at, 0})
	return minute, overFlow(c.entries, at-3600*second, at).count
}

// addEntry appends an entry to a window of 1h.
func addEntry(entries []Entry, e Entry) []Entry {
	k := &Key{Flow: entries}
	k.addFlow(e)
	return k.Flow
}

// quiet reports that a key was silent for the hour of its longest window.
func quiet(newest, watermark int64) bool {
	return newest != never && watermark != never && watermark >= newest+retention
}

func cents(amount float64) int64 { return int64(math.RoundToEven(amount * 100)) }
