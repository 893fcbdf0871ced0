package reprocess

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// Comparison holds the differences between the outputs of two generations in a topic.
type Comparison struct {
	Topic   string  `json:"topic"`
	Both    int64   `json:"both"`     // outputs of both generations
	Changed int64   `json:"changed"`  // outputs of both that differ
	OnlyOld int64   `json:"only_old"` // from events that both generations have computed
	OnlyNew int64   `json:"only_new"`
	Fields  []Field `json:"fields"` // fields that differ or are numeric, by name
}

// Field holds the differences of one field, over the outputs that both generations made.
type Field struct {
	Name    string           `json:"name"`
	Changed int64            `json:"changed"`
	Values  map[string]int64 `json:"values,omitempty"` // counts of "old -> new" for values that are not numbers; the first kinds only
	Old     *Spread          `json:"old,omitempty"`    // set if the values are numbers
	New     *Spread          `json:"new,omitempty"`
	Mean    float64          `json:"mean_difference,omitempty"` // mean of the absolute differences
	Most    float64          `json:"most,omitempty"`            // largest absolute difference

	sum float64
}

// Spread is the distribution of numbers.
type Spread struct {
	Count  int64     `json:"count"`
	Mean   float64   `json:"mean"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	P5     float64   `json:"p5"`
	P50    float64   `json:"p50"`
	P95    float64   `json:"p95"`
	sample []float64 // a sample of the numbers; sorted at the end
	rng    *rand.Rand
}

const (
	unmatchedMax = 1_000_000 // outputs that wait for their counterpart
	kindsMax     = 50        // kinds of changes of a field
	sampleMax    = 20_000    // sampled numbers of a field
)

// errFar means that too many outputs lie between those of the two generations.
var errFar = errors.New("one generation is more than a million outputs ahead of the other: compare when the new one has caught up")

// Compare compares the outputs of a job in a topic with those of the generations before it, for the
// same events. Both inputs must be in the order of partitions and offsets. Compare ignores other
// records.
func Compare(topic, pipeline string, job *Progress, old, now iter.Seq2[stream.Record, error]) (*Comparison, error) {
	c := &comparer{result: &Comparison{Topic: topic}, fields: map[string]*Field{}, reached: map[int32]stream.Offset{}}
	c.waiting[0], c.waiting[1] = map[string]made{}, map[string]made{}
	before := only(old, func(r *stream.Record) bool {
		_, n := generation.Of(r)
		partition, offset, _ := generation.Event(r)
		return n < job.Generation && (int(partition) >= len(job.First) || offset >= job.First[partition])
	})
	again := only(now, func(r *stream.Record) bool {
		by, n := generation.Of(r)
		return by == pipeline && n == job.Generation
	})
	var next [2]func() (stream.Record, error, bool)
	for i, records := range []iter.Seq2[stream.Record, error]{before, again} {
		var stop func()
		next[i], stop = iter.Pull2(records)
		defer stop()
	}
	for open := [2]bool{true, true}; open[0] || open[1]; {
		for side := range 2 {
			if !open[side] {
				continue
			}
			r, err, ok := next[side]()
			if open[side] = ok; !ok {
				continue
			}
			if err == nil {
				err = c.take(side, &r)
			}
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", topic, err)
			}
		}
	}
	return c.sum(), nil
}

// only yields the wanted records.
func only(all iter.Seq2[stream.Record, error], wanted func(*stream.Record) bool) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for r, err := range all {
			if (err != nil || wanted(&r)) && !yield(r, err) {
				return
			}
		}
	}
}

// made is an output that waits for the output of the other generation.
type made struct {
	value     []byte
	partition int32 // of its event
	offset    stream.Offset
}

// comparer compares outputs one by one, in the order of their arrival.
type comparer struct {
	result  *Comparison
	waiting [2]map[string]made      // by id
	reached map[int32]stream.Offset // newest event by partition with an output of the new generation
	fields  map[string]*Field
}

func (c *comparer) take(side int, r *stream.Record) error {
	id := header.Get(r, header.ID)
	partition, offset, _ := generation.Event(r)
	if side == 1 {
		c.reached[partition] = max(c.reached[partition], offset)
	}
	other, ok := c.waiting[1-side][id]
	if !ok {
		if len(c.waiting[side]) >= unmatchedMax {
			return errFar
		}
		c.waiting[side][id] = made{bytes.Clone(r.Value), partition, offset}
		return nil
	}
	delete(c.waiting[1-side], id)
	c.result.Both++
	if side == 0 {
		c.compare(r.Value, other.value)
	} else {
		c.compare(other.value, r.Value)
	}
	return nil
}

// compare compares two outputs of an event as JSON.
func (c *comparer) compare(old, now []byte) {
	var values [2]map[string]any
	if json.Unmarshal(old, &values[0]) != nil || json.Unmarshal(now, &values[1]) != nil {
		values = [2]map[string]any{{"": string(old)}, {"": string(now)}} // functions can write values that are not JSON
	}
	changed := false
	for name, was := range values[0] {
		changed = c.field(name, was, values[1][name]) || changed
	}
	for name, is := range values[1] {
		if _, ok := values[0][name]; !ok {
			changed = c.field(name, nil, is) || changed
		}
	}
	if changed {
		c.result.Changed++
	}
}

func (c *comparer) field(name string, was, is any) (changed bool) {
	f := c.fields[name]
	if f == nil {
		f = &Field{Name: name}
		c.fields[name] = f
	}
	old, isOld := was.(float64)
	now, isNow := is.(float64)
	if isOld || isNow {
		for _, n := range []struct {
			into  **Spread
			value float64
			ok    bool
		}{{&f.Old, old, isOld}, {&f.New, now, isNow}} {
			if n.ok {
				(*n.into).add(n.into, n.value)
			}
		}
	}
	if isOld && isNow {
		size := math.Abs(now - old)
		f.sum += size
		f.Most = max(f.Most, size)
		if size > 0 {
			f.Changed++
		}
		return size > 0
	}
	a, b := text(was), text(is)
	if a == b {
		return false
	}
	f.Changed++
	if f.Values == nil {
		f.Values = map[string]int64{}
	}
	kind := short(a) + " -> " + short(b)
	if _, known := f.Values[kind]; known || len(f.Values) < kindsMax {
		f.Values[kind]++
	}
	return true
}

// text formats a value as JSON, or "nothing" if there is no value.
func text(v any) string {
	if v == nil {
		return "nothing"
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("rederive: JSON that was read cannot be written: " + err.Error())
	}
	return string(b)
}

func short(s string) string {
	if len(s) > 40 {
		return s[:37] + "..."
	}
	return s
}

// add adds a number to a spread, and creates the spread if it is nil.
func (s *Spread) add(into **Spread, v float64) {
	if s == nil {
		s = &Spread{Least: v, Most: v, rng: rand.New(rand.NewPCG(1, 1))}
		*into = s
	}
	s.Count++
	s.Mean += (v - s.Mean) / float64(s.Count)
	s.Least, s.Most = min(s.Least, v), max(s.Most, v)
	if len(s.sample) < sampleMax {
		s.sample = append(s.sample, v)
	} else if at := s.rng.Int64N(s.Count); at < sampleMax {
		s.sample[at] = v
	}
}

// Share divides the range between two values into n equal parts, and returns the share of the
// numbers in each part.
func (s *Spread) Share(from, to float64, n int) []float64 {
	shares := make([]float64, n)
	for _, v := range s.sample {
		at := int((v - from) / (to - from) * float64(n))
		shares[min(max(at, 0), n-1)] += 1 / float64(len(s.sample))
	}
	return shares
}

func (s *Spread) sum() {
	if s == nil {
		return
	}
	slices.Sort(s.sample)
	at := func(q float64) float64 { return s.sample[int(q*float64(len(s.sample)-1))] }
	s.P5, s.P50, s.P95 = at(0.05), at(0.5), at(0.95)
}

// sum finishes the comparison. It ignores old outputs of events that the new generation has not
// reached.
func (c *comparer) sum() *Comparison {
	for _, m := range c.waiting[0] {
		if m.offset <= c.reached[m.partition] {
			c.result.OnlyOld++
		}
	}
	c.result.OnlyNew = int64(len(c.waiting[1]))
	c.result.Fields = []Field{}
	for _, f := range slices.SortedFunc(maps.Values(c.fields), func(a, b *Field) int { return cmp.Compare(a.Name, b.Name) }) {
		f.Old.sum()
		f.New.sum()
		if f.Old != nil && f.New != nil {
			f.Mean = f.sum / float64(min(f.Old.Count, f.New.Count))
		}
		if f.Changed > 0 || f.Old != nil || f.New != nil {
			c.result.Fields = append(c.result.Fields, *f)
		}
	}
	return c.result
}
