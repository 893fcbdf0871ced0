package e2e_test

import (
	"bytes"
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

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// lookupPipeline finds the row of its own key, and that of another one.
func lookupPipeline() lang.Pipeline {
	return lang.Pipeline{
		Name: "posts",
		Input: lang.Input{
			Topic: "written", Key: "user", Partitions: answerPartitions,
			Fields: []lang.Field{{Name: "user", Type: "string"}, {Name: "shop", Type: "int"}, {Name: "n", Type: "int"}},
		},
		Steps: []lang.Step{
			&steps.Lookup{
				Name: "profile", Table: "users", Key: "user",
				Fields: []lang.Field{{Name: "trusted", Type: "bool"}, {Name: "level", Type: "int"}},
				Empty:  []lang.Binding{{Name: "trusted", Expr: "false"}},
			},
			&steps.Lookup{
				Name: "at", Table: "shops", Key: "shop", When: "n != 3",
				Fields: []lang.Field{{Name: "version", Type: "int"}},
			},
			&steps.Emit{Topic: "seen", Names: []string{"user", "shop", "n", "profile.*", "at.version"}},
		},
	}
}

// row is a record of a table; one without a value deletes.
func row(table, key, value string) stream.Record {
	r := stream.Record{Partition: stream.Partition{Topic: table, Index: stream.ByKey}, Key: []byte(key)}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

func post(user string, shop, n int) stream.Record {
	return row("written", user, fmt.Sprintf(`{"user":%q,"shop":%d,"n":%d}`, user, shop, n))
}

func newRunner(t *testing.T, p lang.Pipeline, o pipeline.Options) *pipeline.Runner {
	t.Helper()
	r, err := builtin.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// valuesOf returns the values of a topic's records, by partition.
func valuesOf(t *testing.T, log stream.Log, topic string) []string {
	t.Helper()
	var values []string
	for i := range int32(answerPartitions) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: topic, Index: i}) {
			values = append(values, string(r.Value))
		}
	}
	return values
}

