package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// trades finds the rate of the time of each trade, by the key of the input and by another name.
const trades = `pipeline: trades
input: {topic: trades, partitions: 4, key: currency, time: {field: ts, unit: ms, lateness: 1h, late: include}, fields: {id: string, currency: string, pair: string, ts: int}}
steps:
  - lookup: {name: rate, table: rates, key: currency, as_of: event, time: {field: ts, unit: ms}, fields: {id: string}, empty: {id: '""'}}
  - lookup: {name: again, table: rates, key: pair, as_of: event, time: {field: ts, unit: ms}, fields: {id: string}, empty: {id: '""'}}
  - emit: {topic: traded, value: [id, rate.id, again.id]}
`

func tradesPipeline(t testing.TB, text string) lang.Pipeline {
	t.Helper()
	file, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return file.Pipelines[0]
}

// rateRecords returns the records of rates and trades, each with the time of its append.
func rateRecords(events []eventtime.Event) (rates, trades []stream.Record) {
	for _, e := range events {
		currency := e.Text["currency"]
		record := stream.Record{Partition: stream.Partition{Topic: e.Topic, Index: stream.ByKey}, Key: []byte(currency), Time: time.UnixMicro(e.Appended)}
		if e.Text["pair"] = currency; !e.Deleted {
			record.Value = e.JSON()
		}
		if e.Topic == "rates" {
			rates = append(rates, record)
		} else {
			trades = append(trades, record)
		}
	}
	return rates, trades
}

// mismatches returns how many trades found another rate than the one that was valid, by either key.
func mismatches(t *testing.T, log stream.Log, topic string, events []eventtime.Event) (wrong int) {
	t.Helper()
	truth, seen := eventtime.ValidAt(events, "rates", "currency"), map[string]bool{}
	for _, text := range valuesOf(t, log, topic) {
		var row struct {
			ID    string `json:"id"`
			Rate  string `json:"rate_id"`
			Again string `json:"again_id"`
		}
		if err := json.Unmarshal([]byte(text), &row); err != nil || seen[row.ID] {
			t.Fatalf("%s: %v, or it occurs twice", text, err)
		}
		seen[row.ID] = true
		want := ""
		if found := truth[row.ID]; found.Found {
			want = found.Row.ID
		}
		if row.Rate != want || row.Again != want {
			wrong++
		}
	}
	if len(seen) != len(truth) {
		t.Fatalf("%d trades of %d", len(seen), len(truth))
	}
	return wrong
}

// TestRowsAreThoseOfTheEventsTime has all rates be there before the trades. Every engine,
// batch and number of members finds the rate that was valid at each trade, and makes the
// same bytes. So does a pipeline that reads all of it again.
func TestRowsAreThoseOfTheEventsTime(t *testing.T) {
	events := eventtime.Rates(*answerSeed, 600, 1200, eventtime.Hour)
	var first *answer
	for _, v := range []variant{
		{"memory", 1, 1, time.Millisecond}, {"memory", 64, 4, time.Millisecond}, {"embedded", 7, 4, time.Millisecond},
		{"embedded", 1000, 1, 100 * time.Millisecond}, {"kafka", 1000, 2, time.Millisecond},
	} {
		t.Run(v.String(), func(t *testing.T) {
			p := tradesPipeline(t, trades)
			p.Commit = lang.Commit{Interval: v.interval, Size: v.batch}
			log := openLog(t, v.engine, t.TempDir())
			defer closeLog(t, log)
			runner := newRunner(t, p, pipeline.Options{Members: v.members})
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			rates, trades := rateRecords(events)
			if err := errors.Join(log.Append(t.Context(), rates...), log.Append(t.Context(), trades...)); err != nil {
				t.Fatal(err)
			}
			runUntilIdle(t, runner, log)
			if n := mismatches(t, log, "traded", events); n != 0 {
				t.Errorf("%d of %d trades found the rate of another time", n, len(trades))
			}
			got := readAnswer(t, runner, log)
			got.state = slices.DeleteFunc(got.state, besideNone(trades))
			if first == nil {
				first = got
			}
			got.mustEqual(t, first)
		})
	}
}

// besideNone reports whether an entry of the state is of a partition without one of the records.
// How many rows were read beside it when the members end is by chance.
func besideNone(records []stream.Record) func(entry string) bool {
	return func(entry string) bool {
		return !slices.ContainsFunc(records, func(r stream.Record) bool {
			return strings.HasPrefix(entry, fmt.Sprint(stream.Place(r.Key, answerPartitions), " "))
		})
	}
}

