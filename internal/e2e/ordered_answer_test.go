package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// orderedCase is a pipeline whose sources decide all that it writes.
type orderedCase struct {
	text      string
	functions map[string]udf.Function
	first     []stream.Record // there before the others: rows of tables
	records   []stream.Record
	late      []stream.Record                    // come when the others are computed; nil is none
	check     func(t *testing.T, log stream.Log) // of one run; nil is none
	features  bool                               // all that is kept is features, which are compared too: closing events must not end them
}

// orderedInput is an input whose events are out of order in their partitions, and some late.
const orderedInput = `input: {topic: payments, partitions: 4, key: merchant, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 3s, wait: 2s, idle: IDLE}, ` + fieldsOfPayments + `}
`

// orderedCases are the kinds of what a pipeline keeps.
func orderedCases(seed uint64, n int) map[string]orderedCase {
	events := eventtime.Disordered(seed, eventtime.Payments(seed, n, 4), 4*eventtime.Second)
	for i := range events { // few merchants, so that their events meet
		events[i].Text["merchant"] = "m" + events[i].Text["merchant"][len(events[i].Text["merchant"])-1:]
	}
	records := closed(paymentRecords(events), 4)
	rates, trades := rateRecords(eventtime.Rates(seed, n/4, n, eventtime.Hour))
	for i := range trades { // of all currencies in all partitions
		trades[i].Partition.Index = int32(i % 4)
	}
	of := func(name, steps string) orderedCase {
		return orderedCase{text: "pipeline: " + name + "\n" + orderedInput + "steps:\n" + steps, records: records}
	}
	windows := of("windows", "  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}, g: {value: amount, last: 3, aggregates: [mean]}}\n  - emit: {topic: merchants-rows, value: [id, card, merchant, f.*, g.*, meta.time, meta.id]}\n")
	windows.check = func(t *testing.T, log stream.Log) {
		rule := eventtime.Rule{Wait: 2 * eventtime.Second, Lateness: 3 * eventtime.Second}
		if n := untrueOf(t, log, "merchants-rows", "merchant", eventtime.InTime(eventtime.Order(events, rule))); n != 0 {
			t.Errorf("%d rows differ from event-time truth", n)
		}
	}
	sessions := of("sessions", "  - group: {name: visit, by: merchant, idle: 6s}\n  - emit: {topic: visits, value: [merchant, visit.id, visit.ended, meta.time, meta.id]}\n")
	sessions.check = func(t *testing.T, log stream.Log) {
		rule := eventtime.Rule{Wait: 2 * eventtime.Second, Lateness: 3 * eventtime.Second}
		mustBeSessions(t, log, eventtime.Sessions(eventtime.InTime(eventtime.Order(events, rule)), "merchant", 6*eventtime.Second, 0))
	}
	timers := of("timers", "  - call: {go: visits, outputs: {clicks: int}, topics: [visits]}\n  - emit: {topic: counted, value: [id, merchant, clicks]}\n")
	timers.functions = map[string]udf.Function{"visits": patientVisits}
	joined := func(match string) orderedCase {
		text := strings.NewReplacer("repartition: 1,", "repartition: REPARTITION,", "lateness: 5s", "lateness: 5s, wait: 1s, idle: IDLE").Replace(adsJoined("left", match, 1))
		return orderedCase{text: text, records: recordsOf(ads(seed, n))}
	}
	chain := of("chain", "  - features: {f: {value: amount, windows: [10m], aggregates: [sum]}}\n  - emit: {topic: between, key: card, value: [id, card, merchant, amount, ts, f.*]}\n")
	chain.text += `---
pipeline: q
input: {topic: between, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 1s, wait: 1s, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: cards-rows, value: [id, f.*]}
`
	chain.check = func(t *testing.T, log stream.Log) {
		first := eventtime.InTime(eventtime.Order(events, eventtime.Rule{Wait: 2 * eventtime.Second, Lateness: 3 * eventtime.Second}))
		slices.SortStableFunc(first, func(a, b eventtime.Placed) int { return cmp.Compare(a.Time, b.Time) })
		if n := untrueOf(t, log, "cards-rows", "card", first); n != 0 {
			t.Errorf("%d rows differ from event-time truth", n)
		}
	}
	return map[string]orderedCase{
		"chain": chain, "windows": windows, "by": byCase(seed, n, 200*eventtime.Millisecond), "sessions": sessions, "timers": timers, "first": joined("first"), "each": joined("each"), "last": joined("last"),
		"every": of("every", "  - group: {name: w, by: merchant, every: 20s, size: 1m, values: {n: count, spent: {sum: amount}}}\n  - emit: {topic: minutes, value: [merchant, w.start, w.n, w.spent, meta.time]}\n"),
		"as-of": {
			text: `pipeline: trades
input: {topic: trades, partitions: 4, key: currency, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 1h, late: include, idle: IDLE}, fields: {id: string, currency: string, pair: string, ts: int}}
steps:
  - lookup: {name: rate, table: rates, key: currency, as_of: event, time: {field: ts, unit: ms}, fields: {id: string}, empty: {id: '""'}}
  - features: {f: {windows: [1m], aggregates: [count]}}
  - emit: {topic: traded, value: [id, rate.id, f.*]}
`, first: rates, records: closed(trades, 4)},
	}
}

