package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// callPipeline puts the chunks of calls together, beside chats that are scored.
func callPipeline(group steps.Group) lang.Pipeline {
	return lang.Pipeline{
		Name: "support",
		Input: lang.Input{
			Topic: "contacts", Key: "customer", Partitions: 1, Time: lang.EventTime{Field: "at", Unit: "s", Lateness: 5 * time.Second, Late: "include"},
			Fields: []lang.Field{
				{Name: "customer", Type: "string"}, {Name: "at", Type: "int"}, {Name: "call", Type: "optional string"}, {Name: "part", Type: "optional int"},
				{Name: "end", Type: "optional bool"}, {Name: "url", Type: "optional string"}, {Name: "sound", Type: "optional bytes"},
			},
		},
		Steps: []lang.Step{
			&steps.Let{List: []lang.Binding{{Name: "audio", Expr: `(call ?? "") != ""`}}},
			&steps.Route{Cases: []lang.Case{
				{Name: "chat", When: "!audio", Steps: []lang.Step{
					&steps.Emit{Topic: "chats", Names: []string{"customer", "at"}},
				}},
				{Name: "call", When: "audio", Steps: []lang.Step{
					&steps.Let{List: []lang.Binding{{Name: "said", Expr: `call ?? "none"`}}},
					&group,
					&steps.Let{List: []lang.Binding{{Name: "all", Expr: `join(parts.url, "+")`}}},
					&steps.Emit{Topic: "calls", Names: []string{"customer", "parts.key", "parts.count", "parts.complete", "parts.missing", "parts.ended", "all", "parts.sound", "said"}},
				}},
			}},
		},
	}
}

var callParts = steps.Group{Name: "parts", By: "call", Order: "part", End: "end", Idle: 60 * time.Second}

func chunk(customer string, at int, call string, part int, end bool) stream.Record {
	value := fmt.Sprintf(`{"customer":%q,"at":%d}`, customer, at)
	if call != "" {
		value = fmt.Sprintf(`{"customer":%q,"at":%d,"call":%q,"part":%d,"end":%v,"url":"%s-%d","sound":"AAE="}`, customer, at, call, part, end, call, part)
	}
	return stream.Record{
		Partition: stream.Partition{Topic: "contacts", Index: stream.ByKey}, Time: time.Unix(int64(at), 0), Key: []byte(customer), Value: []byte(value),
	}
}

// A group puts the chunks of a call together, shuffled as they came, and goes on with
// one event when the last and all before it are there.
func Example_group() {
	ctx := context.Background()
	log := memory.New(memory.Options{})
	runner, err := builtin.New(callPipeline(callParts), pipeline.Options{})
	if err != nil {
		panic(err)
	}
	answer, err := answers.RunAll(ctx, log, runner, []stream.Record{
		chunk("ann", 100, "c1", 1, false), chunk("ann", 101, "c1", 2, true), chunk("bob", 102, "", 0, false), chunk("ann", 103, "c1", 1, false), chunk("ann", 104, "c1", 0, false),
	})
	if err != nil {
		panic(err)
	}
	for _, topic := range []string{"chats", "calls", "support.dlq"} {
		for _, value := range answer.Values(topic) {
			fmt.Println(topic, value)
		}
	}
	fmt.Println(log.Close())
	// Output:
	// chats {"customer":"bob","at":102}
	// calls {"customer":"ann","parts_key":"c1","parts_count":3,"parts_complete":true,"parts_missing":0,"parts_ended":"complete","all":"c1-0+c1-1+c1-2","parts_sound":"AAEAAQAB","said":"c1"}
	// <nil>
}

func TestGroupsLeaveTheSameAnswerUnderFaults(t *testing.T) {
	group := callParts
	group.Incomplete = "pass"
	var events []stream.Record
	for i := range 300 {
		call := i / 7 % 30
		events = append(events, chunk(fmt.Sprint("user-", call%5), 1000+i*2, fmt.Sprint("call-", call), i*i%7, i%5 == 0))
	}
	answers.SameAnswer(t,
		func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
		func() (answers.Runner, error) {
			p := callPipeline(group)
			p.Input.Partitions, p.Commit.Size = 4, 10
			return builtin.New(p, pipeline.Options{Members: 3, Keys: 3})
		}, events, seedsOf(20))
}

