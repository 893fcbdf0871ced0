package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// adsJoined joins clicks with the impressions that they are of.
func adsJoined(kind, match string, partitions int) string {
	return fmt.Sprintf(`pipeline: ads
inputs:
  - {topic: impressions, partitions: 4, key: user, repartition: %d, time: {field: ts, unit: ms, lateness: 5s}, fields: {id: string, imp: string, user: string, bid: number, ts: int}}
  - {topic: clicks, partitions: 4, key: user, time: {field: ts, unit: ms, lateness: 5s}, fields: {id: string, imp: string, user: string, price: number, ts: int}}
steps:
  - join: {name: clk, left: impressions, right: clicks, on: {imp: imp}, within: 10m, before: 2s, type: %s, match: %s}
  - emit: {topic: examples, value: {left: id, bid: bid, right: clk.id, price: clk.price}}
`, partitions, kind, match)
}

// ads are impressions and clicks of 30 users, each of them in all partitions. A click is of
// any impression of its user. Times are up to 5 s out of order.
func ads(seed uint64, impressions int) []eventtime.Event {
	events := eventtime.Disordered(seed, eventtime.Ads(seed, impressions, 4), 5*eventtime.Second)
	for i := range events {
		user := fmt.Sprint("user", len(events[i].Text["user"])*100+int(events[i].Text["user"][len(events[i].Text["user"])-1]))
		events[i].Text = map[string]string{"user": user, "imp": user}
	}
	return events
}

// joinedAds runs a pipeline over events and returns its rows by the id of the output.
func joinedAds(t *testing.T, kind, match string, partitions, members int, events []eventtime.Event) map[string]string {
	t.Helper()
	file, err := config.Parse("p.yaml", []byte(adsJoined(kind, match, partitions)), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(file.Pipelines[0], pipeline.Options{Members: members})
	if err != nil {
		t.Fatal(err)
	}
	log := memory.New(memory.Options{})
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), recordsOf(events)...); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
	if c := runner.Counts(); c.DeadLetters != 0 || c.Late != 0 {
		t.Fatalf("%d dead letters, %d late events", c.DeadLetters, c.Late)
	}
	rows := map[string]string{}
	for partition := range int32(partitions) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "examples", Index: partition}) {
			id := header.Get(&r, header.ID)
			if rows[id] != "" {
				t.Fatalf("%s occurs twice", id)
			}
			rows[id] = fmt.Sprintf("%s %s %d", r.Key, r.Value, r.Time.UnixMicro())
		}
	}
	return rows
}

// recordsOf returns the records of events. Each partition ends with an impression and a
// click of a later day, which have no rows.
func recordsOf(events []eventtime.Event) (records []stream.Record) {
	for _, e := range events {
		records = append(records, stream.Record{Partition: stream.Partition{Topic: e.Topic, Index: int32(e.Partition)}, Key: []byte(e.Text["user"]), Value: e.JSON(), Time: time.UnixMicro(e.Time)})
	}
	for partition := range int32(4) {
		for _, topic := range []string{"impressions", "clicks"} {
			last := eventtime.Event{ID: "last", Time: events[0].Time + 7*24*eventtime.Hour, Text: map[string]string{"user": fmt.Sprint("last", partition), "imp": topic}, Number: map[string]float64{"bid": 0, "price": 0}}
			records = append(records, stream.Record{Partition: stream.Partition{Topic: topic, Index: partition}, Key: []byte(last.Text["user"]), Value: last.JSON(), Time: time.UnixMicro(last.Time)})
		}
	}
	return records
}

// pairsOf returns the pairs of rows, sorted.
func pairsOf(t *testing.T, rows map[string]string) (pairs []eventtime.Pair) {
	t.Helper()
	for _, text := range rows {
		var row struct{ Left, Right string }
		_, value, _ := strings.Cut(text, " ")
		if err := json.NewDecoder(strings.NewReader(value)).Decode(&row); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		pairs = append(pairs, eventtime.Pair(row))
	}
	sortPairs(pairs)
	return pairs
}

func sortPairs(pairs []eventtime.Pair) {
	slices.SortFunc(pairs, func(a, b eventtime.Pair) int {
		return strings.Compare(a.Left+" "+a.Right, b.Left+" "+b.Right)
	})
}

