package e2e_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/event/header"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// chainEvents is how many events a chain is tried with of so many: there are three
// pipelines to one, and the reference looks at everything at every event.
func chainEvents(of int) int { return max(of/30, 2000) }

// readAll reads all partitions of a topic.
func readAll(t *testing.T, log stream.Log, topic string) [][]stream.Record {
	t.Helper()
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(topics, func(o stream.Topic) bool { return o.Name == topic })
	if i < 0 {
		t.Fatalf("there is no topic %s", topic)
	}
	all := make([][]stream.Record, topics[i].Partitions)
	for p := range all {
		all[p] = readPartition(t, log, stream.Partition{Topic: topic, Index: int32(p)})
	}
	return all
}

// readProcessed reads what a group has committed of a topic: that a source is
// idle may be written to it until the end.
func readProcessed(t *testing.T, log stream.Log, group, topic string) [][]stream.Record {
	t.Helper()
	all := readAll(t, log, topic)
	for p := range all {
		n, err := log.(stream.Inspector).Committed(t.Context(), group, stream.Partition{Topic: topic, Index: int32(p)})
		if err != nil {
			t.Fatal(err)
		}
		all[p] = slices.DeleteFunc(all[p], func(r stream.Record) bool { return r.Offset >= n })
	}
	return all
}

// messages are records as the reference takes them.
func messages(records []stream.Record) []reference.Message {
	out := make([]reference.Message, len(records))
	for i, r := range records {
		out[i] = reference.Message{
			Topic: r.Partition.Topic, Partition: int(r.Partition.Index), Offset: int64(r.Offset), Time: r.Time.UnixMicro(), Key: r.Key, Value: r.Value,
		}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, reference.Header{Key: h.Key, Value: string(h.Value)})
		}
	}
	return out
}

// from is the partition that a record's event was read from: the order of one
// that is written with another key is promised for each of them alone.
func from(r *stream.Record) string {
	at := header.Get(r, "afterbay-position")
	if place := header.Get(r, "afterbay-repartition"); place != "" {
		at = "activity.repartition/" + place
	}
	if at == "" {
		at, _, _ = strings.Cut(header.Get(r, "afterbay-source"), "@")
	}
	at, _, _ = strings.Cut(at, "@")
	return at
}

// readChain reads what a pipeline left: its outputs, by the partition they are
// in and the one they are from, and the state of its groups.
func readChain(t *testing.T, runner *running.Runner, log stream.Log) *answer {
	t.Helper()
	a := &answer{outputs: map[string][]stream.Record{}}
	topics := runner.Outputs()
	reads := runner.Reads()
	if len(reads) > 1 {
		topics = append(topics, reads[len(reads)-1].Topic)
	}
	for _, topic := range topics {
		for p, records := range readAll(t, log, topic) {
			for i := range records {
				if isMark(records[i]) {
					continue
				}
				bucket := fmt.Sprintf("%s/%d from %s", topic, p, from(&records[i]))
				a.outputs[bucket] = append(a.outputs[bucket], records[i])
			}
		}
	}
	for _, read := range reads {
		for p := range readAll(t, log, read.Topic) {
			view, err := log.(stream.Inspector).State(t.Context(), read.Group, stream.Partition{Topic: read.Topic, Index: int32(p)})
			if err != nil {
				t.Fatal(err)
			}
			for entry, err := range view.Scan(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if entry.Key[0] == statekey.Released || entry.Key[0] == statekey.Source {
					continue // how far the sources are, of which the marks decide
				}
				a.state = append(a.state, fmt.Sprintf("%s/%d %q %x", read.Group, p, entry.Key, entry.Value))
			}
		}
	}
	return a
}

// chainDifference is difference, also of what only a has.
func (a *answer) chainDifference(want *answer) string {
	for bucket := range a.outputs {
		if _, ok := want.outputs[bucket]; !ok {
			return "nothing is wanted of " + bucket
		}
	}
	return a.difference(want)
}

// madeDifference compares what a pipeline wrote of its inputs' partitions, and
// what its functions keep, with what the reference made of them.
func (a *answer) madeDifference(pipeline string, made map[string]reference.Made) string {
	want := wanted(made)
	for bucket := range a.outputs {
		if _, ok := want[bucket]; !ok {
			return "nothing is wanted of " + bucket
		}
	}
	for _, bucket := range slices.Sorted(maps.Keys(want)) {
		if d := recordsDifference(a.outputs[bucket], want[bucket]); d != "" {
			return bucket + d
		}
	}
	return a.functionsDifference(pipeline, made)
}