// mustBeSessions compares sessions of merchants, those of each in their order.
func mustBeSessions(t *testing.T, log stream.Log, sessions []eventtime.Session) {
	t.Helper()
	want, got := map[string][]string{}, map[string][]string{}
	for _, s := range sessions {
		want[s.Key] = append(want[s.Key], strings.Join(s.IDs, " "))
	}
	for _, r := range recordsIn(t, log, "visits") {
		var v struct {
			Merchant string   `json:"merchant"`
			IDs      []string `json:"visit_id"`
		}
		if err := json.Unmarshal(r.Value, &v); err != nil {
			t.Fatal(err)
		}
		if !isClosing(&r) {
			got[v.Merchant] = append(got[v.Merchant], strings.Join(v.IDs, " "))
		}
	}
	if d := diff.Diff(want, got); d != "" {
		t.Errorf("sessions differ from event-time truth (-want +got)\n%s", d)
	}
}

// patientVisits counts the payments of a merchant. It has timers that set timers.
var patientVisits = udf.Function{
	Version: 1, Keyed: true,
	Event: func(c *udf.Context) error {
		n := kept(c, "n") + 1
		keep(c, "n", n)
		c.SetTimer("quiet", c.Time.Add(4*time.Second))
		c.SetTimer(fmt.Sprint("each-", n%3), c.Time.Add(7*time.Second))
		c.SetInt("clicks", n)
		return nil
	},
	Timer: func(c *udf.Context) error {
		n := kept(c, "timers") + 1
		keep(c, "timers", n)
		if c.Timer == "quiet" && n%4 != 0 {
			c.SetTimer("again", c.Time.Add(2*time.Second))
			c.SetTimer("soon", c.Time)
		}
		c.Emit(udf.Output{Topic: "visits", Value: fmt.Appendf(nil, `{"merchant":%q,"n":%d,"timer":%q,"at":%d,"of":%d}`, c.Key, kept(c, "n"), c.Timer, c.Time.UnixMilli(), n)})
		return nil
	},
}

// closed adds an event of a later day to each partition: with it all that is before it is over.
func closed(records []stream.Record, partitions int32) []stream.Record {
	return closedAfter(records, partitions, 24*time.Hour)
}

// closedAfter is closed, with events that are so much later.
func closedAfter(records []stream.Record, partitions int32, after time.Duration) []stream.Record {
	last := slices.MaxFunc(records, func(a, b stream.Record) int { return a.Time.Compare(b.Time) }).Time.Add(after)
	records = slices.Clone(records)
	var topics []string
	for _, r := range records {
		if !slices.Contains(topics, r.Partition.Topic) {
			topics = append(topics, r.Partition.Topic)
		}
	}
	for _, topic := range topics {
		for i := range partitions {
			key := fmt.Sprint("end-", i)
			e := eventtime.Event{ID: key, Time: last.UnixMicro(), Text: map[string]string{"card": key, "merchant": key, "device": key, "currency": key, "pair": key, "user": key, "imp": key}, Number: map[string]float64{"amount": 1, "bid": 0, "price": 0}}
			records = append(records, stream.Record{Partition: stream.Partition{Topic: topic, Index: i}, Key: []byte(key), Value: e.JSON(), Time: last})
		}
	}
	return records
}