// TestJoinsAreEventTimeTruth compares the rows of each kind of join with a look at all
// events, and those of other partitions and members byte for byte.
func TestJoinsAreEventTimeTruth(t *testing.T) {
	t.Parallel()
	events := ads(1, 2000)
	order := eventtime.Order(events, eventtime.Rule{Wait: eventtime.Hour, Lateness: eventtime.Hour})
	for _, match := range []string{"first", "last", "each"} {
		for _, kind := range []string{"left", "inner"} {
			want := eventtime.Join{Left: "impressions", Right: "clicks", On: "imp", Within: 10 * eventtime.Minute, Before: 2 * eventtime.Second, Match: match, Inner: kind == "inner"}.Pairs(order)
			sortPairs(want)
			var before map[string]string
			for _, members := range []int{1, 3} {
				rows := joinedAds(t, kind, match, members+members/3, members, events)
				if diff := cmp.Diff(want, pairsOf(t, rows)); diff != "" {
					t.Errorf("%s, %s, %d members (-want +got)\n%s", kind, match, members, diff)
				}
				if before != nil && !cmp.Equal(before, rows) {
					t.Errorf("%s, %s: other partitions and members make other rows\n%s", kind, match, cmp.Diff(before, rows))
				}
				before = rows
			}
		}
	}
}

// TestLabelsAreThoseOfTenMinutes has 20,000 impressions, of whose 2,003 clicks 1,001 are
// within ten minutes. All arrive at once, clicks long before or after their impressions.
func TestLabelsAreThoseOfTenMinutes(t *testing.T) {
	events := eventtime.Ads(1, 20_000, 4)
	labelled := 0
	pairs := pairsOf(t, joinedAds(t, "left", "first", 4, 2, events))
	for _, p := range pairs {
		if p.Right != "" {
			labelled++
		}
	}
	if len(pairs) != 20_000 || labelled != 1001 {
		t.Errorf("%d rows, %d labelled", len(pairs), labelled)
	}
}

// joinInSQL has the pairs of each kind of join.
const joinInSQL = `
import duckdb, json, sys
c = duckdb.connect()
c.execute("create table e as select * from read_json(?, format='newline_delimited', columns={topic:'varchar', part:'bigint', place:'bigint', t:'bigint', id:'varchar', imp:'varchar'})", [sys.argv[1]])
c.execute("""create table pair as select l.id as l, r.id as r, r.t, r.part, r.place from e l left join e r
  on r.topic = 'clicks' and r.imp = l.imp and r.t - l.t between -2000000 and 600000000 where l.topic = 'impressions'""")
def ranked(order): return f"select l, r from (select *, row_number() over (partition by l order by {order}) as n from pair) where n = 1"
sql = {"first": ranked("t, part, place"), "last": ranked("t desc, part desc, place desc"), "each": "select l, r from pair"}
for name, got in json.load(open(sys.argv[2])).items():
    kind, match = name.split()
    want = c.execute(f"select l, coalesce(r, '') from ({sql[match]}) {'where r is not null' if kind == 'inner' else ''} order by l, r").fetchall()
    if sorted(map(list, want)) != sorted(got):
        sys.exit(f"{name}: DuckDB has {len(want)} pairs, Afterbay {len(got)}: {[p for p in map(list, want) if p not in got][:3]}")
    print(name, len(want))
`

