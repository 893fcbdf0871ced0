package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

// byPipeline is a pipeline with features of a card, a merchant and a device, and what its rows
// are by a look at all events before each one.
type byPipeline struct {
	topics         []string
	rule           eventtime.Rule
	late           string
	features       []byFeature
	delay          map[string]int64 // of a field, in ms
	small          string           // what becomes of an amount below 10: drop, or "" is that no case takes it
	partitionsOf   int              // of a topic
	disorder, pace int64            // of events: how far they are out of order, and twice the mean time between them
}

// byEmit is a case that emits the row.
const byEmit = "{steps: [EMIT]}"

// byFeature is a feature of a random pipeline.
type byFeature struct {
	name, by, from, value, when string
	windows                     []string
	last                        int
	aggregates                  []string

	kind string // of values that are kept as they are; "" is numbers
	per  string // field by which they are split
	take int    // of list and top
}

var byWindows = map[string]int64{"10s": 10 * eventtime.Second, "1m": eventtime.Minute, "10m": 10 * eventtime.Minute}

// delayed reports whether the feature knows a value some time after its event.
func (f *byFeature) delayed() bool { return f.by != "" && (f.value == "risk" || f.value == "grade") }

// columns returns the names of what the feature makes.
func (f *byFeature) columns() (names []string) {
	for _, a := range f.aggregates {
		for _, w := range f.windows {
			names = append(names, f.name+"."+a+"_"+w)
		}
		if f.last > 0 {
			names = append(names, f.name+"."+a)
		}
	}
	return names
}

// randomBy returns a random pipeline: features of the card, of one or two other fields, and of
// values that come back to the card at once, and to another field after a delay.
func randomBy(r *rand.Rand) *byPipeline {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	p := &byPipeline{
		topics: []string{"payments"}, partitionsOf: 3, late: one("dlq", "drop", "include", "{topic: too-late}"), delay: map[string]int64{}, pace: 4 * eventtime.Second,
		disorder: r.Int64N(3) * 8 * eventtime.Second, small: one("drop", "dlq"),
		rule: eventtime.Rule{Wait: r.Int64N(2) * 3 * eventtime.Second, Lateness: []int64{3, 10}[r.IntN(2)] * eventtime.Second},
	}
	if r.IntN(2) == 0 {
		p.topics = append(p.topics, "refunds")
	}
	add := func(by string, values ...string) {
		f := byFeature{name: fmt.Sprint("f", len(p.features)), by: by, value: one(values...), aggregates: []string{"count"}}
		switch {
		case f.value == "risk":
			f.when = one("", "risk % 2 == 0")
		default:
			f.when = one("", "amount > 20")
		}
		if f.value != "" {
			f.aggregates = append(f.aggregates, one("sum", "mean", "max", "min"), "sum")[:1+r.IntN(2)]
		}
		if p.shape(r, &f); f.last > 0 {
			f.aggregates = []string{one("sum", "mean", "max", "min")}
		}
		p.features = append(p.features, f)
	}
	add("", "amount", "risk")
	for _, by := range []string{"merchant", "device"} {
		p.delay[by] = []int64{1, 2000, 30_000}[r.IntN(3)]
		for range 1 + r.IntN(2) {
			add(by, "", "amount", "paid")
		}
		if by == "merchant" || r.IntN(2) == 0 {
			add(by, "risk")
		}
		p.addValues(r, by)
	}
	return p
}

// shape chooses the input of a feature, and its windows or its number of last values.
func (p *byPipeline) shape(r *rand.Rand, f *byFeature) {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	if f.from = one("", "", p.topics[len(p.topics)-1]); len(p.topics) == 1 {
		f.from = ""
	}
	switch names := []string{"10s", "1m", "10m"}; {
	case p.late == "include": // what is late does not meet the end of a silent key
		f.windows = []string{one("10s", "1m"), "10m"}
	case f.value != "" && r.IntN(4) == 0:
		f.last = 1 + r.IntN(5)
	default:
		at := r.IntN(3)
		f.windows = names[at:min(at+1+r.IntN(2), 3)]
	}
}