// isClosing reports whether an output is of an event that closed adds.
func isClosing(r *stream.Record) bool {
	return strings.HasPrefix(string(r.Key), "end-") || strings.HasPrefix(string(r.Key), "last")
}

// ways in which records come to a log. What is silent for long is not waited for, so no
// partition counts as silent where others come before it.
var arrivals = []string{"at once", "one by one", "partition after partition"}

// orderedVariant is one way of running over the same sources.
type orderedVariant struct {
	variant
	partitions int
	arrival    string
	held       int64
}

func (v orderedVariant) String() string {
	return fmt.Sprintf("%v/repartition=%d/%s/held=%d", v.variant, v.partitions, v.arrival, v.held)
}

// orderedVariants are ways to run in which each value of each setting occurs, and others meet
// in each seed.
func orderedVariants(random *rand.Rand) (list []orderedVariant) {
	engines := []string{"memory", "embedded", "memory", "embedded", "kafka", "memory"}
	if *answerAll {
		engines = slices.Repeat(engines, 4)
	}
	for range *answerBroker {
		engines = append(engines, "kafka broker")
	}
	cycle := func(n int) func() int {
		at := random.Perm(n)
		i := 0
		return func() int { i++; return at[i%n] }
	}
	batch, members, interval, partitions, arrival, held := cycle(4), cycle(4), cycle(2), cycle(3), cycle(len(arrivals)), cycle(3)
	for i, engine := range engines {
		if i%2 == 0 { // else they would be in step
			members()
		}
		size := []int{1, 7, 64, 1000}[batch()]
		if size < 20 && strings.HasPrefix(engine, "kafka") {
			size = 20 // a transaction for each event, or a few, takes minutes
		}
		v := variant{engine, size, 1 + members(), []time.Duration{time.Millisecond, time.Second}[interval()]}
		list = append(list, orderedVariant{v, []int{1, 4, 7}[partitions()], arrivals[arrival()], heldBounds[held()]})
	}
	return list
}

// TestSameSourcesSameAnswer runs pipelines where events of several partitions meet, over the
// same sources: in other batches, with other members, commits, engines and partitions, and
// with other appends between those of other partitions. All outputs are the same, byte for
// byte, and those of a key are in one order.
func TestSameSourcesSameAnswer(t *testing.T) {
	cases := orderedCases(*answerSeed, min(*answerEvents/20, 10_000))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := c.run(t, orderedVariant{variant{"memory", 64, 1, time.Millisecond}, 4, "at once", 0}, nil, c.check)
			if want.total < len(c.records)/20 || c.features && len(want.state) < 20 {
				t.Fatalf("seed %d: the events are too tame: %d outputs, state of %d keys", *answerSeed, want.total, len(want.state))
			}
			seed := *answerSeed
			for _, b := range []byte(name) { // so that all together have more ways
				seed = seed*31 + uint64(b)
			}
			for _, v := range orderedVariants(rand.New(rand.NewPCG(seed, 8))) {
				t.Run(v.String(), func(t *testing.T) {
					if v.engine != "kafka broker" { // all use the same one
						t.Parallel() // they wait more than they compute
					}
					if d := c.run(t, v, want, nil).difference(want); d != "" {
						t.Fatalf("seed %d: %s", *answerSeed, d)
					}
				})
			}
		})
	}
}

// run runs the pipeline, in virtual time where the log is in memory, until it has what is
// wanted. The first run, which nothing is wanted of, is in memory.
func (c orderedCase) run(t *testing.T, v orderedVariant, want *orderedAnswer, check func(*testing.T, stream.Log)) (got *orderedAnswer) {
	t.Helper()
	if v.engine != "memory" {
		return c.runNow(t, v, want, check)
	}
	synctest.Test(t, func(t *testing.T) {
		untilEventsAreOver()
		got = c.runNow(t, v, want, check)
	})
	return got
}