// TestDuckDBMakesTheSamePairs compares each kind of join with SQL over the same events.
// DuckDB is that of the interpreter of AFTERBAY_READERS.
func TestDuckDBMakesTheSamePairs(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no interpreter, with duckdb")
	dir, events := t.TempDir(), ads(2, 1500)
	var lines strings.Builder
	for _, e := range events {
		fmt.Fprintf(&lines, "{\"topic\":%q,\"part\":%d,\"place\":%d,\"t\":%d,\"id\":%q,\"imp\":%q}\n", e.Topic, e.Partition, e.Offset, e.Time, e.ID, e.Text["imp"])
	}
	got := map[string][][2]string{}
	for _, name := range []string{"left first", "inner last", "left each"} {
		kind, match, _ := strings.Cut(name, " ")
		for _, p := range pairsOf(t, joinedAds(t, kind, match, 2, 2, events)) {
			got[name] = append(got[name], [2]string{p.Left, p.Right})
		}
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", joinInSQL, at("events.ndjson", []byte(lines.String())), at("pairs.json", text)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

// adsScored scores each impression with its first click off the loop.
func adsScored(t *testing.T, m model.Model, call *lang.Calling) lang.Pipeline {
	t.Helper()
	file, err := config.Parse("p.yaml", []byte(adsJoined("left", "first", 2)), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	p := file.Pipelines[0]
	p.Models = []lang.Model{{Name: "loud", Go: "loud", Version: 1, Outputs: []lang.Field{{Name: "volume", Type: "number"}}, Call: call}}
	p.Code.Models = map[string]model.Model{"loud": m}
	p.Steps = []lang.Step{
		p.Steps[0], &steps.Let{List: []lang.Binding{{Name: "said", Expr: `clk.matched ? b"ab" : b"c"`}}},
		&steps.Score{Model: "loud", Inputs: []string{"said"}, Async: call != nil},
		&steps.Emit{Topic: "examples", Names: []string{"id", "clk.id", "clk.price", "clk.matched", "loud.volume", "meta.id", "meta.time", "meta.topic"}},
	}
	return p
}

// TestJoinedEventsAreQueued has what goes on be scored off the loop, with commits that are
// lost: the rows are those of a model that answers at once.
func TestJoinedEventsAreQueued(t *testing.T) {
	rows := func(m model.Model, call *lang.Calling, log stream.Log) []string {
		answer, _ := runQueueing(t, log, adsScored(t, m, call), 2, recordsOf(eventtime.Ads(3, 150, 4)))
		list := answer.Values("examples")
		slices.Sort(list)
		return list
	}
	want := rows(volumeModel{}, nil, memory.New(memory.Options{}))
	if len(want) != 150 || !strings.Contains(strings.Join(want, ""), `"clk_matched":true`) {
		t.Fatalf("%d rows: %s", len(want), want)
	}
	for seed := range uint64(2) {
		sound := memory.New(memory.Options{RebalanceTimeout: time.Second})
		log := inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10}}), sound}
		if d := cmp.Diff(want, rows(volumeModel{remote: true}, &lang.Calling{Concurrency: 4}, log)); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

// TestJoinedEventsGoOnWhenSentBack has a model refuse each row, until it takes them.
func TestJoinedEventsGoOnWhenSentBack(t *testing.T) {
	log := memory.New(memory.Options{})
	events := recordsOf(eventtime.Ads(3, 20, 4))
	runQueueing(t, log, adsScored(t, refusing{volumeModel{remote: true}}, &lang.Calling{Attempts: 1}), 1, events)
	open := openLetters(t, log, "ads")
	if len(open) != 20 || open[0].Resume != "from score loud" || !strings.HasSuffix(open[0].ID, "~clk") {
		t.Fatalf("%d letters: %+v", len(open), open)
	}
	if n := redriveAll(t, log, "ads"); n != 20 {
		t.Fatalf("%d letters were sent back", n)
	}
	answer, _ := runQueueing(t, log, adsScored(t, volumeModel{remote: true}, &lang.Calling{}), 1, nil)
	want, _ := runQueueing(t, memory.New(memory.Options{}), adsScored(t, volumeModel{}, nil), 1, events)
	if d := cmp.Diff(inOrder(want.Values("examples")), inOrder(answer.Values("examples"))); d != "" {
		t.Error(d)
	}
}

func inOrder(list []string) []string {
	slices.Sort(list)
	return list
}

// TestHowToJoinLeadsToWhatItSays runs the pipeline and events of docs/howto/join.md.
func TestHowToJoinLeadsToWhatItSays(t *testing.T) {
	page, err := os.ReadFile("docs/howto/join.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, rest, _ := strings.Cut(file, "```")
	parsed, err := config.Parse("join.md", []byte(file), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	var events []stream.Record
	for _, row := range regexp.MustCompile("(?m)^\\| (\\w+) \\| `({.*?})` \\|").FindAllStringSubmatch(rest, -1) {
		key := regexp.MustCompile(`"user": "(.*?)"`).FindStringSubmatch(row[2])[1]
		events = append(events, stream.Record{Partition: stream.Partition{Topic: row[1]}, Time: time.Unix(700, 0), Key: []byte(key), Value: []byte(row[2])})
	}
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `({.*?})` \\|$").FindAllStringSubmatch(rest, -1) {
		want = append(want, row[1])
	}
	answer, _ := runQueueing(t, memory.New(memory.Options{}), parsed.Pipelines[0], 1, events)
	if d := cmp.Diff(want, answer.Values("examples")); d != "" || len(events) != 6 || len(want) != 2 {
		t.Error(d, events, want)
	}
}

// TestWrongJoinsAreNamed has lint say what is wrong with a join.
func TestWrongJoinsAreNamed(t *testing.T) {
	const right = "join: {name: clk, left: impressions, right: clicks, on: {imp: imp}, within: 10m, before: 2s, type: left, match: first}"
	text := adsJoined("left", "first", 1)
	if !strings.Contains(text, right) {
		t.Fatal("the join is another one")
	}
	for change, want := range map[string]string{
		"join: {name: bid, left: impressions, right: clicks, within: 10m}":                          `"bid" is a field: a join's own name starts those that it introduces`,
		"join: {name: clk, left: impressions, right: click, within: 10m}":                           `"click" is not the topic of an input: use impressions or clicks`,
		"join: {name: clk, left: clicks, right: clicks, within: 10m}":                               `"clicks" is the left already`,
		"join: {name: clk, left: impressions, right: clicks, on: {price: imp}, within: 10m}":        `"price" is not a field of input impressions`,
		"join: {name: clk, left: impressions, right: clicks, on: {imp: bid}, within: 10m}":          `"bid" is not a field of input clicks`,
		"join: {name: clk, left: impressions, right: clicks, on: {bid: price}, within: 10m}":        `"bid" is of type optional number: a pair is joined on fields of type string or int`,
		"join: {name: clk, left: impressions, right: clicks, on: {imp: ts}, within: 10m}":           `"imp" is of type string and "ts" of type int`,
		"join: {name: clk, left: impressions, right: clicks}":                                       `within`,
		"join: {name: clk, left: impressions, right: clicks, within: 10m, match: any}":              `first, last or each`,
		right + "\n  - join: {name: again, left: impressions, right: clicks, within: 1m}":           `an event goes through one join or group: this one is below another`,
		"group: {name: g, by: imp, idle: 1m}\n  - " + right:                                         `an event goes through one join or group`,
		right + "\n  - group: {name: g, by: imp, idle: 1m}":                                         `an event goes through one`,
		right + "\n  - features: {n: {windows: [1h], aggregates: [count]}}":                         `below a`,
		"route: {all: {when: 'bid != null', steps: [{" + right + "}]}, default: drop}":              `in a case of a route: the events of both inputs come to a join`,
		"join: {name: clk, left: impressions, right: clicks, within: 10m, max: {matches: 1000000}}": `65,536`,
	} {
		file, err := config.Parse("p.yaml", []byte(strings.Replace(text, right, change, 1)), builtin.Kinds())
		if err == nil {
			_, err = builtin.New(file.Pipelines[0], pipeline.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", change, err, want)
		}
	}
	p := adsScored(t, volumeModel{remote: true}, &lang.Calling{})
	p.Steps[0].(*steps.Join).Match = "each"
	if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "it may queue events, and it is below a join with match: each") {
		t.Error(err)
	}
	p.Steps[0].(*steps.Join).Match = ""
	p.Inputs = p.Inputs[:1]
	if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "a join is of two inputs, and the pipeline has 1") {
		t.Error(err)
	}
}

// TestJoinsLeaveTheSameAnswerUnderFaults has commits be lost and hidden, partitions move and
// transactions be of any size: the rows are those of a run without.
func TestJoinsLeaveTheSameAnswerUnderFaults(t *testing.T) {
	t.Parallel()
	events := recordsOf(ads(4, 300))
	for i, match := range []string{"first", "last", "each"} {
		rows := func(log stream.Log, size, members int) []string {
			file, err := config.Parse("p.yaml", []byte(adsJoined("left", match, 3)), builtin.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			p := file.Pipelines[0]
			p.Commit.Size = size
			answer, _ := runQueueing(t, log, p, members, events)
			return inOrder(answer.Values("examples"))
		}
		want := rows(memory.New(memory.Options{}), 0, 1)
		if len(want) < 300 {
			t.Fatalf("%d rows", len(want))
		}
		for seed := range uint64(3) {
			sound := memory.New(memory.Options{RebalanceTimeout: time.Second})
			log := inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10}}), sound}
			if d := cmp.Diff(want, rows(log, 20, 1+i)); d != "" {
				t.Fatalf("%s, seed %d: %s", match, seed, d)
			}
		}
	}
}
