package sequence_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	seed  = flag.Uint64("sequence.seed", 1, "first seed of the random tests")
	seeds = flag.Uint64("sequence.seeds", 30, "how many")
)

const name = "chat"

// log is what the engines have.
type log interface {
	stream.Log
	stream.Inspector
}

// bench is a log with a sequencer's topics and those of a pipeline.
type bench struct {
	*testing.T
	log     log
	options sequence.Options
	metrics *sequence.Metrics
}

var small = sequence.Limits{
	Window: 10 * time.Minute, IDs: 20, Held: 3, HeldBytes: 120, HeldFor: time.Minute, Ahead: time.Hour, EventBytes: 60,
}

func newBench(t *testing.T, l log, limits sequence.Limits) *bench {
	b := &bench{T: t, log: l, metrics: new(sequence.Metrics)}
	b.options = sequence.Options{
		Name: name, Partitions: 2, Input: "events", Limits: limits, Metrics: b.metrics,
		Sources: []sequence.Source{
			{Topic: "decisions", Kind: sequence.Outputs}, {Topic: "moderation.ended", Kind: sequence.Outputs}, {Topic: "tokens", Kind: sequence.Partials},
			{Topic: "moderation.dlq", Kind: sequence.Letters}, {Topic: "late.moderation", Kind: sequence.Late},
		},
	}
	b.ok(moderation(t).CreateTopics(b.ctx(), l))
	for _, topic := range []string{"tokens", "late.moderation"} {
		b.ok(l.CreateTopic(b.ctx(), stream.Topic{Name: topic, Partitions: 2}))
	}
	b.ok(b.sequencer(l).MakeTopics(b.ctx()))
	return b
}

func (b *bench) ctx() context.Context { return context.WithoutCancel(b.Context()) }

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) sequencer(l stream.Log) *sequence.Sequencer {
	s, err := sequence.New(l, b.options)
	b.ok(err)
	return s
}

// start runs a sequencer until stop.
func (b *bench) start(l stream.Log) (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx())
	ended := make(chan error)
	s := b.sequencer(l)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		b.ok(<-ended)
	}
}

// read returns what a topic has, partition by partition.
func (b *bench) read(topic string) (partitions [][]stream.Record) {
	topics, err := b.log.Topics(b.ctx())
	b.ok(err)
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
	for index := range topics[i].Partitions {
		p := stream.Partition{Topic: topic, Index: index}
		var list []stream.Record
		for at := stream.Offset(0); ; {
			r, found, err := b.log.Peek(b.ctx(), p, at)
			if b.ok(err); !found {
				break
			}
			list, at = append(list, r), r.Offset+1
		}
		partitions = append(partitions, list)
	}
	return partitions
}