// untilEventsAreOver has virtual time, which begins in 2000, pass the times of events.
func untilEventsAreOver() { time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))) }

func (c orderedCase) runNow(t *testing.T, v orderedVariant, want *orderedAnswer, check func(*testing.T, stream.Log)) *orderedAnswer {
	t.Helper()
	s := orderedSettings{members: v.members, partitions: v.partitions, held: v.held, batch: v.batch, interval: v.interval, idle: "100ms", functions: c.functions, features: c.features}
	if v.arrival != "at once" {
		s.idle = "never"
	}
	log := openLog(t, v.engine, t.TempDir())
	defer closeLog(t, log)
	o := startOrdered(t, log, c.text, s)
	first, later := slices.Clone(c.first), arranged(c.records, v.arrival)
	if v.arrival == "at once" {
		first, later = append(first, later...), nil
	}
	if len(first) > 0 {
		if err := log.Append(t.Context(), first...); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a busy machine takes long
	defer cancel()
	err := o.while(ctx, func(ctx context.Context) error {
		for chunk := range slices.Chunk(later, map[string]int{"at once": 1, "one by one": 1, "partition after partition": 50}[v.arrival]) {
			if err := log.Append(ctx, slices.Clone(chunk)...); err != nil {
				return err
			}
		}
		if want != nil {
			return o.until(ctx, t, want)
		}
		err := o.idle(ctx)
		time.Sleep(time.Minute) // virtual: what is told after a delay is counted then
		return err
	})
	got := o.answer(t)
	if err != nil {
		t.Fatal(err)
	}
	if n := o.forced(); n != 0 {
		t.Errorf("%d events were forced", n)
	}
	if check != nil {
		check(t, log)
	}
	return got
}

// arranged puts records in another order; those of a partition stay in theirs.
func arranged(records []stream.Record, arrival string) (list []stream.Record) {
	by := map[stream.Partition][]stream.Record{}
	for _, r := range records {
		by[r.Partition] = append(by[r.Partition], r)
	}
	var partitions []stream.Partition
	for p := range by {
		partitions = append(partitions, p)
	}
	slices.SortFunc(partitions, func(a, b stream.Partition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
	})
	random := rand.New(rand.NewPCG(*answerSeed, uint64(len(records))))
	random.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
	switch arrival {
	case "at once":
		return slices.Clone(records)
	case "partition after partition":
		for _, p := range partitions {
			list = append(list, by[p]...)
		}
		return list
	}
	for len(list) < len(records) {
		p := partitions[random.IntN(len(partitions))]
		n := min(1+random.IntN(5), len(by[p]))
		list, by[p] = append(list, by[p][:n]...), by[p][n:]
	}
	return list
}

// orderedAnswer is what pipelines left: each output by its id, and the ids of each key in order.
type orderedAnswer struct {
	outputs map[string]string
	keys    map[string][]string // by topic and key
	total   int
	again   int      // outputs that are there again, the same
	state   []string // of features, sorted; nil if it is not compared
}

// answer reads all outputs but those of closing events.
func (o orderedRun) answer(t *testing.T) *orderedAnswer {
	t.Helper()
	a := &orderedAnswer{outputs: map[string]string{}, keys: map[string][]string{}}
	for _, r := range o.runners {
		for _, topic := range r.Outputs() {
			for _, record := range recordsIn(t, o.log, topic) {
				if isClosing(&record) {
					continue
				}
				id := topic + " " + header.Get(&record, header.ID)
				text := describe(withoutRun(&record))
				if was := a.outputs[id]; was == text {
					a.again++
					continue
				} else if was != "" {
					t.Errorf("%s occurs twice:\n%s\n%s", id, was, text)
				}
				a.outputs[id] = text
				if a.total++; topic == "between" { // several partitions write the events of a key
					continue
				}
				key := topic + " " + string(record.Key)
				a.keys[key] = append(a.keys[key], id)
			}
		}
		if o.features {
			a.state = append(a.state, o.state(t, r)...)
		}
	}
	slices.Sort(a.state)
	return a
}

// state reads what a pipeline and its stages keep of each key in features, whatever the
// partition it is beside. That of closing events depends on how many of them had their turn.
func (o orderedRun) state(t *testing.T, r *pipeline.Runner) (kept []string) {
	t.Helper()
	for _, read := range slices.Concat(r.Reads()[len(r.Copies):], r.StageReads()) {
		for i := range int32(r.Copies[0].Copy.Partitions) {
			for e, err := range stateOf(t, o.log, read.Group, stream.Partition{Topic: read.Topic, Index: i}).Scan(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if strings.ContainsRune("elEL", rune(e.Key[0])) && !strings.Contains(string(e.Key), "end-") {
					kept = append(kept, fmt.Sprintf("%s %q %x", read.Group, e.Key, e.Value))
				}
			}
		}
	}
	return kept
}

// withoutRun leaves out what differs between runs with other settings: the place in the
// repartition topic, and the digest of the pipeline file. A timer is of no event of a source,
// so its position is in the repartition topic. Where records are in a topic that several
// partitions write depends on the run.
func withoutRun(r *stream.Record) *stream.Record {
	other := *r
	other.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h stream.Header) bool {
		at := string(h.Value)
		return h.Key == header.Repartition || h.Key == header.Pipeline || h.Key == header.Position && (strings.Contains(at, ".repartition/") || strings.HasPrefix(at, "between/"))
	})
	return &other
}