// text returns the pipeline file. REPARTITION and IDLE are to be replaced.
func (p *byPipeline) text() string {
	var b strings.Builder
	input := func(topic, more string) string {
		return fmt.Sprintf("{topic: %s, partitions: %d, key: card%s, time: {field: ts, unit: ms, lateness: %ds, wait: %ds, late: %s, idle: IDLE}, fields: {id: string, card: string, merchant: string, device: optional string, amount: int, ts: int}}",
			topic, p.partitionsOf, more, p.rule.Lateness/eventtime.Second, p.rule.Wait/eventtime.Second, p.late)
	}
	fmt.Fprintf(&b, "pipeline: fraud\ninput: %s\n", input("payments", ", repartition: REPARTITION"))
	if len(p.topics) > 1 {
		b.Reset()
		fmt.Fprintf(&b, "pipeline: fraud\ninputs:\n  - %s\n  - %s\n", input("payments", ", repartition: REPARTITION"), input("refunds", ""))
	}
	b.WriteString("steps:\n  - let: {paid: \"amount * 200 / (amount == 13 ? 0 : 100)\"}\n  - features:\n")
	var risk, values []string
	for i := range p.features {
		f := &p.features[i]
		var words []string
		word := func(name, value string, is bool) {
			if is {
				words = append(words, name+": "+value)
			}
		}
		word("by", f.by, f.by != "")
		word("from", f.from, f.from != "")
		word("value", f.value, f.value != "")
		word("when", f.when, f.when != "")
		word("delay", fmt.Sprint(p.delay[f.by], "ms"), f.delayed())
		word("type", f.kind, f.delayed() && f.kind != "")
		word("per", f.per, f.per != "")
		word("take", fmt.Sprint(f.take), f.take > 0)
		word("decimals", "0", f.value != "" && !f.any())
		word("last", fmt.Sprint(f.last), f.last > 0)
		word("windows", "["+strings.Join(f.windows, ", ")+"]", f.windows != nil)
		word("aggregates", "["+strings.Join(f.aggregates, ", ")+"]", true)
		word("empty", "-1", !f.any())
		fmt.Fprintf(&b, "      %s: {%s}\n", f.name, strings.Join(words, ", "))
		for _, c := range f.columns() {
			values = append(values, strings.ReplaceAll(c, ".", "_")+": "+c)
			if !strings.Contains(c, "mean") && !f.any() {
				risk = append(risk, fmt.Sprintf("int(%s) * %d", c, weight(len(values))))
			}
		}
	}
	fmt.Fprintf(&b, "  - decide: {risk: %q}\n  - decide: {grade: 'risk %% 3 == 0 ? \"low\" : \"high\"'}\n  - route:\n      large: {when: amount >= 10, steps: [EMIT]}\n      default: %s\n", "("+strings.Join(risk, " + ")+") % 97", p.small)
	return strings.ReplaceAll(b.String(), "EMIT", fmt.Sprintf("{emit: {topic: decisions, value: {id: id, %s, risk: risk}}}", strings.Join(values, ", ")))
}

// weight is that of the i-th column in the risk.
func weight(i int) int64 { return []int64{31, 7, 1, 13, 5}[i%5] }

// events returns n payments, and refunds if the pipeline reads them.
func (p *byPipeline) events(r *rand.Rand, n int, from int64) (events []eventtime.Event) {
	type source struct {
		topic     string
		partition int
	}
	now, offsets := from, map[source]int64{}
	for i := range n {
		now += r.Int64N(3) * r.Int64N(p.pace/eventtime.Millisecond) * eventtime.Millisecond
		e := eventtime.Event{
			Topic: p.topics[r.IntN(len(p.topics))], Partition: r.IntN(p.partitionsOf), ID: fmt.Sprint("t", i),
			Time: now - r.Int64N(p.disorder/eventtime.Millisecond+1)*eventtime.Millisecond, Appended: now,
			Text:   map[string]string{"card": fmt.Sprint("c", r.IntN(5)), "merchant": fmt.Sprint("m", r.IntN(3))},
			Number: map[string]float64{"amount": float64(r.Int64N(60))},
		}
		switch d := r.IntN(5); d {
		case 0: // no device
		case 1:
			e.Text["device"] = "" // a device without a name is one
		default:
			e.Text["device"] = fmt.Sprint("d", d)
		}
		at := source{e.Topic, e.Partition}
		e.Offset = offsets[at]
		offsets[at]++
		events = append(events, e)
	}
	return events
}

// byRecords returns the records of events.
func byRecords(events []eventtime.Event) (records []stream.Record) {
	for _, e := range events {
		records = append(records, stream.Record{
			Partition: stream.Partition{Topic: e.Topic, Index: int32(e.Partition)}, Key: []byte(e.Text["card"]), Value: e.JSON(), Time: time.UnixMicro(e.Appended),
		})
	}
	return records
}

// byRow is a row, by the names of its columns.
type byRow map[string]any

// byPlaced is an event at its place, and what was decided of it.
type byPlaced struct {
	eventtime.Placed
	amount  int64
	decided bool
	risk    int64
}

// value returns what a feature counts of an event: ok is false if it counts nothing.
func (f *byFeature) valueOf(e *byPlaced) (v int64, ok bool) {
	switch f.value {
	case "risk", "grade":
		return e.risk, e.decided && (f.when == "" || e.risk%2 == 0)
	case "paid":
		return 2 * e.amount, f.when == "" || e.amount > 20
	}
	return e.amount, f.when == "" || e.amount > 20
}

