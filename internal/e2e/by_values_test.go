package e2e_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/eventtime"
)

// addValues adds features of values that are kept as they are, texts and ints, or of groups.
func (p *byPipeline) addValues(r *rand.Rand, by string) {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	for range r.IntN(3) {
		f := byFeature{name: fmt.Sprint("f", len(p.features)), by: by, kind: "string", when: one("", "amount > 20")}
		switch f.value = one("card", "amount", "grade"); f.value {
		case "amount":
			if f.kind = "int"; r.IntN(2) == 0 {
				f.per = "card"
			}
		case "grade":
			f.when = one("", "risk % 2 == 0")
		}
		switch all := []string{"first_value", "last_value", "previous", "distinct", "changes"}; {
		case f.per != "":
			f.aggregates = []string{"count", one("max", "sum"), one("first_value", "last_value", "previous")}
		case r.IntN(3) == 0:
			f.aggregates, f.take = []string{"list", "top"}, 1+r.IntN(3)
		default:
			r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			f.aggregates = all[:1+r.IntN(3)]
		}
		p.shape(r, &f)
		p.features = append(p.features, f)
	}
}

// any reports whether values are kept as they are, or split.
func (f *byFeature) any() bool { return f.kind != "" }

// kept returns the value of an entry, as JSON has it.
func (f *byFeature) kept(e byEntry) any {
	switch f.value {
	case "card":
		return e.event.Text["card"]
	case "grade":
		return map[bool]string{true: "low", false: "high"}[e.event.risk%3 == 0]
	}
	return float64(e.event.amount)
}

// valuesOf returns the columns of the entries that are after lo.
func (f *byFeature) valuesOf(entries []byEntry, lo int64, x *byPlaced) (columns []any) {
	for _, a := range f.aggregates {
		for _, w := range f.windows {
			var in []byEntry
			for _, e := range entries {
				if e.at > max(lo, x.Time-byWindows[w]) && e.at <= x.Time {
					in = append(in, e)
				}
			}
			slices.SortStableFunc(in, func(a, b byEntry) int { return cmp.Compare(a.at, b.at) })
			columns = append(columns, f.grouped(a, in, x))
		}
		if f.last > 0 {
			of := entries
			if a == "previous" {
				of = slices.DeleteFunc(slices.Clone(of), func(e byEntry) bool { return e.event == x })
			}
			columns = append(columns, f.grouped(a, of[max(0, len(of)-f.last):], x))
		}
	}
	return columns
}

// grouped returns an aggregate, or that of each group.
func (f *byFeature) grouped(name string, entries []byEntry, x *byPlaced) any {
	if name == "previous" {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e byEntry) bool { return e.event == x })
	}
	if f.per == "" {
		return f.keptOf(name, entries)
	}
	groups, all := map[string][]byEntry{}, map[string]any{}
	for _, e := range entries {
		groups[e.event.Text[f.per]] = append(groups[e.event.Text[f.per]], e)
	}
	for group, of := range groups {
		all[group] = f.keptOf(name, of)
	}
	return all
}

// keptOf returns an aggregate of entries in their order.
func (f *byFeature) keptOf(name string, entries []byEntry) any {
	values, sum := []any{}, 0.0
	for _, e := range entries {
		values = append(values, f.kept(e))
		sum += float64(e.event.amount)
	}
	counts := map[any]int{}
	changes := 0.0
	for i, v := range values {
		if counts[v]++; i > 0 && v != values[i-1] {
			changes++
		}
	}
	switch name {
	case "count":
		return float64(len(values))
	case "sum":
		return sum
	case "changes":
		return changes
	case "distinct":
		return float64(len(counts))
	case "list":
		return values[max(0, len(values)-f.take):]
	case "top":
		return f.topOf(counts)
	case "max":
		return slices.MaxFunc(values, func(a, b any) int { return cmp.Compare(a.(float64), b.(float64)) })
	}
	switch {
	case len(values) == 0:
		return nil
	case name == "first_value":
		return values[0]
	}
	return values[len(values)-1]
}

// topOf returns the most frequent values.
func (f *byFeature) topOf(counts map[any]int) any {
	type counted struct {
		v any
		n int
	}
	var list []counted
	for v, n := range counts {
		list = append(list, counted{v, n})
	}
	slices.SortFunc(list, func(a, b counted) int {
		if n, ok := a.v.(float64); ok {
			return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(n, b.v.(float64)))
		}
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.v.(string), b.v.(string)))
	})
	top := map[string]any{}
	for _, c := range list[:min(len(list), f.take)] {
		top[fmt.Sprint(c.v)] = float64(c.n)
	}
	return top
}

// TestAnswersAreBounded has a stage list texts that no record has room for. The event is a dead
// letter, the stage goes on, and so does the event after it by another merchant.
func TestAnswersAreBounded(t *testing.T) {
	const file = `pipeline: fraud
input:
  topic: payments
  partitions: 1
  key: card
  time: {field: ts, unit: ms}
  fields: {id: string, card: string, merchant: string, note: string, ts: int}
steps:
  - features:
      notes: {by: merchant, value: note, windows: [1h], aggregates: [list], take: 1000, max: 2048}
      again: {by: merchant, value: note, windows: [1h], aggregates: [list], take: 1000, max: 2048}
  - emit: {topic: decisions, value: {id: id, n: len(notes.list_1h)}}
`
	var events []eventtime.Event
	for i := range 601 {
		at := 946_000_000*eventtime.Second + int64(i)*eventtime.Millisecond
		merchant := "m"
		if i == 600 {
			merchant = "other"
		}
		events = append(events, eventtime.Event{Topic: "payments", ID: fmt.Sprint("t", i), Time: at, Appended: at, Text: map[string]string{"card": "c", "merchant": merchant, "note": strings.Repeat("x", 1000)}})
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		runByFile(t, file, byRecords(events), 1, log, log)
		rows, letters := byRows(t, log), recordsIn(t, log, "fraud.dlq")
		if len(rows)+len(letters) != 601 || rows["t522"]["n"] != 523.0 || rows["t600"]["n"] != 1.0 || len(letters) != 77 {
			t.Fatalf("%d rows, %d letters", len(rows), len(letters))
		}
		if said := header.Get(&letters[0], header.Error); !strings.HasPrefix(said, "features by merchant: the columns take 1050") || !strings.HasSuffix(said, "so set a smaller take") {
			t.Error(said)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