// TestEventsWaitForTheRowsOfTheirTime appends rates up to 20 s after the time from which
// they are valid, between trades, while members lose commits, partitions and time. Trades
// wait, and each finds the rate of its time. If they do not wait, some find another. A
// pipeline that reads all of it again finds the right ones anyhow.
func TestEventsWaitForTheRowsOfTheirTime(t *testing.T) {
	counts, wrong := streamtest.Counts{}, 0
	waiting := strings.ReplaceAll(trades, "as_of: event", "as_of: event, wait: 21s")
	for seed := range seedsOf(*faultSeeds / 2) {
		n, late := liveTrades(t, waiting, seed, counts)
		if n != 0 || late != 0 {
			t.Errorf("seed %d: %d trades found the rate of another time, %d rates were late", seed, n, late)
		}
		if n, late := liveTrades(t, trades, seed, counts); late == 0 {
			t.Errorf("seed %d: no rate is late, if trades do not wait", seed)
		} else {
			wrong += n
		}
	}
	if t.Logf("%v; without waiting, %d trades found the rate of another time", counts, wrong); wrong == 0 {
		t.Error("nothing was found that waiting is for")
	}
}

// liveTrades appends rates and trades as time passes, and returns how many trades found
// another rate than that of their time, and how many rates were late.
func liveTrades(t *testing.T, text string, seed uint64, counts streamtest.Counts) (wrong int, late uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
		faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
		p := tradesPipeline(t, text)
		p.Commit.Size = 20
		runner := newRunner(t, p, pipeline.Options{Members: 3})
		if err := runner.CreateTopics(t.Context(), inner); err != nil {
			t.Fatal(err)
		}
		events := eventtime.Rates(seed, 150, 250, 20*eventtime.Second)
		shift := time.Now().UnixMicro() - events[0].Appended
		for i := range events {
			events[i].Time, events[i].Appended = events[i].Time+shift, events[i].Appended+shift
		}
		rates, trades := rateRecords(events)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, inspected{faulty, inner}) }()
		records := slices.Concat(rates, trades)
		slices.SortStableFunc(records, func(a, b stream.Record) int { return a.Time.Compare(b.Time) })
		var err error
		for _, r := range records {
			time.Sleep(time.Until(r.Time)) // virtual
			err = errors.Join(err, inner.Append(ctx, r))
		}
		err = errors.Join(err, runner.WaitIdle(ctx, inner))
		stop()
		if err = errors.Join(err, <-ended); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		wrong, late = mismatches(t, inner, "traded", events), runner.Counts().TableLateRows
		again := tradesPipeline(t, strings.NewReplacer("pipeline: trades", "pipeline: again", "topic: traded", "topic: again", ", wait: 21s", "").Replace(text))
		runUntilIdle(t, newRunner(t, again, pipeline.Options{}), inner)
		if n := mismatches(t, inner, "again", events); n != 0 {
			t.Errorf("seed %d: %d trades found the rate of another time, if all is read again", seed, n)
		}
		counts.Add(faulty.Counts())
		if err := faulty.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return wrong, late
}