// callEvents are chats and the chunks of calls: shuffled within some seconds, some of
// them twice, some missing, some after their call has ended, some without a place.
func callEvents(seed uint64, calls int) []stream.Record {
	rng := rand.New(rand.NewPCG(seed, 0))
	type placed struct {
		at     int
		record stream.Record
	}
	var list []placed
	add := func(at int, customer, call string, part int, end bool) {
		list = append(list, placed{at + rng.IntN(6), chunk(customer, at, call, part, end)})
	}
	for i := range calls {
		customer, begin, parts := fmt.Sprint("user-", rng.IntN(9)), 1000+rng.IntN(10*calls), 1+rng.IntN(8)
		call := fmt.Sprint("call-", i)
		for part := range parts {
			at := begin + part*3
			switch rng.IntN(20) {
			case 0:
				continue // it never comes
			case 1:
				add(at+100, customer, call, part, part == parts-1) // when its call has ended
				continue
			case 2:
				add(at+rng.IntN(60), customer, call, part, part == parts-1)
			case 3:
				add(at, customer, "", 0, false)
			}
			add(at, customer, call, part, part == parts-1)
		}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return a.at - b.at })
	var events []stream.Record
	for _, p := range list {
		events = append(events, p.record)
	}
	return events
}

// volumeModel is a local model of a sound, an event's score of which depends on it alone.
type volumeModel struct{ remote bool }

func (v volumeModel) Info() model.Info {
	return model.Info{Kind: "test", Inputs: []model.Input{{Name: "sound", Type: model.Bytes}}, Outputs: []model.Output{{Name: "volume", Size: 1}}, Remote: v.remote}
}

func (volumeModel) Check([]float64, [][]byte) error { return nil }

func (volumeModel) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, sound := range rows.Bytes {
		scores[i] = 0
		for k, c := range sound {
			scores[i] += float32(int(c) * (k + 1))
		}
	}
	return nil
}

// scoredCalls scores chats and calls, so that the group stands below a score in the
// file, but for its own events.
func scoredCalls(group steps.Group, m model.Model, call *lang.Calling) lang.Pipeline {
	p := callPipeline(group)
	p.Models = []lang.Model{{Name: "loud", Go: "loud", Version: 1, Outputs: []lang.Field{{Name: "volume", Type: "number"}}, Call: call}}
	p.Code.Models = map[string]model.Model{"loud": m}
	chat, calls := &p.Steps[1].(*steps.Route).Cases[0].Steps, &p.Steps[1].(*steps.Route).Cases[1]
	*chat = append([]lang.Step{
		&steps.Let{List: []lang.Binding{{Name: "mute", Expr: `sound ?? b""`}}},
		&steps.Score{Model: "loud", As: "said_loud", Inputs: []string{"mute"}, Batch: steps.Batch{Size: 8}},
	}, *chat...)
	score := &steps.Score{Model: "loud", Inputs: []string{"parts.sound"}, Async: call != nil}
	calls.Steps = slices.Insert(calls.Steps, 2, lang.Step(score))
	emit := calls.Steps[len(calls.Steps)-1].(*steps.Emit)
	emit.Names = append(emit.Names, "loud.volume", "meta.id", "meta.time")
	return p
}

