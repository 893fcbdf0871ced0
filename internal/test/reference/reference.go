// Package reference computes one pipeline, testdata/fraud.yaml, in the plainest
// way there is: one event at a time, nothing kept in a clever form, nothing
// shared with the engine. What it says an input becomes is what every engine,
// batch size and crash point must produce, byte for byte. It imports only the
// standard library.
package reference

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"sort"
)

//go:embed testdata/fraud.yaml
var pipeline string

//go:embed testdata/fraud.json
var model string

// Pipeline returns the pipeline file that Run computes. Its model is fraud.json.
func Pipeline() []byte { return []byte(pipeline) }

// Model returns the XGBoost model of the pipeline, as JSON.
func Model() []byte { return []byte(model) }

// Record is one record of the input.
type Record struct {
	Partition  int
	Offset     int64
	Appended   int64 // time of the append, microseconds since 1970
	Key, Value []byte
}

// Output is one record that an event became.
type Output struct {
	Offset     int64 // of the event, in the input's partition
	Key, Value []byte
}

// DeadLetter says where an event failed: "decode", "key", "time", "late" or
// "features".
type DeadLetter struct {
	Offset int64
	Stage  string
}

// Partition is what became of one partition of the input, in its order. The
// outputs stand in the partition of the same number of their topics.
type Partition struct {
	Decisions, Freezes []Output
	DeadLetters        []DeadLetter
	Dropped            int   // events left out as late
	Newest             int64 // event time, microseconds; math.MinInt64 before the first
	Keys               []Key // what is kept at the end, by key
}

// Key is what is kept of a customer.
type Key struct {
	Key    string
	Newest int64 // event time, microseconds
	Last   int64 // event time that gap counts from; math.MinInt64 where none
	// Windows of spend, in the file's order; empty after an hour of silence, as
	// are Flow and Hot.
	Spend [3][]Pane
	Flow  []Entry // in order of arrival
	Hot   []int64 // times of scores over 0.5, in order of arrival
	Past  []float64
}

// Pane is what a pane of spend holds.
type Pane struct{ Index, Count, Sum, Max int64 } // Sum and Max in cents

// Entry is one payment.
type Entry struct{ Time, Cents int64 }

// Options changes what Run computes.
type Options struct {
	// Late is what becomes of an event before the watermark: "include" ("" is
	// it too), "dlq" or "drop".
	Late string
	// Probability turns the sum of the trees into a score; nil is Probability.
	Probability func(margin float32) float32
	// Score replaces the model as a whole; nil is Model.
	Score func(row []float32) float64
}

// The words of the pipeline file, in microseconds.
const (
	second    = 1_000_000
	lateness  = 5 * second
	maxAhead  = 3600 * second
	retention = 3600 * second       // the longest window
	keep      = 720 * 3600 * second // of last and elapsed
)

// Run computes what becomes of records, which hold each partition's in the
// order of its offsets. The result has one entry for each of n partitions.
func Run(records []Record, n int, o Options) ([]Partition, error) {
	switch o.Late {
	case "", "include", "dlq", "drop":
	default:
		return nil, fmt.Errorf("late policy %q: use include, dlq or drop", o.Late)
	}
	if o.Score == nil {
		trees, err := parseModel([]byte(model))
		if err != nil {
			return nil, fmt.Errorf("read model: %w", err)
		}
		probability := o.Probability
		if probability == nil {
			probability = Probability
		}
		o.Score = func(row []float32) float64 { return float64(probability(trees.margin(row))) }
	}
	parts := make([]*partition, n)
	for i := range parts {
		parts[i] = &partition{Partition: Partition{Newest: never}, options: o, keys: map[string]*Key{}}
	}
	for _, r := range records {
		if r.Partition < 0 || r.Partition >= n {
			return nil, fmt.Errorf("record of partition %d: there are %d", r.Partition, n)
		}
		parts[r.Partition].process(r)
	}
	out := make([]Partition, n)
	for i, p := range parts {
		out[i] = p.end()
	}
	return out, nil
}

const never = math.MinInt64

type partition struct {
	Partition
	options Options
	keys    map[string]*Key
}

func (p *partition) watermark() int64 {
	if p.Newest == never {
		return never
	}
	return p.Newest - lateness
}

func (p *partition) process(r Record) {
	switch stage := p.event(r); stage {
	case "":
	case "drop":
		p.Dropped++
	default:
		p.DeadLetters = append(p.DeadLetters, DeadLetter{r.Offset, stage})
	}
}

// event computes one record. It returns the stage at which the record becomes a
// dead letter, "drop" where it is left out, and else "".
func (p *partition) event(r Record) string {
	e, err := decode(r.Value)
	if err != nil {
		return "decode"
	}
	if e.customer != string(r.Key) {
		return "key"
	}
	at, err := eventTime(e.ts, r.Appended)
	if err != nil {
		return "time"
	}
	p.Newest = max(p.Newest, at)
	if at < p.watermark() {
		switch p.options.Late {
		case "dlq":
			return "late"
		case "drop":
			return "drop"
		}
	}
	k := p.key(e.customer)
	k.Newest = max(k.Newest, at)

	where := int64(-1)
	if code, ok := map[string]int64{"US": 0, "GB": 1, "DE": 2, "BR": 3, "NG": 4}[e.country]; ok {
		where = code
	}
	f, err := k.features(at, e.amount)
	if err != nil {
		return "features"
	}
	score := p.options.Score(f.row(e.amount, where))
	k.addScore(at, score)
	action := "allow"
	switch {
	case score >= 0.9:
		action = "block"
	case score >= 0.5:
		action = "review"
	}

	p.Decisions = append(p.Decisions, Output{r.Offset, r.Key, object(
		"tx", e.tx, "fraud_score", score, "action", action, "where", where,
		"spend_sum_3600s", f.spend[2].sum, "flow_count_1h", f.flow[1].count, "flow_min_60s", f.flow[0].min,
		"gap", f.gap, "past_mean", f.past, "hot_count_600s", f.hot)})
	if action == "block" {
		p.Freezes = append(p.Freezes, Output{r.Offset, r.Key, object("tx", e.tx, "customer", e.customer)})
	}
	return ""
}

// eventTime returns ts, in milliseconds, in microseconds.
func eventTime(ts, appended int64) (int64, error) {
	const years = math.MaxInt64 / 1000 // microseconds in 1678 and 2261
	if ts > years/1000 || ts < -years/1000 {
		return 0, errors.New("outside of the years 1678 to 2261")
	}
	if at := ts * 1000; at-appended <= maxAhead {
		return at, nil
	}
	return 0, errors.New("too far past the append")
}

// key returns what is kept of a customer at the current watermark.
func (p *partition) key(name string) *Key {
	if k := p.keys[name]; k != nil && !k.expire(p.watermark()) {
		return k
	}
	k := &Key{Key: name, Newest: never, Last: never}
	p.keys[name] = k
	return k
}

// expire drops what a key's silence ended, and reports whether nothing is left.
func (k *Key) expire(watermark int64) bool {
	if watermark >= k.Newest+retention {
		k.Spend, k.Flow, k.Hot = [3][]Pane{}, nil, nil
	}
	return watermark >= k.Newest+keep
}

// end returns the result, with the keys as of the last watermark.
func (p *partition) end() Partition {
	for _, k := range p.keys {
		if !k.expire(p.watermark()) {
			p.Keys = append(p.Keys, *k)
		}
	}
	sort.Slice(p.Keys, func(i, j int) bool { return p.Keys[i].Key < p.Keys[j].Key })
	return p.Partition
}