// wanted is what the reference made, as readChain orders it.
func wanted(made map[string]reference.Made) map[string][]string {
	want := map[string][]string{}
	for source, m := range made {
		for _, o := range m.Outputs {
			bucket := fmt.Sprintf("%s/%d from %s", o.Topic, o.Partition, source)
			want[bucket] = append(want[bucket], o.String())
		}
	}
	return want
}

func recordsDifference(records []stream.Record, want []string) string {
	got := messages(records)
	for i := range min(len(got), len(want)) {
		if g := got[i].String(); g != want[i] {
			return fmt.Sprintf(", record %d:\n got %s\nwant %s", i, g, want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf(" has %d records, want %d", len(got), len(want))
	}
	return ""
}

// isMark reports a mark, of which the steps and the clock decide when it is written.
func isMark(r stream.Record) bool { return header.Get(&r, "afterbay-frontier") != "" }

// functionsDifference compares what the functions of a pipeline keep.
func (a *answer) functionsDifference(pipeline string, made map[string]reference.Made) string {
	var want, got []string
	for source, m := range made {
		index := source[strings.LastIndexByte(source, '/')+1:]
		for _, f := range m.Functions {
			k := &operator.State{Values: map[string][]byte{}}
			for name, v := range f.Values {
				k.Values[name] = []byte(v)
			}
			for name, timer := range f.Timers {
				t := operator.Timer{Name: name, At: timer.At, After: timer.After}
				if _, err := hex.Decode(t.SetBy[:], []byte(timer.SetBy)); err != nil {
					panic(err)
				}
				k.Timers = append(k.Timers, t)
			}
			slices.SortFunc(k.Timers, operator.Timer.Compare)
			key := fmt.Sprintf("c%c%s%s", len(f.Key), f.Key, f.Function)
			want = append(want, fmt.Sprintf("%s/%s %q %x", pipeline, index, key, k.Append(nil)))
		}
	}
	for _, entry := range a.state {
		if at, ok := strings.CutPrefix(entry, pipeline+"/"); ok && strings.HasPrefix(at[strings.IndexByte(at, ' '):], ` "c`) {
			got = append(got, entry)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("a function keeps\n got %s\nwant %s", got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("functions of %s keep something of %d keys, want %d", pipeline, len(got), len(want))
	}
	return ""
}

func place(partitions int32) func(key []byte) int {
	return func(key []byte) int { return int(stream.Place(key, partitions)) }
}

// chainMade is what the reference makes of the topics as they lie in a log.
func chainMade(t *testing.T, log stream.Log, pipeline string) map[string]reference.Made {
	t.Helper()
	made := map[string]reference.Made{}
	each := func(group, topic string, do func(in []reference.Message) reference.Made) {
		for p, records := range readProcessed(t, log, group, topic) {
			made[fmt.Sprintf("%s/%d", topic, p)] = do(messages(records))
		}
	}
	switch pipeline {
	case "terminals":
		each("terminals", "transactions", func(in []reference.Message) reference.Made { return reference.Terminals(in, place(4)) })
	case "fraud":
		each("fraud", "by-customer", func(in []reference.Message) reference.Made {
			m, err := reference.Fraud(in, place(4))
			if err != nil {
				t.Fatal(err)
			}
			return m
		})
	case "activity":
		for _, topic := range []string{"transactions", "logins"} {
			each("activity.repartition."+topic, topic, func(in []reference.Message) reference.Made { return reference.Copy(topic, in, place(5)) })
		}
		each("activity", "activity.repartition", func(in []reference.Message) reference.Made {
			return reference.Activity(in, map[string]int{"transactions": 4, "logins": 6}, place(5))
		})
	}
	return made
}

// mustBeChain compares everything that the whole chain left in a log with the
// reference, and returns it by pipeline.
func mustBeChain(t *testing.T, runners chainRunners, log stream.Log) map[string]*answer {
	t.Helper()
	answers := map[string]*answer{}
	for _, name := range wholeChain {
		answers[name] = readChain(t, runners[name], log)
		if d := answers[name].madeDifference(name, chainMade(t, log, name)); d != "" {
			t.Fatalf("seed %d: %s", *answerSeed, d)
		}
	}
	return answers
}

// chainRun is the chain about to run over a log.
type chainRun struct {
	chainRunners
	log stream.Log
}

func newChainRun(t *testing.T, v variant) chainRun {
	t.Helper()
	runners, err := newChain(t.TempDir(), v, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := openLog(t, v.engine, t.TempDir())
	t.Cleanup(func() { closeLog(t, log) })
	if err := runners.createTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	return chainRun{runners, log}
}

// stored is the log between the pipelines of a chain: its order is decided when
// it is written, and what is made of it is decided by it.
type stored [][]stream.Record

func readStored(t *testing.T, log stream.Log) stored {
	t.Helper()
	return append(readProcessed(t, log, "fraud", "by-customer"), readProcessed(t, log, "activity", "activity.repartition")...)
}

// replay runs the pipelines behind the stored log over it.
func (c chainRun) replay(ctx context.Context, between stored) error {
	for _, records := range between {
		for chunk := range slices.Chunk(records, 2000) {
			if err := c.log.Append(ctx, slices.Clone(chunk)...); err != nil {
				return err
			}
		}
	}
	return c.run(ctx, c.log, []string{"fraud", "activity"}, nothing)
}

// replayed reads what a replay left. Where it took so long that the sources of
// activity, which have no events then, were announced idle, its log is longer,
// and what activity made of it is left out.
func (c chainRun) replayed(t *testing.T, between stored) map[string]*answer {
	t.Helper()
	answers := map[string]*answer{"fraud": readChain(t, c.chainRunners["fraud"], c.log)}
	if len(slices.Concat(readStored(t, c.log)...)) > len(slices.Concat(between...)) {
		t.Log("too slow to compare what activity made: its sources were announced idle")
	} else {
		answers["activity"] = behind(readChain(t, c.chainRunners["activity"], c.log))
	}
	return answers
}

// mustReplay replays what is between the pipelines of a log, and compares what
// comes of it with what stands there.
func mustReplay(t *testing.T, between stored, whole map[string]*answer) {
	t.Helper()
	again := newChainRun(t, variant{"memory", 64, 1, time.Millisecond})
	if err := again.replay(t.Context(), between); err != nil {
		t.Fatal(err)
	}
	for name, got := range again.replayed(t, between) {
		want := whole[name]
		if name == "activity" {
			want = behind(want)
		}
		if d := got.chainDifference(want); d != "" {
			t.Fatalf("seed %d: a replay of %s differs from the run: %s", *answerSeed, name, d)
		}
	}
}

// feedSlowly appends events so that the pipelines come along, as they do with
// live ones: then little is late.
func (c chainRun) feedSlowly(events []reference.Message) func(context.Context) error {
	return func(ctx context.Context) error {
		for chunk := range slices.Chunk(events, 50) {
			if err := appendMessages(ctx, c.log, chunk); err != nil {
				return err
			}
			if err := c.chainRunners["terminals"].WaitIdle(ctx, c.log); err != nil {
				return err
			}
		}
		return nil
	}
}

// firstOf runs the chain once, compares it with the reference, and returns what
// all other runs have to leave, and the log between its pipelines.
func firstOf(t *testing.T, events []reference.Message) (want map[string]*answer, between stored) {
	t.Helper()
	first := newChainRun(t, variant{"memory", 64, 1, time.Millisecond})
	if err := first.run(t.Context(), first.log, wholeChain, first.feedSlowly(events)); err != nil {
		t.Fatal(err)
	}
	whole := mustBeChain(t, first.chainRunners, first.log)
	mustBeWild(t, first, len(events))
	between = readStored(t, first.log)
	mustReplay(t, between, whole)
	return map[string]*answer{
		"terminals": whole["terminals"], "fraud": whole["fraud"], "activity": behind(whole["activity"]), "copies": copies(whole["activity"]),
	}, between
}

// copies is the part of what activity left that its inputs alone decide, and
// behind the part that activity.repartition does.
func copies(a *answer) *answer { return a.part(true) }
func behind(a *answer) *answer { return a.part(false) }

func (a *answer) part(copied bool) *answer {
	b := &answer{outputs: map[string][]stream.Record{}}
	for bucket, records := range a.outputs {
		made := strings.HasSuffix(bucket[:strings.LastIndexByte(bucket, '/')], " from activity.repartition")
		if copied && !made {
			b.outputs[bucket] = records
		} else if !copied && made {
			b.outputs[bucket] = records
		}
	}
	for _, entry := range a.state {
		if strings.HasPrefix(entry, "activity.repartition.") == copied {
			b.state = append(b.state, entry)
		}
	}
	return b
}

func TestChainSameLogSameAnswer(t *testing.T) {
	events := reference.GenerateChain(*answerSeed, chainEvents(*answerEvents))
	want, between := firstOf(t, events)
	for _, v := range variants("memory", "embedded", "kafka", "kafka broker") {
		t.Run(v.String(), func(t *testing.T) {
			if v.engine == "kafka broker" {
				chainOnBroker(t, v, events, between, want)
				return
			}
			t.Parallel()
			chainVariant(t, v, events, between, want)
		})
	}
}

// chainVariant runs the whole chain over the events, and what is behind the
// stored log over that.
func chainVariant(t *testing.T, v variant, events []reference.Message, between stored, want map[string]*answer) {
	t.Helper()
	whole, again := newChainRun(t, v), newChainRun(t, v)
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		return whole.run(ctx, whole.log, wholeChain, func(ctx context.Context) error { return appendMessages(ctx, whole.log, events) })
	})
	group.Go(func() error { return again.replay(ctx, between) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	got := again.replayed(t, between)
	answers := mustBeChain(t, whole.chainRunners, whole.log)
	got["terminals"], got["copies"] = answers["terminals"], copies(answers["activity"])
	for name := range got {
		if d := got[name].chainDifference(want[name]); d != "" {
			t.Fatalf("seed %d: %s: %s", *answerSeed, name, d)
		}
	}
}

// mustBeWild sees that the events have everything that a chain may trip over.
func mustBeWild(t *testing.T, c chainRun, events int) {
	t.Helper()
	counts := map[string]int{}
	for _, name := range wholeChain {
		for source, m := range chainMade(t, c.log, name) {
			pipeline := name
			if name == "activity" && !strings.HasPrefix(source, "activity.repartition") {
				pipeline = "copies"
			}
			for what, n := range map[string]int{"late": m.Late, "dropped": m.Dropped, "repeated": m.Repeated, "fired": m.Fired, "kept": len(m.Functions)} {
				counts[pipeline+" "+what] += n
			}
			for _, o := range m.Outputs {
				if strings.HasSuffix(o.Topic, ".dlq") {
					counts[pipeline+" dead "+deadStage(o)]++
					continue
				}
				counts[o.Topic]++
			}
		}
	}
	t.Logf("seed %d: %d events: %v", *answerSeed, events, counts)
	for _, what := range []string{
		"terminals dead late", "terminals repeated", "terminals dead decode", "terminals dead key", "terminals dead time", "terminals dead call",
		"copies repeated", "copies dead decode", "copies dead time", "by-customer", "busy-terminals",
		"fraud late", "fraud dropped", "fraud fired", "fraud kept", "fraud dead route", "fraud dead call", "fraud dead timer", "fraud dead features",
		"too-late", "refunds", "sessions", "milestones", "decisions", "freezes", "by-terminal",
		"activity late", "activity dropped", "activity fired", "activity kept", "activity dead call", "activity dead timer",
		"activity-late", "activity-sessions", "activity-milestones", "activities", "by-device",
	} {
		if counts[what] == 0 {
			t.Errorf("seed %d: the events are too tame: no %s", *answerSeed, what)
		}
	}
}

func deadStage(m reference.Message) string {
	for _, h := range m.Headers {
		if h.Key == "afterbay-stage" {
			return h.Value
		}
	}
	return ""
}

func TestChainSeesOneFlippedByte(t *testing.T) {
	events := reference.GenerateChain(*answerSeed, 2000)
	c := newChainRun(t, variant{"memory", 64, 2, time.Millisecond})
	if err := c.run(t.Context(), c.log, wholeChain, c.feedSlowly(events)); err != nil {
		t.Fatal(err)
	}
	for pipeline, a := range mustBeChain(t, c.chainRunners, c.log) {
		made := chainMade(t, c.log, pipeline)
		want := wanted(made)
		for bucket, records := range a.outputs {
			mustSeeChanges(t, bucket, records, want[bucket])
		}
		i := slices.IndexFunc(a.state, func(entry string) bool { return strings.Contains(entry, ` "c`) })
		if i < 0 {
			continue // terminals keeps nothing by function
		}
		a.state[i] = a.state[i][:len(a.state[i])-1] + "x"
		if a.madeDifference(pipeline, made) == "" {
			t.Errorf("%s: a change of what a function keeps goes unseen", pipeline)
		}
	}
}

func mustSeeChanges(t *testing.T, bucket string, records []stream.Record, want []string) {
	t.Helper()
	if d := recordsDifference(records, want); d != "" {
		t.Fatal(d)
	}
	i := len(records) / 2
	r := records[i]
	value, key, late, from := r, r, r, r
	value.Value, key.Key, late.Time = flipped(r.Value), flipped(r.Key), r.Time.Add(time.Microsecond)
	from.Headers = slices.Clone(r.Headers)
	from.Headers[0].Value = flipped(r.Headers[0].Value)
	for what, in := range map[string][]stream.Record{"value": {value}, "key": {key}, "time": {late}, "header": {from}, "loss": nil, "repetition": {r, r}} {
		if recordsDifference(slices.Concat(records[:i], in, records[i+1:]), want) == "" {
			t.Errorf("%s: a changed %s goes unseen", bucket, what)
		}
	}
}

// flipped is data with one bit of its last byte flipped.
func flipped(data []byte) []byte {
	if len(data) == 0 {
		return []byte{1}
	}
	data = slices.Clone(data)
	data[len(data)-1] ^= 1
	return data
}