// sequenced waits until all of the inbox and the sources is read.
func (b *bench) sequenced() {
	b.Helper()
	groups := map[string][]string{sequence.Group(name): {sequence.Inbox(name)}, sequence.CopyGroup(name): nil}
	for _, s := range b.options.Sources {
		groups[sequence.CopyGroup(name)] = append(groups[sequence.CopyGroup(name)], s.Topic)
	}
	deadline := time.Now().Add(5 * time.Minute)
	for !b.caughtUp(groups) {
		if time.Now().After(deadline) {
			b.Fatal("the sequencer did not come to the end of its topics")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *bench) caughtUp(groups map[string][]string) bool {
	for group, topics := range groups {
		for _, topic := range topics {
			for i, list := range b.read(topic) {
				committed, err := b.log.Committed(b.ctx(), group, stream.Partition{Topic: topic, Index: int32(i)})
				if b.ok(err); len(list) > 0 && committed <= list[len(list)-1].Offset {
					return false
				}
			}
		}
	}
	return true
}

// results returns what clients get, by partition.
func (b *bench) results() (partitions [][]wire.Result) {
	for _, list := range b.read(sequence.Results(name)) {
		var results []wire.Result
		for i := range list {
			result, err := wire.ParseResult(&list[i])
			b.ok(err)
			results = append(results, result)
		}
		partitions = append(partitions, results)
	}
	return partitions
}

// state returns all that is kept.
func (b *bench) state() map[string]string {
	all := map[string]string{}
	for i := range b.options.Partitions {
		view, err := b.log.State(b.ctx(), sequence.Group(name), stream.Partition{Topic: sequence.Inbox(name), Index: i})
		b.ok(err)
		for entry, err := range view.Scan(nil) {
			b.ok(err)
			all[fmt.Sprintf("%d %q", i, entry.Key)] = string(entry.Value)
		}
	}
	return all
}

// compare holds what was written against the model.
func (b *bench) compare(list []stream.Record) {
	b.Helper()
	models := []*model{newModel(b.options.Limits), newModel(b.options.Limits)}
	for i := range list {
		models[stream.Place(list[i].Key, 2)].take(&list[i])
	}
	bad := 0
	var forwarded, wantForwarded []string
	for i, results := range b.results() {
		for k := range results {
			if strings.HasPrefix(results[k].Event, "redriven:") {
				results[k].Event = "redriven"
			}
		}
		if diff := cmp.Diff(models[i].results, results, cmpopts.IgnoreFields(wire.Error{}, "Message"), cmpopts.EquateEmpty()); diff != "" {
			b.Fatalf("results of partition %d (-model +sequencer):\n%s", i, diff)
		}
		b.dense(results)
		bad += models[i].bad
		wantForwarded = append(wantForwarded, models[i].forwarded...)
	}
	for _, list := range b.read("events") {
		for _, r := range list {
			forwarded = append(forwarded, header.Get(&r, header.ID))
		}
	}
	sort := func(list []string) []string { // by client, in the order of each
		slices.SortStableFunc(list, func(a, b string) int { return strings.Compare(clientOf(a), clientOf(b)) })
		return list
	}
	if diff := cmp.Diff(sort(wantForwarded), sort(forwarded)); diff != "" {
		b.Fatalf("forwarded (-model +sequencer):\n%s", diff)
	}
	letters := 0
	for _, list := range b.read(sequence.DeadTopic(name)) {
		letters += len(list)
	}
	if letters != bad {
		b.Fatalf("%d dead letters, want %d", letters, bad)
	}
}

func clientOf(event string) string { return event[:strings.LastIndexByte(event, '/')] }

// dense sees that the numbers of each client are 1, 2, 3, and no event ends twice
// before its id is forgotten.
func (b *bench) dense(results []wire.Result) {
	b.Helper()
	seq := map[string]uint64{}
	for _, r := range results {
		key := wire.Key(r.Tenant, r.Client)
		if seq[key]++; r.Seq != seq[key] {
			b.Fatalf("result %d of %s has number %d", seq[key], key, r.Seq)
		}
	}
}

// paced is a log that says how large steps and records may be.
type paced struct {
	stream.Log
	pace stream.Pace
}

type pacedMember struct {
	stream.Member
	pace stream.Pace
}

func (p paced) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := p.Log.Join(ctx, group, topics...)
	return pacedMember{s, p.pace}, err
}

func (s pacedMember) Pace() stream.Pace { return s.pace }

// TestSequencerIsItsModelWhateverFails runs the same records through a log whose
// commits fail and whose partitions move, and through one that does not: the
// results are those of the model, and the states are equal.
func TestSequencerIsItsModelWhateverFails(t *testing.T) {
	counts := streamtest.Counts{}
	var metrics []*sequence.Metrics
	seeds := *seeds
	if testing.Short() {
		seeds = min(seeds, 8)
	}
	for s := *seed; s < *seed+seeds; s++ {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d: -sequence.seed=%d -sequence.seeds=1", s, s)
			rng := rand.New(rand.NewPCG(s, 10))
			limits := small
			limits.IDs, limits.HeldFor = 3+rng.IntN(30), time.Duration(20+rng.IntN(500))*time.Second
			list := inbox(rng, name, 300)
			var states []map[string]string
			for _, faults := range []bool{false, true} {
				l := memory.New(memory.Options{RebalanceTimeout: 10 * time.Second})
				b := newBench(t, l, limits)
				var via stream.Log = l
				metrics = append(metrics, b.metrics)
				faulty := streamtest.NewFaulty(l, streamtest.FaultyOptions{Seed: s})
				if faults {
					via = paced{faulty, stream.Pace{Bytes: 2000, RecordBytes: 1 << 20}}
				}
				stop := b.start(via)
				for _, part := range [][]stream.Record{list[:100], list[100:101], list[101:]} {
					b.ok(l.Append(b.ctx(), slices.Clone(part)...))
					time.Sleep(time.Second)
				}
				b.sequenced()
				stop()
				b.compare(list)
				states = append(states, b.state())
				counts.Add(faulty.Counts())
				b.ok(l.Close())
			}
			if !maps.Equal(states[0], states[1]) {
				t.Errorf("states differ: %s", cmp.Diff(states[0], states[1]))
			}
		})
		if t.Failed() {
			return
		}
	}
	if missing := counts.Missing(); len(missing) > 0 && seeds >= 30 {
		t.Errorf("faults that never happened: %v", missing)
	}
	var total [9]uint64
	for _, m := range metrics {
		for i, n := range []*atomic.Uint64{&m.Accepted, &m.Held, &m.Rejected, &m.Duplicates, &m.Conflicts, &m.Expired, &m.Redriven, &m.Dropped, &m.Unknown} {
			total[i] += n.Load()
		}
	}
	t.Logf("accepted, held, rejected, duplicates, conflicts, expired, redriven, dropped, unknown: %d", total)
	if seeds >= 30 && slices.Contains(total[:], 0) {
		t.Error("one of them never happened")
	}
}