// TestGroupsHaveTheSameAnswerOnEveryEngine runs calls in steps of one event and of
// many, in members and on engines: outputs, dead letters and state are the same.
func TestGroupsHaveTheSameAnswerOnEveryEngine(t *testing.T) {
	events := callEvents(1, 300)
	var first *answer
	for _, v := range []variant{
		{"memory", 1000, 1, time.Millisecond}, {"memory", 1, 1, time.Millisecond}, {"memory", 7, 3, time.Second}, {"embedded", 1, 2, time.Millisecond}, {"embedded", 1000, 1, time.Second},
		{"kafka", 7, 2, time.Millisecond},
	} {
		t.Run(v.String(), func(t *testing.T) {
			group := callParts
			group.Late, group.Max.Events = "include", 5
			p := scoredCalls(group, volumeModel{}, nil)
			p.Input.Partitions, p.Commit.Size, p.Commit.Interval = answerPartitions, v.batch, v.interval
			runner, err := builtin.New(p, pipeline.Options{Members: v.members})
			if err != nil {
				t.Fatal(err)
			}
			log := openLog(t, v.engine, t.TempDir())
			defer closeLog(t, log)
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(events); at += 400 { // a member after another, too
				if err := log.Append(t.Context(), slices.Clone(events[at:min(len(events), at+400)])...); err != nil {
					t.Fatal(err)
				}
				runUntilIdle(t, runner, log)
			}
			got := readAnswer(t, runner, log)
			if first == nil {
				first = got
				if g := runner.Snapshot().Groups[0]; g.Open != 0 || g.Bytes != 0 || g.Ended["complete"] < 50 || g.Ended["idle"] < 10 || g.Ended["full"] < 10 || g.Duplicates < 10 || g.Late < 10 {
					t.Errorf("counts %+v", g)
				}
				checkEndings(t, log)
				return
			}
			got.mustEqual(t, first)
		})
	}
}

// checkEndings sees that groups ended in every way.
func checkEndings(t *testing.T, log stream.Log) {
	t.Helper()
	calls := strings.Join(valuesOf(t, log, "calls"), "\n")
	for _, part := range []string{`"parts_ended":"complete"`} {
		if strings.Count(calls, part) < 50 {
			t.Errorf("%s: %d times in %.500s", part, strings.Count(calls, part), calls)
		}
	}
	var dead []string
	for i := range int32(answerPartitions) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "support.dlq", Index: i}) {
			dead = append(dead, header.Get(&r, "afterbay-error"))
		}
	}
	all := strings.Join(dead, "\n")
	for _, part := range []string{"ended: idle", "ended: full", "without part", "without its last"} {
		if !strings.Contains(all, part) {
			t.Errorf("no group %s: %.1000s", part, all)
		}
	}
}

// TestGroupsThatEndBadlyAreNamedAndGoOnWhenSentBack has a call whose last chunk never
// comes, one that lacks a chunk, one of too many, a chunk that is late and one without
// a place: each is a dead letter that says so, and groups go on as they are.
func TestGroupsThatEndBadlyAreNamedAndGoOnWhenSentBack(t *testing.T) {
	group := callParts
	group.Max.Events = 3
	p := scoredCalls(group, volumeModel{}, nil)
	events := []stream.Record{
		chunk("a", 100, "endless", 0, false), chunk("a", 101, "endless", 1, false),
		chunk("b", 100, "holed", 0, false), chunk("b", 101, "holed", 2, true),
		chunk("c", 102, "long", 0, false), chunk("c", 103, "long", 1, false), chunk("c", 104, "long", 2, false), chunk("c", 105, "long", 3, true),
		chunk("d", 106, "short", 0, true), chunk("d", 107, "short", 0, true), chunk("d", 108, "short", 1, false),
		chunk("e", 109, "", 0, false), chunk("e", 300, "", 0, false),
	}
	events[11].Value = []byte(`{"customer":"e","at":109,"call":"placeless"}`)
	log := run(t, p, events...)
	want := []string{
		`group: part 3 of call "long" comes after its group ended: full`,
		`group: group of call "long" ended: full, with 3 of its events: redrive continues with the events that are there, like incomplete: pass`,
		`group: part 1 of call "short" comes after its group ended: complete`,
		`group: has no part: its place in the group`,
		`group: group of call "endless" ended: idle, with 2 of its events, without its last: redrive continues with the events that are there, like incomplete: pass`,
		`group: group of call "holed" ended: idle, with 2 of its events, without part 1: redrive continues with the events that are there, like incomplete: pass`,
	}
	if d := cmp.Diff(want, stages(t, log, "support.dlq")); d != "" {
		t.Error(d)
	}
	letter := readPartition(t, log, stream.Partition{Topic: "support.dlq"})[5]
	if got, want := string(letter.Value), `{"customer":"b","at":100,"call":"holed","part":0,"end":false,"url":"holed-0","sound":"AAE=","parts":{"key":"holed","ended":"idle","missing":1,"members":[2,3]}}`; got != want {
		t.Errorf("the letter of a group is %s, want %s", got, want)
	}
	before := values(t, log, "calls")
	if n := redriveAll(t, log, "support"); n != len(want) {
		t.Fatalf("%d letters were sent back", n)
	}
	runOn(t, log, p)
	got := values(t, log, "calls")[len(before):]
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], `,"said"`)
	}
	if d := cmp.Diff([]string{
		`{"customer":"c","parts_key":"long","parts_count":3,"parts_complete":false,"parts_missing":0,"parts_ended":"full","all":"long-0+long-1+long-2","parts_sound":"AAEAAQAB"`,
		`{"customer":"a","parts_key":"endless","parts_count":2,"parts_complete":false,"parts_missing":0,"parts_ended":"idle","all":"endless-0+endless-1","parts_sound":"AAEAAQ=="`,
		`{"customer":"b","parts_key":"holed","parts_count":2,"parts_complete":false,"parts_missing":1,"parts_ended":"idle","all":"holed-0+holed-2","parts_sound":"AAEAAQ=="`,
	}, got); d != "" {
		t.Error(d)
	}
}