func TestLookupFindsTheNewestRowOfTheKey(t *testing.T) {
	for _, engine := range []string{"memory", "embedded", "kafka"} {
		t.Run(engine, func(t *testing.T) {
			log := openLog(t, engine, t.TempDir())
			defer closeLog(t, log)
			runner := newRunner(t, lookupPipeline(), pipeline.Options{Members: 2})
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			run := func(records ...stream.Record) []string {
				t.Helper()
				for _, r := range records { // one by one: an append of several topics is no moment on Kafka
					if err := log.Append(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
				runUntilIdle(t, newRunner(t, lookupPipeline(), pipeline.Options{Members: 2}), log)
				return valuesOf(t, log, "seen")
			}
			got := run(
				row("users", "ann", `{"trusted":false}`), row("users", "ann", `{"level":3,"trusted":true,"more":[1]}`),
				row("users", "bob", `{"trusted":true,"level":1}`), row("users", "bob", ""),
				row("shops", "7", `{"version":1}`), row("shops", "8", `{}`),
				post("ann", 7, 1), post("bob", 7, 2), post("ann", 7, 3), post("eve", 8, 4))
			got = append(got, run(row("shops", "7", `{"version":2}`), row("users", "ann", ""), post("ann", 7, 5), post("bob", 9, 6))...)
			slices.Sort(got)
			want := []string{
				`{"user":"ann","shop":7,"n":1,"profile_trusted":true,"profile_level":3,"at_version":1}`,
				`{"user":"ann","shop":7,"n":3,"profile_trusted":true,"profile_level":3,"at_version":null}`,
				`{"user":"bob","shop":7,"n":2,"profile_trusted":false,"profile_level":null,"at_version":1}`,
				`{"user":"eve","shop":8,"n":4,"profile_trusted":false,"profile_level":null,"at_version":null}`,
			}
			want = append(want, slices.Clone(want)...)
			want = append(want,
				`{"user":"ann","shop":7,"n":5,"profile_trusted":false,"profile_level":null,"at_version":2}`,
				`{"user":"bob","shop":9,"n":6,"profile_trusted":false,"profile_level":null,"at_version":null}`)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestSameRowsSameAnswer runs over rows that are all there before the events.
func TestSameRowsSameAnswer(t *testing.T) {
	rng := rand.New(rand.NewPCG(*answerSeed, 1))
	var records []stream.Record
	for i := range 3000 {
		records = append(records,
			row("users", fmt.Sprint("u", rng.IntN(500)), fmt.Sprintf(`{"trusted":%t,"level":%d}`, rng.IntN(2) == 0, i)),
			row("shops", fmt.Sprint(rng.IntN(50)), fmt.Sprintf(`{"version":%d}`, i)))
	}
	for i := range 3000 {
		records = append(records, post(fmt.Sprint("u", rng.IntN(600)), rng.IntN(60), i))
	}
	var first *answer
	for _, v := range []variant{
		{"memory", 1, 1, time.Millisecond}, {"memory", 64, 4, time.Millisecond}, {"embedded", 7, 4, time.Millisecond},
		{"embedded", 1000, 1, 100 * time.Millisecond}, {"kafka", 1000, 2, time.Millisecond},
	} {
		t.Run(v.String(), func(t *testing.T) {
			p := lookupPipeline()
			p.Commit = lang.Commit{Interval: v.interval, Size: v.batch}
			log := openLog(t, v.engine, t.TempDir())
			defer closeLog(t, log)
			runner := newRunner(t, p, pipeline.Options{Members: v.members})
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			for chunk := range slices.Chunk(slices.Clone(records), 1000) {
				for i := range chunk {
					chunk[i].Time = time.Unix(1_760_000_000, 0)
				}
				if err := log.Append(t.Context(), chunk...); err != nil {
					t.Fatal(err)
				}
			}
			runUntilIdle(t, runner, log)
			got := readAnswer(t, runner, log)
			if first == nil {
				first = got
			}
			got.mustEqual(t, first)
		})
	}
	if len(first.state) < 500 {
		t.Errorf("%d entries of state", len(first.state))
	}
}

// TestEventSeesEveryRowAppendedBeforeIt appends rows of rising versions between
// events, while members lose commits, partitions and time. An event says which
// versions were there before it; it sees those or newer ones, and no later event
// of the partition sees older ones.
func TestEventSeesEveryRowAppendedBeforeIt(t *testing.T) {
	counts := streamtest.Counts{}
	newer := 0
	for seed := range seedsOf(*faultSeeds / 2) {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
			faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
			p := versionsPipeline()
			runner := newRunner(t, p, pipeline.Options{Members: 3})
			if err := runner.CreateTopics(t.Context(), inner); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx, inspected{faulty, inner}) }()
			err := errors.Join(appendVersions(ctx, inner, seed), runner.WaitIdle(ctx, inner))
			stop()
			if err = errors.Join(err, <-ended); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			newer += checkVersions(t, seed, inner)
			counts.Add(faulty.Counts())
			if err := faulty.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%v; %d events saw rows that came after them", counts, newer)
}

const versionEvents = 400

func versionsPipeline() lang.Pipeline {
	p := lookupPipeline()
	p.Commit.Size = 20
	p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "level", Type: "int"}, lang.Field{Name: "version", Type: "int"})
	p.Steps[1].(*steps.Lookup).When = ""
	p.Steps[2].(*steps.Emit).Names = []string{"event.*", "profile.level", "at.version"}
	return p
}

// appendVersions appends rows and events, with the newest version of each key.
func appendVersions(ctx context.Context, log stream.Log, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	levels, versions := [10]int{}, [5]int{}
	for i := range versionEvents {
		user, shop := rng.IntN(len(levels)), rng.IntN(len(versions))
		records := []stream.Record{row("written", fmt.Sprint("u", user),
			fmt.Sprintf(`{"user":"u%d","shop":%d,"n":%d,"level":%d,"version":%d}`, user, shop, i, levels[user], versions[shop]))}
		if levels[user] == 0 || rng.IntN(3) == 0 {
			levels[user] = i + 1
			records[0] = row("users", fmt.Sprint("u", user), fmt.Sprintf(`{"trusted":true,"level":%d}`, i+1))
		} else if versions[shop] == 0 || rng.IntN(3) == 0 {
			versions[shop] = i + 1
			records[0] = row("shops", fmt.Sprint(shop), fmt.Sprintf(`{"version":%d}`, i+1))
		}
		if err := log.Append(ctx, records...); err != nil {
			return err
		}
		if rng.IntN(10) == 0 {
			time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond) // virtual
		}
	}
	return nil
}

// checkVersions returns how many events saw rows that were appended after them.
func checkVersions(t *testing.T, seed uint64, log stream.Log) (newer int) {
	t.Helper()
	events := 0
	for i := range int32(answerPartitions) {
		seen := map[string]int{}
		for _, r := range readPartition(t, log, stream.Partition{Topic: "seen", Index: i}) {
			var e struct {
				User                 string
				Shop, Level, Version int
				ProfileLevel         int `json:"profile_level"`
				AtVersion            int `json:"at_version"`
			}
			if err := json.Unmarshal(r.Value, &e); err != nil {
				t.Fatal(err)
			}
			events++
			if e.ProfileLevel < e.Level || e.AtVersion < e.Version {
				t.Fatalf("seed %d: event %s does not see rows that were there before it", seed, r.Value)
			}
			if e.ProfileLevel > e.Level || e.AtVersion > e.Version {
				newer++
			}
			for key, version := range map[string]int{e.User: e.ProfileLevel, fmt.Sprint(e.Shop): e.AtVersion} {
				if version < seen[key] {
					t.Fatalf("seed %d: event %s sees an older row of %s than %d", seed, r.Value, key, seen[key])
				}
				seen[key] = version
			}
		}
	}
	if events < versionEvents/10 {
		t.Fatalf("seed %d: %d events", seed, events)
	}
	return newer
}

func TestLookupThatFailsIsADeadLetter(t *testing.T) {
	log := memory.New(memory.Options{})
	elsewhere := post("ann", 1, 4)
	elsewhere.Partition.Index = (stream.Place([]byte("ann"), answerPartitions) + 1) % answerPartitions
	answer, err := answers.RunAll(t.Context(), log, newRunner(t, lookupPipeline(), pipeline.Options{}), []stream.Record{
		row("users", "ann", `{"trusted":1,"level":2}`), row("users", "bob", `{"level":2}`), row("users", "eve", `[1]`), row("users", "joe", `{"trusted":true}`),
		post("ann", 1, 1), post("bob", 1, 2), post("eve", 1, 3), post("joe", 1, 5), elsewhere,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range int32(answerPartitions) {
		for _, r := range answer[stream.Partition{Topic: "posts.dlq", Index: i}] {
			got = append(got, header.Get(&r, header.Stage)+": "+header.Get(&r, header.Error))
		}
	}
	slices.Sort(got)
	want := []string{
		`lookup: key "ann" is in partition `, `lookup: row "ann" of table users: field "trusted" at byte `,
		`lookup: row "bob" of table users: field "trusted" at byte `, `lookup: row "eve" of table users: byte 0: `,
	}
	if len(got) != len(want) {
		t.Fatalf("dead letters: %s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("dead letter %q, want %q", got[i], want[i])
		}
	}
	if seen := answer.Values("seen"); len(seen) != 1 || !strings.Contains(seen[0], `"joe"`) {
		t.Errorf("seen: %s", seen)
	}
}

// TestRowsTakeManySteps reads a table that is larger than a step. Another process
// goes on with it.
func TestRowsTakeManySteps(t *testing.T) {
	dir := t.TempDir()
	log, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runner := newRunner(t, lookupPipeline(), pipeline.Options{})
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	filler := bytes.Repeat([]byte("x"), 1000)
	const rows = 4000
	var records []stream.Record
	for i := range rows {
		records = append(records, row("shops", fmt.Sprint(i), fmt.Sprintf(`{"version":%d,"more":"%s"}`, i, filler)))
	}
	for i := range rows {
		records = append(records, post("ann", i, i+10))
	}
	for chunk := range slices.Chunk(records, 1000) {
		if err := log.Append(t.Context(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
	runUntilIdle(t, runner, log)
	if steps := runner.Counts().Steps; steps < 3*rows/1000 { // 4 MB beside each partition
		t.Errorf("%d steps", steps)
	}
	closeLog(t, log)
	if log, err = embedded.Open(dir, embedded.Options{}); err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	if err := log.Append(t.Context(), post("ann", 17, rows+10)); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, newRunner(t, lookupPipeline(), pipeline.Options{}), log)
	for i, value := range valuesOf(t, log, "seen") {
		version := i
		if i == rows {
			version = 17
		}
		if want := fmt.Sprintf(`"at_version":%d}`, version); !strings.HasSuffix(value, want) {
			t.Fatalf("event %d: %s, want %s", i, value, want)
		}
	}
}

func TestWrongLookupsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *steps.Lookup)
		want   string
	}{
		"no name":        {func(l *steps.Lookup) { l.Name = "" }, `steps[0].lookup.name: "" is not a name`},
		"no table":       {func(l *steps.Lookup) { l.Table = "" }, `steps[0].lookup.table: missing`},
		"topic":          {func(l *steps.Lookup) { l.Table = "a/b" }, `steps[0].lookup.table: "a/b" is not a topic name`},
		"input":          {func(l *steps.Lookup) { l.Table = "written" }, `steps[0].lookup.table: the pipeline reads "written"`},
		"no key":         {func(l *steps.Lookup) { l.Key = "" }, `steps[0].lookup.key: missing`},
		"unknown key":    {func(l *steps.Lookup) { l.Key = "usr" }, `steps[0].lookup.key: unknown name "usr" (did you mean user?)`},
		"key":            {func(l *steps.Lookup) { l.Key = "meta.time" }, `steps[0].lookup.key: "meta.time" is of type time`},
		"when":           {func(l *steps.Lookup) { l.When = "n" }, `steps[0].lookup.when: the expression is of type int`},
		"no fields":      {func(l *steps.Lookup) { l.Fields, l.Empty = nil, nil }, `steps[0].lookup.fields: missing`},
		"type":           {func(l *steps.Lookup) { l.Fields[0].Type = "flag" }, `steps[0].lookup.fields.trusted: unknown type`},
		"twice":          {func(l *steps.Lookup) { l.Fields[1].Name = "trusted" }, `steps[0].lookup.fields.trusted: two fields are named "trusted"`},
		"type of empty":  {func(l *steps.Lookup) { l.Empty[0].Expr = "1" }, `steps[0].lookup.empty.trusted: the expression is of type int`},
		"empty of none":  {func(l *steps.Lookup) { l.Empty[0].Name = "rank" }, `steps[0].lookup.empty.rank: "rank" is not one of the fields`},
		"field by field": {func(l *steps.Lookup) { l.Fields[0].Name = "a b" }, `steps[0].lookup.fields.a b: "a b" is not a name`},
	} {
		t.Run(name, func(t *testing.T) {
			p := lookupPipeline()
			c.change(p.Steps[0].(*steps.Lookup))
			_, err := builtin.New(p, pipeline.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// delivering is a log whose members take outputs before they are committed, and
// count them.
type delivering struct {
	*memory.Log
	taken *int
}

func (d delivering) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := d.Log.Join(ctx, group, topics...)
	return deliveringMember{s, d.taken}, err
}

type deliveringMember struct {
	stream.Member
	taken *int
}

func (d deliveringMember) Deliver(outputs []stream.Record) { *d.taken = max(*d.taken, len(outputs)) }

// TestOutputsThatMayDifferWaitForTheirCommit hands over before the commit only
// what comes again the same.
func TestOutputsThatMayDifferWaitForTheirCommit(t *testing.T) {
	plain := lookupPipeline()
	plain.Steps = []lang.Step{&steps.Emit{Topic: "seen", Names: []string{"user"}}}
	asking := queueingPipeline(&service{}, steps.Score{}, lang.Calling{})
	asking.Models[0].Call = nil
	for name, c := range map[string]struct {
		pipeline lang.Pipeline
		events   []stream.Record
		want     bool
	}{
		"plain":        {plain, []stream.Record{post("ann", 7, 1)}, true},
		"lookup":       {lookupPipeline(), []stream.Record{row("users", "ann", `{"level":3}`), post("ann", 7, 1)}, false},
		"remote model": {asking, queueEvents(10, 3), false},
		"queued":       {queueingPipeline(&service{}, steps.Score{Async: true}, lang.Calling{}), queueEvents(10, 3), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			taken := 0
			log := delivering{memory.New(memory.Options{}), &taken}
			runQueueing(t, log, c.pipeline, 1, c.events)
			if (taken > 0) != c.want {
				t.Errorf("%s: %d outputs were handed over before their commit", name, taken)
			}
		})
	}
}