// until waits for as many outputs as are wanted, and for their state: what is told after a delay
// is counted when no output waits for it. It gives up if none comes for crashPatience.
func (o orderedRun) until(ctx context.Context, t *testing.T, want *orderedAnswer) error {
	_, virtual := o.log.(*memory.Log) // its time is virtual: a look at the answer takes none of it
	for seen, since := -1, time.Now(); ; {
		begun := time.Now()
		got := o.answer(t)
		switch n := got.total; {
		case n >= want.total && slices.Equal(got.state, want.state):
			return nil
		case n > seen:
			seen, since = n, begun
		case begun.Sub(since) <= crashPatience:
		case n >= want.total:
			return nil // the state differs
		default:
			return fmt.Errorf("no output comes after %d of %d", n, want.total)
		}
		pause := 5*time.Millisecond + 3*time.Since(begun) // which leaves the machine to the pipelines
		if virtual {
			pause = time.Second
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%d outputs of %d: %w", seen, want.total, ctx.Err())
		}
	}
}

// filled adds outputs that are wanted and missing where the others of their keys are in their
// order, and returns how many there were.
func (a *orderedAnswer) filled(want *orderedAnswer) (missing int) {
	for key, w := range want.keys {
		left := a.keys[key]
		for _, id := range w {
			if len(left) > 0 && left[0] == id {
				left = left[1:]
			}
		}
		if len(left) > 0 {
			continue
		}
		for _, id := range w {
			if a.outputs[id] == "" {
				a.outputs[id] = want.outputs[id]
				missing++
			}
		}
		a.keys[key] = w
	}
	return missing
}

func (a *orderedAnswer) difference(want *orderedAnswer) string {
	if a.again > 0 {
		return fmt.Sprintf("%d outputs are there again", a.again)
	}
	for id, w := range want.outputs {
		if g := a.outputs[id]; g != w {
			return fmt.Sprintf("%s:\n got %s\nwant %s", id, cmp.Or(g, "nothing"), w)
		}
	}
	for id, g := range a.outputs {
		if want.outputs[id] == "" {
			return "nothing is wanted of " + g
		}
	}
	if d := diff.Diff(want.state, a.state); d != "" {
		return "state differs (-want +got)\n" + d
	}
	for key, w := range want.keys {
		if g := a.keys[key]; !slices.Equal(g, w) {
			return fmt.Sprintf("%s is in another order:\n got %q\nwant %q", key, g, w)
		}
	}
	return ""
}
