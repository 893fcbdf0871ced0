package eventtime_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

// at is an event of a topic's partition at a second.
func at(topic string, partition int, offset, second int64, id string) eventtime.Event {
	return eventtime.Event{Topic: topic, Partition: partition, Offset: offset, Time: second * eventtime.Second, ID: id}
}

// ids writes the order: an id with its order time in seconds, and "late".
func ids(order []eventtime.Placed) string {
	var words []string
	for _, p := range order {
		word := fmt.Sprintf("%s@%d", p.ID, p.K/eventtime.Second)
		if p.Late {
			word += " late"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func TestOrderIsByTimeSourceAndOffset(t *testing.T) {
	two := []eventtime.Event{at("b", 0, 0, 1, "b1"), at("b", 0, 1, 3, "b3"), at("a", 1, 0, 1, "a1"), at("a", 0, 0, 2, "a2"), at("a", 0, 1, 2, "a2'"), at("a", 1, 1, 3, "a3")}
	ahead := []eventtime.Event{at("a", 0, 0, 10, "a10"), at("a", 0, 1, 3600, "ahead"), at("a", 0, 2, 12, "a12"), at("b", 0, 0, 11, "b11")}
	ahead[1].Appended = 11 * eventtime.Second
	apart := []eventtime.Event{at("a", 0, 0, 10, "a10"), at("a", 0, 1, 8, "a8"), at("a", 0, 2, 4, "a4"), at("a", 0, 3, 11, "a11"), at("b", 0, 0, 9, "b9"), at("b", 0, 1, 10, "b10")}
	for name, c := range map[string]struct {
		events []eventtime.Event
		rule   eventtime.Rule
		want   string
	}{
		"sources in order are merged; of one time, topics and partitions decide": {two, eventtime.Rule{}, "a1@1, b1@1, a2@2, a2'@2, a3@3, b3@3"},
		"rows of a table come first":                                             {two, eventtime.Rule{Tables: []string{"b"}}, "b1@1, a1@1, a2@2, a2'@2, b3@3, a3@3"},
		"without waiting a source keeps its own order":                           {apart, eventtime.Rule{Lateness: 5}, "b9@9, a10@10, a8@10 late, a4@10 late, b10@10, a11@11"},
		"lateness is behind the newest of its source":                            {apart, eventtime.Rule{Lateness: 5 * eventtime.Second}, "b9@9, a10@10, a8@10, a4@10 late, b10@10, a11@11"},
		"waiting sorts within a source":                                          {apart, eventtime.Rule{Wait: 2 * eventtime.Second, Lateness: 5 * eventtime.Second}, "a8@8, a4@8 late, b9@9, a10@10, b10@10, a11@11"},
		"an event exactly at the lateness is in time":                            {apart, eventtime.Rule{Lateness: 6 * eventtime.Second}, "b9@9, a10@10, a8@10, a4@10, b10@10, a11@11"},
		"a clock that is ahead moves nothing beyond the append":                  {ahead, eventtime.Rule{Lateness: eventtime.Second}, "a10@10, ahead@11, b11@11, a12@12"},
		"no events have no order":                                                {nil, eventtime.Rule{}, ""},
		"a source that begins late in time has no events before its own":         {[]eventtime.Event{at("a", 0, 0, -5, "a"), at("b", 0, 0, -7, "b")}, eventtime.Rule{}, "b@-7, a@-5"},
		"in a source the offset counts, not where the event stands in the slice": {[]eventtime.Event{at("a", 0, 1, 2, "second"), at("a", 0, 0, 2, "first")}, eventtime.Rule{}, "first@2, second@2"},
		"an event that is behind in one source may be ahead of those in another": {[]eventtime.Event{at("a", 0, 0, 5, "a5"), at("b", 0, 0, 9, "b9"), at("b", 0, 1, 6, "b6")}, eventtime.Rule{Wait: 3 * eventtime.Second, Lateness: 3 * eventtime.Second}, "a5@5, b6@6, b9@9"},
	} {
		if got := ids(eventtime.Order(c.events, c.rule)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	if got := ids(eventtime.InTime(eventtime.Order(apart, eventtime.Rule{Lateness: eventtime.Second}))); got != "b9@9, a10@10, b10@10, a11@11" {
		t.Errorf("in time: %s", got)
	}
}

// TestOrderIsOfTheSources shuffles the events that are given.
func TestOrderIsOfTheSources(t *testing.T) {
	rule := eventtime.Rule{Wait: 2 * eventtime.Second, Lateness: 5 * eventtime.Second}
	events := eventtime.Disordered(7, eventtime.Payments(7, 2000, 4), 4*eventtime.Second)
	want := eventtime.Order(events, rule)
	for seed := range uint64(5) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		if !reflect.DeepEqual(eventtime.Order(events, rule), want) {
			t.Fatal("another order of the slice gives another order of events")
		}
	}
	late := len(want) - len(eventtime.InTime(want))
	if late != 0 {
		t.Errorf("%d of %d events are late, although all are within the lateness", late, len(want))
	}
	if got := eventtime.InTime(eventtime.Order(events, eventtime.Rule{Lateness: eventtime.Second})); len(got) == len(want) {
		t.Error("no event is late")
	}
}

func TestRowsByHand(t *testing.T) {
	pay := func(partition int, offset, second int64, card, merchant string, amount float64) eventtime.Event {
		e := at("payments", partition, offset, second, fmt.Sprintf("%d/%d", partition, offset))
		e.Text, e.Number = map[string]string{"card": card, "merchant": merchant}, map[string]float64{"amount": amount}
		if merchant == "" {
			delete(e.Text, "merchant")
		}
		return e
	}
	order := eventtime.Order([]eventtime.Event{
		pay(0, 0, 0, "a", "x", 5), pay(0, 1, 59, "a", "y", 7), pay(0, 2, 60, "a", "x", 1), pay(0, 3, 61, "a", "", 9),
		pay(1, 0, 0, "b", "x", 2), pay(1, 1, 30, "b", "x", 3), pay(1, 2, 60, "b", "x", 4), pay(1, 3, 200, "b", "y", 8),
	}, eventtime.Rule{})
	none := math.NaN()
	want := map[string][]float64{ // sum, count and max by merchant in a minute; mean by card in a minute; min of the card's last two; merchants of the card
		"0/0": {5, 1, 5, 5, 5, 1}, "1/0": {7, 2, 5, 2, 2, 1}, "1/1": {10, 3, 5, 2.5, 2, 1}, "0/1": {7, 1, 7, 6, 5, 2},
		"0/2": {4, 2, 3, 4, 1, 2}, "1/2": {8, 3, 4, 3.5, 3, 1}, "0/3": {none, none, none, 17.0 / 3, 1, 3}, "1/3": {8, 1, 8, 8, 4, 2},
	}
	got := eventtime.Rows(order,
		eventtime.Feature{By: "merchant", Value: "amount", Window: eventtime.Minute, Aggregate: "sum"}, eventtime.Feature{By: "merchant", Window: eventtime.Minute, Aggregate: "count"},
		eventtime.Feature{By: "merchant", Value: "amount", Window: eventtime.Minute, Aggregate: "max"}, eventtime.Feature{By: "card", Value: "amount", Window: eventtime.Minute, Aggregate: "mean"},
		eventtime.Feature{By: "card", Value: "amount", Last: 2, Aggregate: "min"}, eventtime.Feature{By: "card", Value: "merchant", Window: eventtime.Hour, Aggregate: "distinct"})
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for id, row := range want {
		if fmt.Sprint(got[id]) != fmt.Sprint(row) {
			t.Errorf("event %s: %v, want %v", id, got[id], row)
		}
	}
}

// TestFeaturesOfOtherEvents reads features of one topic at the events of another.
func TestFeaturesOfOtherEvents(t *testing.T) {
	refund := func(topic string, offset, second int64) eventtime.Event {
		e := at(topic, 0, offset, second, fmt.Sprintf("%s%d", topic, offset))
		e.Text, e.Number = map[string]string{"card": "a"}, map[string]float64{"amount": float64(second)}
		return e
	}
	order := eventtime.Order([]eventtime.Event{refund("pay", 0, 1), refund("refund", 0, 2), refund("pay", 1, 2), refund("pay", 2, 3), refund("refund", 1, 3)}, eventtime.Rule{})
	f := eventtime.Feature{By: "card", From: "refund", Value: "amount", Window: eventtime.Minute, Aggregate: "sum"}
	mean := f
	mean.Aggregate = "mean"
	// Of one time, pay is before refund: the name decides.
	want := "map[pay0:[0 NaN] pay1:[0 NaN] pay2:[2 2] refund0:[2 2] refund1:[5 2.5]]"
	if got := fmt.Sprint(eventtime.Rows(order, f, mean)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheCountryChanges(t *testing.T) {
	rows := eventtime.Rows(eventtime.Order(eventtime.Journey("GB", "FR", "DE", "DE"), eventtime.Rule{}), eventtime.Feature{By: "card", Value: "country", Last: 3, Aggregate: "distinct"})
	if got := fmt.Sprint(rows); got != "map[t0:[1] t1:[2] t2:[3] t3:[2]]" {
		t.Error(got)
	}
}

func TestEqualReadingsDoNotDeviate(t *testing.T) {
	deviation := eventtime.Feature{By: "sensor", Value: "value", Window: eventtime.Minute, Aggregate: "stddev"}
	if got := fmt.Sprint(eventtime.Rows(eventtime.Order(eventtime.Readings(0.1, 0.1, 0.1), eventtime.Rule{}), deviation)); got != "map[r0:[0] r1:[0] r2:[0]]" {
		t.Error(got)
	}
	if got := fmt.Sprint(eventtime.Rows(eventtime.Order(eventtime.Readings(1, 3, 8), eventtime.Rule{}), deviation)["r2"]); got != fmt.Sprint([]float64{math.Sqrt(26.0 / 3)}) {
		t.Error(got)
	}
}

func TestRowsOfTablesAreAsOfTheEvent(t *testing.T) {
	show := func(events []eventtime.Event) string {
		found := eventtime.AsOf(eventtime.Order(events, eventtime.Rule{Tables: []string{"tiers"}}), "tiers", "customer")
		var words []string
		for _, id := range []string{"o1", "o2"} {
			word := "none"
			if f := found[id]; f.Found {
				word = f.Row.Text["tier"]
			}
			words = append(words, word)
		}
		return strings.Join(words, ", ")
	}
	tiers := eventtime.Tiers()
	if got := show(tiers); got != "silver, gold" {
		t.Error(got)
	}
	tiers[2].Time = tiers[3].Time // a row at the time of the event is seen
	if got := show(tiers); got != "silver, gold" {
		t.Error("a row at the time of the event: ", got)
	}
	tiers[2].Time++
	if got := show(tiers); got != "silver, silver" {
		t.Error("a row a microsecond later: ", got)
	}
	tiers[2].Time -= 10
	tiers[2].Deleted = true
	if got := show(tiers); got != "silver, none" {
		t.Error("a row that is deleted: ", got)
	}
	tiers[0].Text = map[string]string{"customer": "bob", "tier": "silver"}
	if got := show(tiers); got != "none, none" {
		t.Error("a row of another customer: ", got)
	}
}

func TestPairsByHand(t *testing.T) {
	side := func(topic string, offset, second int64, on string) eventtime.Event {
		e := at(topic, 0, offset, second, fmt.Sprintf("%s%d", topic, offset))
		e.Text = map[string]string{"imp": on}
		return e
	}
	events := []eventtime.Event{
		side("I", 0, 100, "x"), side("I", 1, 200, "y"), side("I", 2, 300, "z"),
		side("K", 0, 90, "x"), side("K", 1, 89, "x"), side("K", 2, 700, "x"), side("K", 3, 701, "x"), side("K", 4, 650, "x"), side("K", 5, 801, "y"),
	}
	order := eventtime.Order(events, eventtime.Rule{Wait: 1000 * eventtime.Second, Lateness: 1000 * eventtime.Second})
	join := eventtime.Join{Left: "I", Right: "K", On: "imp", Within: 10 * eventtime.Minute, Before: 10 * eventtime.Second}
	for match, want := range map[string]string{
		"first": "[{I0 K0} {I1 } {I2 }]", "last": "[{I0 K2} {I1 } {I2 }]", "each": "[{I0 K0} {I0 K4} {I0 K2} {I1 } {I2 }]",
	} {
		join.Match, join.Inner = match, false
		if got := fmt.Sprint(join.Pairs(order)); got != want {
			t.Errorf("left, %s: %s, want %s", match, got, want)
		}
		join.Inner = true
		if got, want := fmt.Sprint(join.Pairs(order)), strings.Replace(want, " {I1 } {I2 }", "", 1); got != want {
			t.Errorf("inner, %s: %s, want %s", match, got, want)
		}
	}
}

// TestHalfOfTheClicksAreWithinTenMinutes counts as the generator was made.
func TestHalfOfTheClicksAreWithinTenMinutes(t *testing.T) {
	events := eventtime.Ads(1, 20_000, 4)
	clicks := 0
	for _, e := range events {
		if e.Topic == "clicks" {
			clicks++
		}
	}
	pairs := eventtime.Join{Left: "impressions", Right: "clicks", On: "imp", Within: 10 * eventtime.Minute, Match: "each", Inner: true}.Pairs(eventtime.Order(events, eventtime.Rule{}))
	if clicks != 2003 || len(pairs) != 1001 {
		t.Errorf("%d clicks, %d within 10 minutes", clicks, len(pairs))
	}
}

func TestSessionsByHand(t *testing.T) {
	show := func(timeout int64, visits ...eventtime.Visit) string {
		var words []string
		for _, s := range eventtime.Sessions(eventtime.Order(eventtime.Visits(visits...), eventtime.Rule{}), "user", 30*eventtime.Minute, timeout) {
			words = append(words, s.Key+" "+strings.Join(s.IDs, "+"))
		}
		return strings.Join(words, ", ")
	}
	ann := func(minutes ...int64) (visits []eventtime.Visit) {
		for _, m := range minutes {
			visits = append(visits, eventtime.Visit{User: "ann", Minute: m})
		}
		return visits
	}
	bob := eventtime.Visit{User: "bob", Minute: 53}
	for _, c := range []struct {
		got, want string
	}{
		{show(0, ann(0, 50, 100)...), "ann v0, ann v1, ann v2"},
		{show(0, ann(0, 29, 58)...), "ann v0+v1+v2"},
		{show(0, ann(0, 30)...), "ann v0, ann v1"}, // a gap of exactly idle
		{show(0, ann(50, 0, 25)...), "ann v1+v2+v0"},
		{show(0, slices.Insert(ann(0, 53), 1, bob)...), "ann v0, ann v2, bob v1"},
		{show(0, append(ann(0, 53), bob)...), "ann v0, ann v1, bob v2"}, // another user decides nothing
		{show(40*eventtime.Minute, ann(0, 20, 39, 40, 59)...), "ann v0+v1+v2, ann v3+v4"},
		{show(0), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// TestOneSeedIsOneInput holds the generators, whose figures are quoted.
func TestOneSeedIsOneInput(t *testing.T) {
	events := eventtime.Payments(1, 40_000, 4)
	if !reflect.DeepEqual(events, eventtime.Payments(1, 40_000, 4)) || reflect.DeepEqual(events, eventtime.Payments(2, 40_000, 4)) {
		t.Error("a seed is not one input")
	}
	for i, e := range events[1:] {
		if e.Time < events[i].Time {
			t.Fatal("payments are not in the order of their times")
		}
	}
	if got, want := string(events[0].JSON()), `{"amount":456,"card":"c204","id":"t0","merchant":"m172","ts":1767258000395}`; got != want {
		t.Errorf("the first payment is %s, want %s", got, want)
	}
	rows := eventtime.Rows(eventtime.Order(events, eventtime.Rule{}), eventtime.Feature{By: "merchant", Value: "amount", Window: eventtime.Hour, Aggregate: "sum"})
	total := 0.0
	for _, row := range rows {
		total += row[0]
	}
	if len(rows) != len(events) || total != 712_679_884 {
		t.Errorf("%d rows, whose sums are %v", len(rows), total)
	}
}

func TestRowsThatAreValidByHand(t *testing.T) {
	rate := func(offset, second int64, deleted bool) eventtime.Event {
		e := at("rates", 0, offset, second, fmt.Sprint("r", offset))
		e.Text, e.Deleted = map[string]string{"currency": "c"}, deleted
		return e
	}
	var events []eventtime.Event
	for offset, second := range []int64{4, 10, 6, 6, 12} {
		events = append(events, rate(int64(offset), second, second == 12))
	}
	want := map[int64]string{3: "none", 4: "r0", 5: "r0", 6: "r3", 9: "r3", 10: "r1", 11: "r1", 12: "none", 13: "none"}
	for second := range want {
		trade := at("trades", 0, second, second, fmt.Sprint(second))
		trade.Text = map[string]string{"currency": "c"}
		events = append(events, trade)
	}
	found := eventtime.ValidAt(events, "rates", "currency")
	for second, want := range want {
		got := "none"
		if f := found[fmt.Sprint(second)]; f.Found {
			got = f.Row.ID
		}
		if got != want {
			t.Errorf("at %d: %s, want %s", second, got, want)
		}
	}
}

// TestRowsThatAreValidAreTheAsOfJoin compares ValidAt with ASOF JOIN of DuckDB, which is that
// of the interpreter of AFTERBAY_READERS.
func TestRowsThatAreValidAreTheAsOfJoin(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no interpreter, with duckdb")
	events := eventtime.Rates(5, 400, 1200, eventtime.Hour)
	var lines [][]any
	for _, e := range events {
		lines = append(lines, []any{e.Topic, e.ID, e.Text["currency"], e.Time, e.Offset, e.Deleted})
	}
	text, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	const script = `
import duckdb, json, sys
c = duckdb.connect()
c.execute("create table e (topic text, id text, currency text, t bigint, o bigint, deleted boolean)")
c.executemany("insert into e values (?, ?, ?, ?, ?, ?)", json.load(sys.stdin))
print(json.dumps(dict(c.execute("""
	with rates as (select * from e where topic = 'rates' qualify row_number() over (partition by currency, t order by o desc) = 1)
	select trades.id, case when rates.deleted or rates.id is null then '' else rates.id end
	from (select * from e where topic = 'trades') trades asof left join rates on trades.currency = rates.currency and trades.t >= rates.t
""").fetchall())))
`
	cmd := exec.CommandContext(t.Context(), python, "-c", script)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var joined map[string]string
	if err := json.Unmarshal(out, &joined); err != nil {
		t.Fatal(err)
	}
	found, none := eventtime.ValidAt(events, "rates", "currency"), 0
	if len(joined) != len(found) || len(joined) < 1000 {
		t.Fatalf("%d trades are joined of %d", len(joined), len(found))
	}
	for id, row := range joined {
		want := ""
		if found[id].Found {
			want = found[id].Row.ID
		} else {
			none++
		}
		if row != want {
			t.Errorf("trade %s: DuckDB finds %q, and %q was valid", id, row, want)
		}
	}
	t.Logf("%d trades, %d without a row", len(joined), none)
}
