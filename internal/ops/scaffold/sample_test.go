package scaffold_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/scaffold"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// infer reads a sample and checks that the pipeline it gives can run.
func infer(t *testing.T, text string, o scaffold.Options) *scaffold.Findings {
	t.Helper()
	found, err := scaffold.Infer(strings.NewReader(text), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := valid(found.Pipeline()); err != nil {
		t.Fatalf("%v\n%s", err, found.Pipeline())
	}
	_ = found.Table()
	return found
}

func valid(text []byte) error {
	file, err := config.Parse("pipeline.yaml", text, builtin.Kinds())
	if err != nil {
		return err
	}
	if _, err = builtin.New(file.Pipelines[0], running.Options{}); err != nil {
		return file.Explain(0, err)
	}
	return nil
}

// events writes n lines by format, which gets the line's number.
func events(n int, line func(i int) string) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(line(i))
		text.WriteByte('\n')
	}
	return text.String()
}

func payment(i int) string {
	return fmt.Sprintf(`{"tx":"t%d","customer_id":"c%d","amount":%d.%02d,"country":"%s","ts":%d}`,
		i, i*7%40, 1+i%90, i%100, []string{"DE", "FR", "US"}[i%3], 1_760_000_000_000+int64(i)*1000-int64(i%4)*1500)
}

// role is what the fields of a sample were taken for.
func role(f *scaffold.Findings) string {
	name := func(c *scaffold.Field) string {
		if c == nil {
			return "-"
		}
		return c.Name
	}
	when := "-"
	if f.Time != nil {
		when = f.Time.Field.Name + "/" + f.Time.Unit + f.Time.Format
	}
	names := func(list []*scaffold.Field) string {
		var all []string
		for _, c := range list {
			all = append(all, c.Name)
		}
		return strings.Join(all, "+")
	}
	return strings.Join([]string{name(f.Key), when, name(f.ID), names(f.Measures), names(f.Kinds)}, " ")
}