// TestGroupThatIsQueuedGoesOnOnceWithItsMembers scores calls off the loop, over a log
// that loses commits and hides that they were done.
func TestGroupThatIsQueuedGoesOnOnceWithItsMembers(t *testing.T) {
	events := callEvents(2, 200)
	group := callParts
	group.By, group.Incomplete = "said", "pass" // a let of its case, which stands below a score of another
	outputs := func(answer answers.Answer) []string {
		list := answer.Values("calls")
		slices.Sort(list)
		return list
	}
	p := scoredCalls(group, volumeModel{}, nil)
	want, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
	if n := len(outputs(want)); n < 150 {
		t.Fatalf("%d calls", n)
	}
	for seed := range uint64(3) {
		sound := memory.New(memory.Options{RebalanceTimeout: time.Second})
		log := inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{
			Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10},
		}), sound}
		p := scoredCalls(group, volumeModel{remote: true}, &lang.Calling{Concurrency: 4})
		p.Commit.Size = 20
		got, _ := runQueueing(t, log, p, 2, events)
		if d := cmp.Diff(outputs(want), outputs(got)); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

// TestQueuedGroupThatIsGivenUpGoesOnWhenSentBack has a model refuse the sound of a
// call, until it takes it.
func TestQueuedGroupThatIsGivenUpGoesOnWhenSentBack(t *testing.T) {
	p := scoredCalls(callParts, refusing{volumeModel{remote: true}}, &lang.Calling{Attempts: 1})
	log := run(t, p, chunk("a", 100, "c1", 1, true), chunk("a", 101, "c1", 0, false))
	open := openLetters(t, log.(deadletter.Log), "support")
	if len(open) != 1 || open[0].Resume != "from score loud in call" || open[0].ID != "contacts/0@0~parts" || open[0].Origin != "contacts/0@1" || open[0].Refusal() != "" {
		t.Fatalf("%+v", open)
	}
	redriveAll(t, log, "support")
	runOn(t, log, scoredCalls(callParts, volumeModel{remote: true}, &lang.Calling{}))
	want := []string{`{"customer":"a","parts_key":"c1","parts_count":2,"parts_complete":true,"parts_missing":0,"parts_ended":"complete","all":"c1-0+c1-1","parts_sound":"AAEAAQ==",` +
		`"said":"c1","loud_volume":6,"meta_id":"contacts/0@0~parts","meta_time":"1970-01-01T00:01:41.000000Z"}`}
	if d := cmp.Diff(want, values(t, log, "calls")); d != "" {
		t.Error(d)
	}
	for e, err := range stateOf(t, log, "support", stream.Partition{Topic: "contacts"}).Scan([]byte{statekey.Member}) {
		t.Errorf("what is through is kept: %q, %v", e.Key, err)
	}
}