// TestHistoryIsBoundedByTheWatermark has an event that is older than the history: it finds
// the row of the beginning of it, whatever was pruned.
func TestHistoryIsBoundedByTheWatermark(t *testing.T) {
	text := strings.ReplaceAll(trades, "as_of: event", "as_of: event, history: 1h")
	at := func(second int) int { return (1_767_258_000 + second) * 1000 }
	for _, size := range []int{1, 100} {
		log := memory.New(memory.Options{})
		p := tradesPipeline(t, text)
		p.Commit.Size = size
		runner := newRunner(t, p, pipeline.Options{})
		if err := runner.CreateTopics(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		var records []stream.Record
		for i, second := range []int{0, 3600, 7200, 10800} {
			records = append(records, row("rates", "c", fmt.Sprintf(`{"id":"r%d","ts":%d}`, i, at(second))))
		}
		for i, second := range []int{10, 3700, 18000, 10, 10700, 10900} { // at 18,000 the watermark is 14,400, and the history begins at 10,800
			records = append(records, row("trades", "c", fmt.Sprintf(`{"id":"t%d","currency":"c","pair":"c","ts":%d}`, i, at(second))))
		}
		for _, r := range records {
			if err := log.Append(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		runUntilIdle(t, runner, log)
		var found []string
		for _, text := range valuesOf(t, log, "traded") {
			var row struct {
				Rate string `json:"rate_id"`
			}
			if err := json.Unmarshal([]byte(text), &row); err != nil {
				t.Fatal(err)
			}
			found = append(found, row.Rate)
		}
		if want := []string{"r0", "r1", "r3", "r3", "r3", "r3"}; !slices.Equal(found, want) {
			t.Errorf("steps of %d: found %v, want %v", size, found, want)
		}
	}
}

// TestRowsAsOfTheEventAreChecked has what is wrong with such a lookup be an error at its place.
func TestRowsAsOfTheEventAreChecked(t *testing.T) {
	const whole = "as_of: event, time: {field: ts, unit: ms}"
	for words, want := range map[string]string{
		"time: {field: ts, unit: ms}":                                          "steps[0].lookup.time: it applies to a table with as_of: event",
		"wait: 2s":                                                             "steps[0].lookup.wait: it applies to a table with as_of: event",
		"as_of: arrival, history: 1h":                                          "steps[0].lookup.history: it applies to a table with as_of: event",
		"as_of: event, time: {field: ts}":                                      "steps[0].lookup.time.unit: missing",
		"as_of: event, time: {field: ts, unit: ms, format: 2006}":              "steps[0].lookup.time.format: remove unit or format",
		"as_of: event, time: {field: ts, format: 2006}":                        "steps[0].lookup.time.format: ",
		"as_of: event, history: 10m, time: {field: ts, unit: ms}":              "steps[0].lookup.history: 10m0s is less than the lateness of the input, 1h0m0s",
		"as_of: event, time: {field: ts, unit: ms}, redis: {url: 'redis://h'}": "steps[0].lookup",
	} {
		_, err := builtinOf(strings.Replace(trades, whole, words, 1))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(trades, "emit: {topic: traded", "emit: {topic: rates", 1): "steps[0].lookup.as_of: the pipeline writes",
		strings.Replace(strings.Replace(trades, "key: pair", "key: currency", 1), "name: again, table: rates, key: currency, "+whole, "name: again, table: rates, key: currency, wait: 1s, "+whole, 1): "steps[1].lookup.as_of: a lookup above finds rows",
	} {
		if _, err := builtinOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWaitingBeyondTheBudgetIsAWarning has events wait for longer than they may take.
func TestWaitingBeyondTheBudgetIsAWarning(t *testing.T) {
	text := strings.ReplaceAll(trades, "as_of: event", "as_of: event, wait: 2s") + "budget: {p99: 50ms}\n"
	runner, err := builtinOf(text)
	if err != nil {
		t.Fatal(err)
	}
	if list := runner.Warnings; !slices.ContainsFunc(list, func(w string) bool { return strings.Contains(w, "no event can keep the budget") }) {
		t.Errorf("warnings: %q", list)
	}
}

func builtinOf(text string) (*pipeline.Runner, error) {
	file, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		return nil, err
	}
	return builtin.New(file.Pipelines[0], pipeline.Options{})
}

// TestTimeThatMovesWithTheClockPassesNoEventThatWaits has a quiet topic whose time goes on with
// the clock while events wait for rows.
func TestTimeThatMovesWithTheClockPassesNoEventThatWaits(t *testing.T) {
	for _, wait := range []string{"", ", wait: 5s"} {
		synctest.Test(t, func(t *testing.T) {
			log := memory.New(memory.Options{})
			text := strings.ReplaceAll(strings.Replace(trades, "lateness: 1h, late: include", "idle: 200ms", 1), "as_of: event", "as_of: event"+wait)
			runner := newRunner(t, tradesPipeline(t, text), pipeline.Options{})
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx, log) }()
			r, err := rand.New(rand.NewPCG(1, 1)), error(nil)
			for i := range 200 {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond) // virtual
				err = errors.Join(err, log.Append(ctx, row("trades", "c", fmt.Sprintf(`{"id":"t%d","currency":"c","pair":"c","ts":%d}`, i, time.Now().UnixMilli()))))
			}
			err = errors.Join(err, runner.WaitIdle(ctx, log))
			stop()
			if err = errors.Join(err, <-ended, log.Close()); err != nil {
				t.Fatal(err)
			}
			if c := runner.Counts(); c.Late != 0 || c.Outputs != 200 {
				t.Errorf("%q: %d events are late, %d outputs", wait, c.Late, c.Outputs)
			}
		})
	}
}