func TestFieldsAreTakenForWhatTheyAre(t *testing.T) {
	stamp := func(i int) string {
		return time.UnixMilli(1_760_000_000_000 + int64(i)*1500).UTC().Format(time.RFC3339Nano)
	}
	for name, c := range map[string]struct {
		line func(i int) string
		want string
	}{
		"payments": {payment, "customer_id ts/ms tx amount country"},
		"clicks": {func(i int) string {
			return fmt.Sprintf(`{"sessionId":"s%d","userId":%d,"url":"/p/%d","created_at":"%s","user_agent":"Mozilla"}`, i%30, i%20, i, stamp(i))
		}, "userId created_at/rfc3339 -  "},
		"sensors in seconds": {func(i int) string {
			return fmt.Sprintf(`{"device":%d,"time":%d,"temperature":%d.5,"on":%v}`, i%9, 1_760_000_000+i, 20+i%17, i%2 == 0)
		}, "device time/s - temperature "},
		"ns, key by its suffix": {func(i int) string {
			return fmt.Sprintf(`{"thing_id":"x%d","epoch":%d,"reading":%d}`, i%9, 1_760_000_000_000_000_000+int64(i)*1e6, i%50)
		}, "thing_id epoch/ns - reading "},
		"us without a name that says time": {func(i int) string {
			return fmt.Sprintf(`{"user":"x%d","a":%d}`, i%9, 1_760_000_000_000_000+int64(i)*1000)
		}, "user a/us -  "},
		"no time; phone numbers are none": {func(i int) string {
			return fmt.Sprintf(`{"user":"x%d","phone":%d,"zip":%d}`, i%9, 3_000_000_000+i*7919%1000*99991, 10_000+i%70)
		}, "user - -  "},
		"birth dates are not event time": {func(i int) string {
			return fmt.Sprintf(`{"user":"x%d","birth":"%s","at":"%s"}`, i%9, stamp(-i*5_000_000%77_000_000), stamp(i))
		}, "user at/rfc3339 -  "},
		"an id that is hardly ever repeated is not a key": {func(i int) string {
			return fmt.Sprintf(`{"account_id":"a%d","device_id":"d%d"}`, min(i, 195), i%9)
		}, "device_id - -  "},
		"id of ints, key by class": {func(i int) string {
			return fmt.Sprintf(`{"id":%d,"merchant":"m%d","card":"k%d","value":%d}`, i, i%5, i%30, i%7)
		}, "card - id value merchant"},
		"who before what before where": {func(i int) string {
			return fmt.Sprintf(`{"store":"s%d","device_id":"d%d","account_number":%d}`, i%5, i%30, i%40)
		}, "account_number - -  store"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := role(infer(t, events(200, c.line), scaffold.Options{})); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTypesAreThoseOfTheValues(t *testing.T) {
	line := func(i int) string {
		extra := ""
		if i%2 == 0 {
			extra = `,"half":true`
		}
		if i == 7 {
			extra += `,"rare":1`
		}
		wrong := "1.5"
		if i == 50 {
			wrong = `"x"`
		}
		mixed := "1"
		if i%3 == 0 {
			mixed = `"1"`
		}
		return fmt.Sprintf(`{"user":"u%d","flag":true,"whole":%d,"either":%d%s,"when":"2025-01-02T03:04:05+01:00","wrong":%s,"mixed":%s,"big":1e999,"nothing":null,"deep":{"a":[1]},"list":[],"no-name":1,"meta":1,"true":"x","huge":12345678901234567890%s}`,
			i%5, i, i, map[bool]string{true: ".5"}[i == 3], wrong, mixed, extra)
	}
	found := infer(t, events(100, line), scaffold.Options{})
	got := map[string]string{}
	for _, c := range found.Fields {
		got[c.Name] = c.Type.String()
		if c.Left != "" {
			got[c.Name] = c.Left
		}
	}
	for name, want := range map[string]string{
		"user": "string", "flag": "bool", "whole": "int", "either": "number", "when": "time", "wrong": "number", "half": "optional bool", "rare": "optional int",
		"mixed": "its type differs: int 66 times, string 34 times", "big": "its numbers are out of range", "nothing": "it is always null", "list": "its lists are empty", "deep_a": "int[]", "no_name": "int", "meta_": "int",
		"true": "string", "huge": "number",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	text := string(found.Pipeline())
	for _, want := range []string{"of another type in 1: dead letters", "in 50% of the events", "in 1% of the events", `"true": string`, `no_name: {path: no-name, type: int}`, "deep_a: {path: deep.a, type: 'int[]'}"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestLatenessCoversTheDisorderOfTheSample(t *testing.T) {
	found := infer(t, events(400, payment), scaffold.Options{})
	if found.Time.Disorder != 1500*time.Millisecond || !strings.Contains(string(found.Pipeline()), "{field: ts, unit: ms, lateness: 2s, late: include}") {
		t.Errorf("%v\n%s", found.Time.Disorder, found.Pipeline())
	}
	backwards := infer(t, events(400, func(i int) string { return payment(401*400 - 401*i) }), scaffold.Options{})
	if text := string(backwards.Pipeline()); !strings.Contains(text, "lateness: 1h,") || !strings.Contains(text, "sort it first") {
		t.Error(text)
	}
}

func TestWindowsFollowTheRateOfAKey(t *testing.T) {
	for step, want := range map[time.Duration]string{
		10 * time.Millisecond: "[10s, 1m/1s, 10m/10s]", 10 * time.Second: "[1m, 10m, 1h]", time.Hour: "[1h, 1d, 7d]", 48 * time.Hour: "[1d, 7d, 30d]",
	} {
		found := infer(t, events(500, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","ts":%d}`, i%2, 1_500_000_000_000+int64(i)*step.Milliseconds())
		}), scaffold.Options{})
		if text := string(found.Pipeline()); !strings.Contains(text, "windows: "+want) {
			t.Errorf("every %v: want %s in\n%s", step, want, text)
		}
	}
}

func TestWithoutAKeyTheCandidatesAreListed(t *testing.T) {
	text := events(60, func(i int) string { return fmt.Sprintf(`{"a":"x%d","b":%d,"c":1.5,"d":"%d"}`, i%6, i%3, i) })
	_, err := scaffold.Infer(strings.NewReader(text), scaffold.Options{})
	var missing *scaffold.KeyError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "name one with --key: a (string, 6 values in 60 events), b (int, 3 values in 60 events), d (string, 60 values in 60 events)") {
		t.Errorf("%v", err)
	}
	if got := role(infer(t, text, scaffold.Options{Key: "b"})); !strings.HasPrefix(got, "b ") {
		t.Error(got)
	}
	for key, want := range map[string]string{"c": "of type number", "e": "has no field", "a b": "has no field"} {
		if _, err := scaffold.Infer(strings.NewReader(text), scaffold.Options{Key: key}); !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
			t.Errorf("--key %s: %v", key, err)
		}
	}
	if _, err := scaffold.Infer(strings.NewReader(text), scaffold.Options{Key: "a", Time: "b"}); err == nil || !strings.Contains(err.Error(), "cannot be the event time") {
		t.Errorf("%v", err)
	}
}

func TestSamplesThatAreNoneAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "holds no events", "\n \n": "holds no events", "[1]\n\"x\"\n": "none of 2 lines is a JSON object", "{\"a\":1,\"a\":2}\n": "occurs in the event twice",
		strings.Repeat("x", ingest.LineBytesMax+1): "longer than 1 MiB", "{}\n{}\n": "no field is a string or int",
	} {
		if _, err := scaffold.Infer(strings.NewReader(text), scaffold.Options{Name: "s"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	if _, err := scaffold.Infer(strings.NewReader("{}"), scaffold.Options{Lines: -1}); err == nil {
		t.Error("-1 lines")
	}
}

func TestOnlyTheBeginningIsRead(t *testing.T) {
	text := events(20_000, payment)
	if found := infer(t, text, scaffold.Options{}); found.Events != 10_000 {
		t.Errorf("%d events", found.Events)
	}
	if found := infer(t, text, scaffold.Options{Bytes: 10_000}); found.Events > 140 || found.Events < 80 {
		t.Errorf("%d events", found.Events)
	}
	if found := infer(t, text, scaffold.Options{Lines: 70}); found.Events != 70 {
		t.Errorf("%d events", found.Events)
	}
}

func TestNamesOfTheSampleDoNotCollide(t *testing.T) {
	found := infer(t, events(50, func(i int) string {
		return fmt.Sprintf(`{"user":"u%d","seen":%d,"seen_count_1m":2,"gap":1,"action":"x%d","recent_seen":%d,"usual_seen":1,"action_codes":1,"action_code":2,"len":%d.5,"in":%d,"not":"a%d","null":"%d"}`,
			i%7, i%11, i%3, i%13, i%9, i, i%2, i)
	}), scaffold.Options{Name: "/some/where/decisions.ndjson.gz"})
	text := string(found.Pipeline())
	for _, want := range []string{"pipeline: decisions\n", "topic: decided", "seen_2: {", "action_2: '", "gap_2: {"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for name, want := range map[string]string{"null.csv": "null", "1.ndjson": "1", "-": "events", "Ü ü.x": "events", "a b.json": "a-b", "": "events"} {
		if got := infer(t, events(100, payment), scaffold.Options{Name: name}).Topic; got != want {
			t.Errorf("%q gives topic %q, want %q", name, got, want)
		}
	}
}

func TestCSVIsRead(t *testing.T) {
	text := "device,at,level\n" + events(50, func(i int) string { return fmt.Sprintf("%d,2025-05-05 10:00:%02d,%d.5", i%5, i%60, i%7) })
	found := infer(t, text, scaffold.Options{Format: ingest.CSV})
	if got := role(found); got != "device at/2006-01-02 15:04:05 - level " {
		t.Error(got)
	}
}

// TestTimesAreRecognisedAsTheyAreWritten has the same moments in many forms.
func TestTimesAreRecognisedAsTheyAreWritten(t *testing.T) {
	begin := time.Date(2026, 1, 20, 9, 59, 30, 0, time.UTC)
	text := func(layout string) func(time.Time) string {
		return func(at time.Time) string { return fmt.Sprintf("%q", at.In(time.FixedZone("", 7200)).Format(layout)) }
	}
	utc := func(layout string) func(time.Time) string {
		return func(at time.Time) string { return fmt.Sprintf("%q", at.Format(layout)) }
	}
	for _, c := range []struct {
		write func(time.Time) string
		want  string
	}{
		{func(at time.Time) string { return fmt.Sprint(at.Unix()) }, "unit: s"},
		{func(at time.Time) string { return fmt.Sprint(at.UnixMilli()) }, "unit: ms"},
		{func(at time.Time) string { return fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000) }, "unit: s"},
		{func(at time.Time) string { return fmt.Sprintf("%d.25", at.UnixMilli()) }, "unit: ms"},
		{func(at time.Time) string { return fmt.Sprintf("%.1f", float64(at.Unix())) }, "unit: s"},
		{utc("2006-01-02T15:04:05Z"), "unit: rfc3339"},
		{utc("2006-01-02 15:04:05"), `format: "2006-01-02 15:04:05"`},
		{utc("2006-01-02 15:04:05.000"), `format: "2006-01-02 15:04:05"`},
		{utc("2006-01-02T15:04:05"), `format: "2006-01-02T15:04:05"`},
		{text("2006-01-02T15:04:05-0700"), `format: "2006-01-02T15:04:05Z0700"`},
		{text("2006-01-02 15:04:05.999-07:00"), `format: "2006-01-02 15:04:05Z07:00"`},
		{text("2006-01-02 15:04:05 -0700"), `format: "2006-01-02 15:04:05 Z0700"`},
		{utc("2006-01-02 15:04:05 UTC"), `format: "2006-01-02 15:04:05 UTC"`},
		{utc("2006-01-02 15:04"), `format: "2006-01-02 15:04"`},
		{utc("2006-01-02"), `format: "2006-01-02"`},
		{utc("02/01/2006 15:04:05"), `format: "02/01/2006 15:04:05"`},
		{utc("01/02/2006"), `format: "01/02/2006"`},
		{utc("02.01.2006 15:04:05"), `format: "02.01.2006 15:04:05"`},
		{text("02/Jan/2006:15:04:05 -0700"), `format: "02/Jan/2006:15:04:05 -0700"`},
	} {
		found := infer(t, events(100, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","at":%s}`, i%9, c.write(begin.Add(time.Duration(i)*time.Second)))
		}), scaffold.Options{})
		pipeline := string(found.Pipeline())
		if !strings.Contains(pipeline, "time: {field: at, "+c.want+", lateness: ") {
			t.Errorf("%s in %.300s", c.want, pipeline)
		}
		if at := found.Time.Newest; strings.Contains(c.want, "05") && !at.Truncate(time.Second).Equal(begin.Add(99*time.Second)) {
			t.Errorf("%s is read as %v", c.want, at)
		}
	}
}

// TestOddTimesAreAFinding has fields that look like times outside of 2000 to 2100.
func TestOddTimesAreAFinding(t *testing.T) {
	for write, want := range map[string]string{
		`%d`: "ts is not an event time: 0 is 1970-01-01T00:00:00Z in s", `%d.5`: "ts is not an event time: 0.5 is 1970-01-01T00:00:00Z in s",
		`"1985-05-05T10:00:%02dZ"`: `ts is not an event time: most of its times are before 2000 or after 2100, such as "1985-05-05T10:00:00Z"`,
		`"1985-05-05 10:00:%02d"`:  "ts is not an event time: most of its times are before 2000 or after 2100", `"05/06/2025 10:%02d:00"`: `ts may have the day or the month first: add format: "02/01/2006 15:04:05" or "01/02/2006 15:04:05"`,
	} {
		found := infer(t, events(50, func(i int) string { return fmt.Sprintf(`{"user":"u%d","ts":`+write+`}`, i%9, i) }), scaffold.Options{})
		if got := found.OddTime(); !strings.Contains(got, want) || found.Time != nil || !strings.Contains(string(found.Pipeline()), got) {
			t.Errorf("%s: %q, want %q", write, got, want)
		}
	}
	if found := infer(t, events(50, func(i int) string { return fmt.Sprintf(`{"user":"u%d","birth":"%d-05-05"}`, i%9, 2001+i%20) }), scaffold.Options{}); found.Time != nil {
		t.Error("a date of birth is the event time")
	}
}

// TestOtherSeparatorsAndNamesAreTaken has CSV of semicolons and tabs, and columns with
// names that no pipeline can have.
func TestOtherSeparatorsAndNamesAreTaken(t *testing.T) {
	for _, separator := range []string{",", ";", "\t"} {
		text := strings.ReplaceAll("user|amount|at|\"e mail\"|x.y|a@b|user-name\n", "|", separator)
		text += events(50, func(i int) string {
			return strings.ReplaceAll(fmt.Sprintf("u%d|%d.5|2026-01-20 10:00:%02d|m|1|2|n", i%7, i, i%60), "|", separator)
		})
		found := infer(t, text, scaffold.Options{Format: ingest.CSV})
		if got := role(found); got != "user at/2006-01-02 15:04:05 - amount " {
			t.Errorf("%q: %s", separator, got)
		}
		for _, want := range []string{"e_mail: {path: 'e mail', type: string}", `x_y: {path: '"x.y"', type: int}`, "a_b: {path: 'a@b', type: int}", "user_name: {path: user-name, type: string}"} {
			if !strings.Contains(string(found.Pipeline()), want) {
				t.Errorf("%q: no %s in\n%s", separator, want, found.Pipeline())
			}
		}
	}
	found := infer(t, events(9, func(i int) string { return fmt.Sprintf(`{"user-id":"u%d","\u20ac":1.5}`, i%3) }), scaffold.Options{})
	if role(found) != "user_id - -  " || !strings.Contains(found.Unnamed(), `no letters or digits: read "\u20ac" by path`) {
		t.Error(role(found), found.Unnamed())
	}
}

func TestDedupeLineIsRightOnceItIsUncommented(t *testing.T) {
	text := strings.Replace(string(infer(t, events(50, payment), scaffold.Options{}).Pipeline()), "  # dedupe:", "  dedupe:", 1)
	if err := valid([]byte(text)); err != nil && !strings.Contains(err.Error(), "not supported yet") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestAnyFlatSampleGivesAPipelineOrSaysWhyNot draws samples with odd names and
// values: the pipeline they give is valid.
func TestAnyFlatSampleGivesAPipelineOrSaysWhyNot(t *testing.T) {
	from, to := uint64(1), uint64(300)
	if *seed != 0 {
		from, to = *seed, *seed
	}
	given := 0
	for n := from; n <= to; n++ {
		random := rand.New(rand.NewPCG(n, 0))
		text, first := odd(t, random)
		o := scaffold.Options{}
		if random.IntN(2) == 0 {
			o.Key = first
		}
		if check(t, n, text, o) {
			given++
		}
	}
	if *seed == 0 && given < 40 {
		t.Errorf("only %d samples gave a pipeline", given)
	}
}

var seed = flag.Uint64("seed", 0, "run only this seed of the random test")

var oddNames = append(strings.Fields("user user_id id ts time created_at amount price country meta event in not true null len seen gap action "+
	"recent_amount usual_amount country_codes country_code meta.id a-b \u00e4 and or matches let if nil float max _ _a customerID device"), "", " ", "a\nb", "\x7f")

// odd returns a sample of up to 30 events, and its first name.
func odd(t *testing.T, random *rand.Rand) (text, first string) {
	pick := func(list ...any) any { return list[random.IntN(len(list))] }
	values := []func(i int) any{
		func(int) any { return nil }, func(int) any { return pick(true, false) }, func(int) any { return random.Int64() - random.Int64() },
		func(int) any { return random.IntN(5) }, func(int) any { return random.NormFloat64() * math.Pow(10, float64(random.IntN(600)-300)) },
		func(int) any { return random.Float64() * 100 }, func(int) any { return map[string]any{"x": 1} }, func(int) any { return []int{} },
		func(i int) any {
			return map[string]any{"id": fmt.Sprint(i % 3), oddNames[i%len(oddNames)]: pick(1, "a", nil), "in": map[string]any{"a.b": i, "null": nil}}
		},
		func(int) any { return pick([]any{1, 2.5}, []any{"a"}, []any{true, nil}, []any{}) },
		func(i int) any {
			return []any{map[string]any{"price": i, "sku": "s", "x y": 1.5}, map[string]any{"price": 1, "sku": pick("t", 1), "x y": 2}}
		},
		func(int) any {
			return pick("a", "b", `"`, "${HOME}", "'", "\n", "DE", "", "2025-01-02T03:04:05Z", "\\", "\u2028", "\ufeff")
		},
		func(i int) any { return 1_760_000_000_000 + int64(i)*1000 }, func(i int) any { return fmt.Sprint("u", i%4) },
		func(i int) any { return time.UnixMilli(1_760_000_000_000 + int64(i)).UTC().Format(time.RFC3339Nano) },
	}
	columns := map[string]int{}
	for range 1 + random.IntN(8) {
		first = oddNames[random.IntN(len(oddNames))]
		columns[first] = random.IntN(len(values))
	}
	return events(1+random.IntN(30), func(i int) string {
		event := map[string]any{}
		for name, kind := range columns {
			if random.IntN(50) == 0 {
				kind = random.IntN(len(values))
			}
			if random.IntN(30) > 0 {
				event[name] = values[kind](i)
			}
		}
		line, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		return string(line)
	}), first
}

// check sees that a sample gives a valid pipeline, and reports whether it did,
// or an error.
func check(t *testing.T, seed uint64, text string, o scaffold.Options) bool {
	t.Helper()
	found, err := scaffold.Infer(strings.NewReader(text), o)
	if err != nil {
		if err.Error() == "" {
			t.Errorf("seed %d: an error without words", seed)
		}
		return false
	}
	if err := valid(found.Pipeline()); err != nil {
		t.Errorf("seed %d: %v\n%s\n%s", seed, err, found.Pipeline(), text)
	}
	if !strings.Contains(found.Table(), "key") {
		t.Errorf("seed %d: %s", seed, found.Table())
	}
	return true
}

func FuzzInfer(f *testing.F) {
	f.Add(events(3, payment), "", false)
	f.Add("user,n\na,1\nb,2\na,3\n", "user", true)
	f.Add("a;1\nb;2\na;3\n", "c1", true)
	f.Add(`{"user":"a","x":1}`+"\n"+`{"user":"a","x":"${A}"}`+"\n"+`{"user":"b"}`, "user", false)
	f.Fuzz(func(t *testing.T, text, key string, csv bool) {
		o := scaffold.Options{Key: key}
		if csv {
			o.Format, o.NoHeader = ingest.CSV, key == "c1"
		}
		check(t, 0, text, o)
	})
}