// refusing is a model that finds fault with each row.
type refusing struct{ volumeModel }

func (refusing) Predict(context.Context, model.Rows, []float32) error { return blamed(model.BlameRows) }

func stateOf(t *testing.T, log stream.Log, group string, p stream.Partition) stream.View {
	t.Helper()
	view, err := log.(stream.Inspector).State(t.Context(), group, p)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// TestGroupsOfMergedInputsAreMadeOfAllOfThem has a call whose chunks come in two
// topics, and one that is sent back.
func TestGroupsOfMergedInputsAreMadeOfAllOfThem(t *testing.T) {
	p := callPipeline(callParts)
	other := p.Input
	other.Topic = "more"
	p.Input, p.Inputs = lang.Input{}, []lang.Input{p.Input, other}
	from := func(r stream.Record, topic string) stream.Record {
		r.Partition.Topic = topic
		return r
	}
	log := memory.New(memory.Options{})
	defer closeLog(t, log)
	runAll(t, log, p, []stream.Record{
		chunk("a", 100, "c1", 0, false), from(chunk("a", 100, "c1", 1, true), "more"),
		from(chunk("b", 100, "c2", 0, false), "more"), from(chunk("b", 500, "", 0, false), "more"), chunk("b", 500, "", 0, false),
	})
	redriveAll(t, log, "support")
	runAll(t, log, p, nil)
	var calls []string
	for _, value := range valuesOf(t, log, "calls") {
		value, _, _ = strings.Cut(value, `,"parts_missing`)
		calls = append(calls, value)
	}
	slices.Sort(calls)
	if d := cmp.Diff([]string{`{"customer":"a","parts_key":"c1","parts_count":2,"parts_complete":true`, `{"customer":"b","parts_key":"c2","parts_count":1,"parts_complete":false`}, calls); d != "" {
		t.Error(d)
	}
}

func TestOpenGroupsOfAnotherFileAreRefused(t *testing.T) {
	log := run(t, callPipeline(callParts), chunk("a", 100, "c1", 0, false))
	renamed := callParts
	renamed.Name = "pieces"
	p := callPipeline(renamed)
	p.Steps[1].(*steps.Route).Cases[1].Steps = []lang.Step{p.Steps[1].(*steps.Route).Cases[1].Steps[1], &steps.Emit{Topic: "calls", Names: []string{"pieces.key"}}}
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Run(t.Context(), log); err == nil || !strings.Contains(err.Error(), `groups of "parts" are open in contacts/0, but the pipeline has no such step: run the earlier file until they have ended`) {
		t.Fatal(err)
	}
}

// TestHowToGroupLeadsToWhatItSays runs the pipeline and events of docs/howto/group.md.
func TestHowToGroupLeadsToWhatItSays(t *testing.T) {
	page, err := os.ReadFile("docs/howto/group.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, rest, _ := strings.Cut(file, "```")
	parsed, err := config.Parse("group.md", []byte(file), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	p := parsed.Pipelines[0]
	p.Input.Partitions = 1
	var events []stream.Record
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| (.*) \\|$").FindAllStringSubmatch(rest, -1) {
		if !strings.HasPrefix(row[1], "{") {
			continue
		}
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "contacts"}, Time: time.Unix(3, 0), Key: []byte("ann"), Value: []byte(row[1])})
		if strings.HasPrefix(row[2], "`") {
			want = append(want, strings.Trim(row[2], "`"))
		}
	}
	log := run(t, p, events...)
	if d := cmp.Diff(want, append(values(t, log, "chats"), values(t, log, "calls")...)); d != "" || len(want) != 2 {
		t.Error(d, want)
	}
}
