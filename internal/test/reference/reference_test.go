package reference

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// constant is a score that nothing changes.
func constant(p float64) func([]float32) float64 { return func([]float32) float64 { return p } }

const start = 1_760_000_000_000 // milliseconds; begins a pane of every window

// payments makes records of one partition: customer, amount and milliseconds
// after start of each. They are appended at the time they happened.
func payments(events ...any) []Record {
	var out []Record
	for i := 0; i < len(events); i += 3 {
		ts := start + int64(events[i+2].(int))
		out = append(out, Record{
			Offset: int64(i / 3), Appended: ts * 1000, Key: []byte(events[i].(string)),
			Value: fmt.Appendf(nil, `{"tx":"t%d","customer":"%s","amount":%v,"country":"DE","ts":%d}`, i/3, events[i], events[i+1], ts),
		})
	}
	return out
}

func run(t *testing.T, records []Record, o Options) Partition {
	t.Helper()
	out, err := Run(records, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// rows returns the model's rows of records, and what became of them.
func rows(t *testing.T, records []Record, score func(i int) float64) ([]map[string]float32, Partition) {
	t.Helper()
	var out []map[string]float32
	p := run(t, records, Options{Score: func(row []float32) float64 {
		at := map[string]float32{}
		for i, name := range names() {
			at[name] = row[i]
		}
		out = append(out, at)
		return score(len(out) - 1)
	}})
	return out, p
}

func expect(t *testing.T, row map[string]float32, want map[string]float32) {
	t.Helper()
	for name, v := range want {
		if row[name] != v {
			t.Errorf("%s = %v, want %v", name, row[name], v)
		}
	}
}

func TestImportsOnlyTheStandardLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || !strings.HasSuffix(got[0], "/internal/test/reference") {
		t.Fatalf("the reference stands on %v", got)
	}
}

func TestWindowsEndAtTheirSize(t *testing.T) {
	r, _ := rows(t, payments("a", 10, 0, "a", 20.5, 4_999, "a", 3, 59_999, "a", 1, 60_000, "b", 7, 60_000, "a", 2, 64_999, "a", 9, 65_000), func(int) float64 { return 0 })
	expect(t, r[0], map[string]float32{"spend.count_60s": 1, "flow.count_60s": 1, "flow.min_1h": 10, "gap": -1, "where": 2, "amount": 10})
	expect(t, r[1], map[string]float32{"spend.count_60s": 2, "spend.sum_60s": 30.5, "spend.mean_60s": 15.25, "spend.max_60s": 20.5, "gap": 4.999})
	// At 59.999 the pane of 0 to 5 s is the twelfth and last of its window.
	expect(t, r[2], map[string]float32{"spend.count_60s": 3, "flow.count_60s": 3})
	// At 60 s that whole pane leaves; the exact window loses only the entry at 0.
	expect(t, r[3], map[string]float32{"spend.count_60s": 2, "spend.sum_60s": 4, "spend.count_300s": 4, "flow.count_60s": 3, "flow.sum_60s": 24.5, "flow.min_60s": 1, "flow.max_60s": 20.5})
	expect(t, r[4], map[string]float32{"spend.count_3600s": 1, "flow.count_1h": 1, "gap": -1})
	expect(t, r[5], map[string]float32{"spend.count_60s": 3, "flow.count_60s": 3, "flow.count_1h": 5})
	expect(t, r[6], map[string]float32{"spend.count_60s": 4, "spend.sum_60s": 15, "flow.count_60s": 4, "flow.sum_1h": 45.5})
}

func TestLateEventSeesOnlyWhatCameBeforeItInTime(t *testing.T) {
	r, p := rows(t, payments("a", 10, 0, "a", 20, 120_000, "a", 5, 90_000, "a", 1, 59_000, "a", -4, 121_000), func(int) float64 { return 0 })
	expect(t, r[2], map[string]float32{"spend.count_300s": 2, "spend.sum_300s": 15, "flow.count_1h": 2, "flow.max_1h": 10, "flow.count_60s": 1, "gap": 0})
	// The minute's panes go back to 65 s only: the event is not in its own.
	expect(t, r[3], map[string]float32{"spend.count_60s": 0, "spend.mean_60s": 0, "spend.count_300s": 2, "flow.count_60s": 2, "flow.min_60s": 1})
	expect(t, r[4], map[string]float32{"spend.count_300s": 5, "spend.sum_300s": 32, "flow.min_60s": -4, "gap": 1})
	if len(p.Decisions) != 5 || p.Newest != (start+121_000)*1000 {
		t.Fatalf("%d decisions, newest %d", len(p.Decisions), p.Newest)
	}
}

func TestEventOlderThanEveryWindowIsInNone(t *testing.T) {
	const hour = 3600_000
	// c's watermark stands still at 5 s before its newest event, so it never falls silent.
	r, p := rows(t, payments("c", 1, 0, "c", 2, hour-1, "c", 4, hour, "c", 8, 0, "c", 16, 1), func(int) float64 { return 0.75 })
	expect(t, r[1], map[string]float32{"flow.sum_1h": 3})
	expect(t, r[2], map[string]float32{"flow.sum_1h": 6})
	expect(t, r[3], map[string]float32{"flow.sum_1h": 0, "flow.count_1h": 0, "spend.count_3600s": 0, "hot.count_600s": 0})
	expect(t, r[4], map[string]float32{"flow.sum_1h": 16, "flow.min_1h": 16})
	c := p.Keys[0]
	us := func(ms int64) int64 { return (start + ms) * 1000 }
	if want := []Entry{{us(hour - 1), 200}, {us(hour), 400}, {us(1), 1600}}; !reflect.DeepEqual(c.Flow, want) {
		t.Errorf("flow keeps %v, want %v", c.Flow, want)
	}
	if want := []int64{us(hour - 1), us(hour)}; !reflect.DeepEqual(c.Hot, want) {
		t.Errorf("hot keeps %v, want %v", c.Hot, want)
	}
}

func TestLatePolicyDecides(t *testing.T) {
	// 5.000 s behind is on time, 5.001 s is late.
	records := payments("a", 1, 10_000, "b", 1, 5_000, "b", 1, 4_999, "b", 1, 10_000)
	for late, want := range map[string][3]int{"include": {4, 0, 0}, "": {4, 0, 0}, "dlq": {3, 1, 0}, "drop": {3, 0, 1}} {
		p := run(t, records, Options{Late: late, Score: constant(0)})
		if got := [3]int{len(p.Decisions), len(p.DeadLetters), p.Dropped}; got != want {
			t.Errorf("%q: decisions, dead letters, dropped %v, want %v", late, got, want)
		}
		if late == "dlq" && p.DeadLetters[0] != (DeadLetter{2, "late"}) {
			t.Errorf("dead letter %v", p.DeadLetters[0])
		}
	}
	if _, err := Run(nil, 1, Options{Late: "perhaps"}); err == nil {
		t.Error("an unknown policy was accepted")
	}
}

func TestFeedbackIsReadBeforeTheEventsOwnScore(t *testing.T) {
	scores := []float64{0.25, 0.5, 0.75, 1, 0.9, 0.1}
	r, p := rows(t, payments("a", 1, 0, "a", 1, 1000, "a", 1, 2000, "b", 1, 2000, "a", 1, 601_999, "a", 1, 602_000), func(i int) float64 { return scores[i] })
	expect(t, r[0], map[string]float32{"past.mean": 0, "hot.count_600s": 0})
	expect(t, r[1], map[string]float32{"past.mean": 0.25, "hot.count_600s": 0})
	expect(t, r[2], map[string]float32{"past.mean": 0.375, "hot.count_600s": 0}) // 0.5 is not over 0.5
	expect(t, r[3], map[string]float32{"past.mean": 0, "hot.count_600s": 0})
	expect(t, r[4], map[string]float32{"past.mean": 0.5, "hot.count_600s": 1})
	expect(t, r[5], map[string]float32{"past.mean": 0.6, "hot.count_600s": 1}) // that at 2 s just left
	want := []string{
		`{"tx":"t3","fraud_score":1,"action":"block","where":2,"spend_sum_3600s":1,"flow_count_1h":1,"flow_min_60s":1,"gap":-1,"past_mean":0,"hot_count_600s":0}`,
		`{"tx":"t4","fraud_score":0.9,"action":"block","where":2,"spend_sum_3600s":4,"flow_count_1h":4,"flow_min_60s":1,"gap":599.999,"past_mean":0.5,"hot_count_600s":1}`,
	}
	for i, w := range want {
		if got := string(p.Decisions[3+i].Value); got != w {
			t.Errorf("got  %s\nwant %s", got, w)
		}
	}
	if len(p.Freezes) != 2 || p.Freezes[0].Offset != 3 || string(p.Freezes[0].Value) != `{"tx":"t3","customer":"b"}` {
		t.Errorf("freezes %v", p.Freezes)
	}
	if got := p.Keys[0].Past; !reflect.DeepEqual(got, []float64{0.25, 0.5, 0.75, 0.9, 0.1}) {
		t.Errorf("past %v", got)
	}
}

func TestPastHoldsTheTenNewest(t *testing.T) {
	var events []any
	for i := range 12 {
		events = append(events, "a", 1, 100*i)
	}
	r, p := rows(t, payments(events...), func(i int) float64 { return float64(i) / 16 })
	expect(t, r[11], map[string]float32{"past.mean": 5.5 / 16})
	if got := p.Keys[0].Past; len(got) != 10 || got[0] != 2.0/16 {
		t.Errorf("past %v", got)
	}
}

func TestSilenceEndsWindowsAtTheRetention(t *testing.T) {
	const hour = 3600_000
	for _, c := range []struct{ watermark, count int }{{hour - 1, 2}, {hour, 1}} {
		// b moves the watermark; then a comes late, and the hour before it holds its first event.
		r, p := rows(t, payments("a", 1, 0, "b", 1, c.watermark+5_000, "a", 1, hour-1), func(int) float64 { return 0.75 })
		expect(t, r[2], map[string]float32{"flow.count_1h": float32(c.count), "past.mean": 0.75, "gap": hour/1000 - 0.001})
		if a := p.Keys[0]; len(a.Past) != 2 || len(a.Flow) != c.count {
			t.Errorf("watermark %d: key a is %+v", c.watermark, a)
		}
	}
	p := run(t, payments("a", 1, 0, "b", 1, hour+5_000), Options{Score: constant(1)})
	if a := p.Keys[0]; a.Key != "a" || a.Flow != nil || a.Hot != nil || a.Spend[2] != nil || len(a.Past) != 1 {
		t.Errorf("key a is %+v at the end", a)
	}
}

func TestSilenceOfThirtyDaysEndsAKey(t *testing.T) {
	const month = 720 * 3600_000
	for at, keys := range map[int]int{month + 4_999: 2, month + 5_000: 1} {
		if p := run(t, payments("a", 1, 0, "b", 1, at), Options{Score: constant(1)}); len(p.Keys) != keys {
			t.Errorf("at %d: %d keys, want %d", at, len(p.Keys), keys)
		}
	}
	r, _ := rows(t, payments("a", 1, 0, "a", 1, month+5_000), func(int) float64 { return 1 })
	expect(t, r[1], map[string]float32{"past.mean": 0, "gap": -1})
}

func TestBadEventIsADeadLetterWhereItFails(t *testing.T) {
	const good = `{"tx":"t","customer":"a","amount":1,"country":"US","ts":1760000000000}`
	for _, c := range []struct{ value, stage string }{
		{good, ""},
		{strings.ReplaceAll(good, ":", " :\n\t"), ""},
		{strings.Replace(good, `"amount":1`, `"amount":-1.5e-3,"x":{"tx":1}`, 1), ""},
		{strings.Replace(good, `"tx"`, `"\u0074x"`, 1), ""},
		{strings.Replace(good, `"ts":`, `"ts":-`, 1), ""},
		{strings.Replace(good, "000}", "000.0}", 1), "decode"},
		{strings.Replace(good, "000}", "000e0}", 1), "decode"},
		{strings.Replace(good, `"ts"`, `"TS"`, 1), "decode"},
		{strings.Replace(good, `"amount":1`, `"amount":"1"`, 1), "decode"},
		{strings.Replace(good, `"amount":1`, `"amount":1e999`, 1), "decode"},
		{strings.Replace(good, `"amount":1`, `"amount":01`, 1), "decode"},
		{strings.Replace(good, `"amount":1`, `"amount":null`, 1), "decode"},
		{strings.Replace(good, `"tx":`, `"tx":"t","tx":`, 1), "decode"},
		{strings.Replace(good, `"tx":`, `"\u0074x":"t","tx":`, 1), "decode"},
		{strings.Replace(good, `"US"`, "\"U\xff\"", 1), "decode"},
		{strings.Replace(good, `{`, "{\"x\":\"\xff\",", 1), "decode"},
		{strings.Replace(good, `,`, `,,`, 1), "decode"},
		{good[:len(good)-1] + `,}`, "decode"},
		{good + `{}`, "decode"}, {good[:len(good)-1], "decode"}, {`[` + good + `]`, "decode"}, {``, "decode"}, {`null`, "decode"},
		{strings.Replace(good, `"customer":"a"`, `"customer":"b"`, 1), "key"},
		{strings.Replace(good, "000}", "000000000}", 1), "time"},
		{strings.Replace(good, "1760000000000", "9000000000000000000", 1), "time"},
		{strings.Replace(good, "1760000000000", "1760003600000", 1), ""},
		{strings.Replace(good, "1760000000000", "1760003600001", 1), "time"},
		{strings.Replace(good, `"amount":1`, `"amount":1e300`, 1), "features"},
	} {
		p := run(t, []Record{{Offset: 4, Appended: start * 1000, Key: []byte("a"), Value: []byte(c.value)}}, Options{Score: constant(0)})
		switch {
		case c.stage == "" && len(p.Decisions) != 1:
			t.Errorf("%s: %v", c.value, p.DeadLetters)
		case c.stage != "" && !reflect.DeepEqual(p.DeadLetters, []DeadLetter{{4, c.stage}}):
			t.Errorf("%s: dead letters %v, want %s", c.value, p.DeadLetters, c.stage)
		case (c.stage == "decode" || c.stage == "key" || c.stage == "time") && p.Newest != never:
			t.Errorf("%s: moved the watermark", c.value)
		}
	}
}

func TestMarginIsXGBoostsBitForBit(t *testing.T) {
	m, err := parseModel(Model())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("testdata/margins.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range lines {
		v := make([]float32, len(line))
		for i, text := range line {
			f, err := strconv.ParseFloat(text, 32)
			if err != nil {
				t.Fatal(err)
			}
			v[i] = float32(f)
		}
		row, margin, score := v[:len(v)-2], v[len(v)-2], v[len(v)-1]
		if got := m.margin(row); got != margin {
			t.Errorf("line %d: margin %v, want %v", n+1, got, margin)
		}
		if got := Probability(margin); got != score {
			t.Errorf("line %d: probability %v, want %v", n+1, got, score)
		}
	}
	if len(lines) != 160 || len(lines[0]) != len(names())+2 {
		t.Errorf("%d lines of %d", len(lines), len(lines[0]))
	}
}

func TestGeneratedEventsExerciseEverything(t *testing.T) {
	const n = 100_000
	t.Log("seed 1")
	events := Generate(1, n)
	records := place(events, 4)
	parts, err := Run(records, 4, Options{})
	if err != nil {
		t.Fatal(err)
	}
	counts, decided := map[string]int{}, 0
	for _, p := range parts {
		for _, d := range p.Decisions {
			var v struct{ Action string }
			if err := json.Unmarshal(d.Value, &v); err != nil {
				t.Fatalf("%s: %v", d.Value, err)
			}
			counts[v.Action]++
		}
		counts["freeze"] += len(p.Freezes)
		for _, d := range p.DeadLetters {
			counts[d.Stage]++
		}
		decided += len(p.Decisions) + len(p.DeadLetters)
		for _, k := range p.Keys {
			counts["kept"]++
			if len(k.Flow) == 0 {
				counts["silent key"]++
			}
		}
	}
	t.Log(counts)
	for what, least := range map[string]int{
		"allow": 40_000, "review": 3_000, "block": 5_000, "decode": 500, "key": 30, "kept": 1_000, "time": 80, "features": 30, "silent key": 500,
	} {
		if counts[what] < least {
			t.Errorf("%d of %s, want at least %d", counts[what], what, least)
		}
	}
	if counts["freeze"] != counts["block"] || decided != n {
		t.Errorf("%d freezes for %d blocks, %d events became anything", counts["freeze"], counts["block"], decided)
	}
	if late, err := Run(records, 4, Options{Late: "dlq"}); err != nil || len(late[0].DeadLetters) < len(parts[0].DeadLetters)+100 {
		t.Errorf("too few late events, or %v", err)
	}
	if again := Generate(1, n); !reflect.DeepEqual(events, again) {
		t.Error("one seed gave two streams")
	}
}

// Without its feedback the pipeline decides otherwise, so a comparison with the
// reference shows an engine whose events do not see the scores before them.
func TestFeedbackChangesDecisions(t *testing.T) {
	m, err := parseModel(Model())
	if err != nil {
		t.Fatal(err)
	}
	records := place(Generate(2, 5_000), 1)
	with := run(t, records, Options{})
	blind := run(t, records, Options{Score: func(row []float32) float64 {
		row[24], row[25] = 0, 0
		return float64(Probability(m.margin(row)))
	}})
	if with, blind := len(with.Freezes), len(blind.Freezes); with < blind*2 || blind == 0 {
		t.Errorf("%d freezes with feedback, %d without", with, blind)
	}
}

func ExampleRun() {
	records := []Record{{
		Appended: 1_760_000_000_000_000, Key: []byte("ada"),
		Value: []byte(`{"tx":"t1","customer":"ada","amount":12.5,"country":"GB","ts":1760000000000}`),
	}, {
		Offset: 1, Appended: 1_760_000_001_000_000, Key: []byte("ada"), Value: []byte(`{"tx":`),
	}}
	partitions, err := Run(records, 1, Options{Score: func([]float32) float64 { return 0.5 }})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n%v\n", partitions[0].Decisions[0].Value, partitions[0].DeadLetters)
	// Output:
	// {"tx":"t1","fraud_score":0.5,"action":"review","where":1,"spend_sum_3600s":12.5,"flow_count_1h":1,"flow_min_60s":12.5,"gap":-1,"past_mean":0,"hot_count_600s":0}
	// [{1 decode}]
}