// rows computes the rows from all events before each one.
func (p *byPipeline) rows(events []eventtime.Event) map[string]byRow {
	var all []byPlaced
	for _, e := range eventtime.Order(events, p.rule) {
		if !e.Late || p.late == "include" {
			all = append(all, byPlaced{Placed: e, amount: int64(e.Number["amount"])})
		}
	}
	rows := map[string]byRow{}
	for i := range all {
		x := &all[i]
		if x.amount == 13 { // the let of it fails
			continue
		}
		row, n := byRow{}, 0
		for j := range p.features {
			f := &p.features[j]
			for k, v := range p.of(f, all[:i+1]) {
				n++
				column := f.columns()[k]
				row[strings.ReplaceAll(column, ".", "_")] = v
				if !strings.Contains(column, "mean") && !f.any() {
					x.risk += int64(v.(float64)) * weight(n)
				}
			}
		}
		x.risk, x.decided = x.risk%97, true
		row["risk"] = float64(x.risk)
		if x.amount >= 10 || p.small == byEmit {
			rows[x.ID] = row
		}
	}
	return rows
}

// byEntry is a value that a feature counts.
type byEntry struct {
	at, value int64
	event     *byPlaced
}

// of returns the columns of a feature of the last one of events.
func (p *byPipeline) of(f *byFeature, events []byPlaced) (columns []any) {
	x, by := &events[len(events)-1], f.by
	if by == "" {
		by = "card"
	}
	key, has := x.Text[by]
	switch {
	case !has && f.any():
		return f.valuesOf(nil, 0, x)
	case !has:
		return slices.Repeat([]any{-1.0}, len(f.columns()))
	}
	var entries []byEntry
	newest, longest := int64(0), int64(0)
	for _, w := range f.windows {
		longest = max(longest, byWindows[w])
	}
	for i := range events {
		e := &events[i]
		of, has := e.Text[by]
		v, counts := f.valueOf(e)
		switch {
		case !has || of != key || !counts || f.from != "" && e.Topic != f.from:
		case f.delayed() && (e == x || e.K+p.delay[by]*eventtime.Millisecond > x.K):
		case !f.delayed() && e.amount == 13 && p.fails(f.by):
		default:
			newest = max(newest, e.Time)
			if f.last > 0 || e.Time > newest-longest {
				entries = append(entries, byEntry{e.Time, v, e})
			}
		}
	}
	if f.any() {
		return f.valuesOf(entries, newest-longest, x)
	}
	for _, a := range f.aggregates {
		for _, w := range f.windows {
			var values []int64
			for _, e := range entries {
				if e.at <= x.Time && e.at > x.Time-byWindows[w] && e.at > newest-longest {
					values = append(values, e.value)
				}
			}
			columns = append(columns, aggregated(a, values))
		}
		if f.last > 0 {
			var values []int64
			for _, e := range entries[max(0, len(entries)-f.last):] {
				values = append(values, e.value)
			}
			columns = append(columns, aggregated(a, values))
		}
	}
	return columns
}

// fails reports whether an amount of 13 is counted nowhere by a field: that of the card, and of
// those whose stage needs what it was paid.
func (p *byPipeline) fails(by string) bool {
	return by == "" || slices.ContainsFunc(p.features, func(f byFeature) bool { return f.by == by && f.value == "paid" })
}

func aggregated(name string, values []int64) float64 {
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	switch {
	case name == "count":
		return float64(len(values))
	case name == "sum":
		return float64(sum)
	case len(values) == 0:
		return -1
	case name == "mean":
		return float64(sum) / float64(len(values))
	case name == "max":
		return float64(slices.Max(values))
	}
	return float64(slices.Min(values))
}

// byClosing is later than what waits for a delay, and sooner than windows end.
const byClosing = 30 * time.Second

// byCase is a random pipeline as a case of runs over the same sources. Events wait for values of
// those of 5 s before: each such span takes two commits.
func byCase(seed uint64, n int, pace int64) orderedCase {
	r := rand.New(rand.NewPCG(seed, 3))
	p := randomBy(r)
	p.partitionsOf, p.pace, p.delay = 4, pace, map[string]int64{"merchant": 5000, "device": 5000}
	events := p.events(r, n, 1_767_258_000*eventtime.Second)
	return orderedCase{text: p.text(), records: closedAfter(byRecords(events), 4, byClosing), features: true, check: func(t *testing.T, log stream.Log) {
		p.mustBeRows(t, log, events, fmt.Sprint("seed ", seed))
	}}
}

// mustBeRows compares what was decided with a look at all events.
func (p *byPipeline) mustBeRows(t *testing.T, log stream.Log, events []eventtime.Event, what string) {
	t.Helper()
	want, got := p.rows(events), byRows(t, log)
	maps.DeleteFunc(got, func(id string, _ byRow) bool { return strings.HasPrefix(id, "end-") })
	for id, row := range want {
		if fmt.Sprint(got[id]) != fmt.Sprint(row) {
			t.Fatalf("%s: row %s\n got %v\nwant %v\n%s", what, id, got[id], row, p.text())
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
}
