package sequence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var broker kafkatest.Shared

func TestMain(m *testing.M) { os.Exit(broker.Run(m)) }

// moderation is a pipeline by room, whose events come from clients. It numbers the
// events of a room.
func moderation(t *testing.T) *pipeline.Runner {
	runner, err := builtin.New(lang.Pipeline{
		Name: "moderation", Replies: []string{"decisions"},
		Input: lang.Input{
			Topic: "events", Key: "room", Partitions: 2,
			Fields: []lang.Field{{Name: "room", Type: "string"}, {Name: "text", Type: "string"}},
		},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "said", Value: "1", Last: 256, Aggregates: []string{"count"}}}},
			&steps.Emit{Topic: "decisions", When: `text != "spam"`, Names: []string{"room", "text", "said.count"}},
		},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

const talkers, sayings = 5, 40

// talk is what clients say in rooms, with numbers that come out of order and
// events that come twice; every tenth is not what the pipeline reads, and every tenth
// is what it filters.
func talk() (list []stream.Record) {
	for i := range sayings {
		for c := range talkers {
			n := i ^ 1 // 1, 0, 3, 2
			e := wire.Event{
				Tenant: "acme", Client: fmt.Sprint("c", c), ID: fmt.Sprint("e", n), Sequence: int64(n + 1), Correlation: fmt.Sprint("order ", c),
				Payload: fmt.Appendf(nil, `{"room":"r%d","text":"%d"}`, (n+c)%3, n),
			}
			if n%10 == 7 {
				e.Payload = []byte(`{"room":7}`)
			} else if n%10 == 3 {
				e.Payload = []byte(`{"room":"r1","text":"spam"}`)
			}
			list = append(list, wire.Submit(sequence.Inbox(name), &e))
			if i%5 == 0 {
				list = append(list, wire.Submit(sequence.Inbox(name), &e))
			}
		}
	}
	return list
}

// converse runs the pipeline and the sequencer on via until each event has its
// result, and checks those.
func (b *bench) converse(via stream.Log) {
	runner := moderation(b.T)
	ctx, cancel := context.WithCancel(b.ctx())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx, via) }()
	stop := b.start(via)
	for list := talk(); len(list) > 0; list = list[min(len(list), 50):] {
		b.ok(b.log.Append(b.ctx(), list[:min(len(list), 50)]...))
	}
	deadline := time.Now().Add(5 * time.Minute)
	for b.terminals() < talkers*sayings && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // for more than there should be
	b.sequenced()
	stop()
	cancel()
	b.ok(<-ended)
	b.answered()
}

func (b *bench) terminals() (n int) {
	for _, list := range b.results() {
		for _, r := range list {
			if r.Status.Terminal() && !r.Duplicate {
				n++
			}
		}
	}
	return n
}

// answered sees that each event has one result, the right one, and that a room's were
// counted in one place, those of a client in the order of their numbers.
func (b *bench) answered() {
	b.Helper()
	results := map[string]wire.Result{}
	for _, list := range b.results() {
		b.dense(list)
		for _, r := range list {
			key := r.Client + " " + r.Event
			if r.Correlation != "order "+r.Client[1:] {
				b.Errorf("%s: correlation %q", key, r.Correlation)
			}
			if _, twice := results[key]; twice != r.Duplicate {
				b.Errorf("%s: a terminal result again: %+v", key, r)
			}
			r.Duplicate = false
			results[key] = r
		}
	}
	counts := map[string]bool{} // by room
	for c := range talkers {
		newest := map[string]int{} // by room
		for n := range sayings {
			r := results[fmt.Sprintf("c%d e%d", c, n)]
			if n%10 == 7 {
				if r.Status != wire.StatusDeadLettered || r.Error == nil || r.Error.Code != wire.CodeDeadLettered || r.Error.Attempts != 1 {
					b.Errorf("client %d, event %d: %+v; want a dead letter", c, n, r)
				}
				continue
			}
			var said struct {
				Room, Text string
				Count      int `json:"said_count"`
			}
			if n%10 != 3 {
				said.Room, said.Text = fmt.Sprint("r", (n+c)%3), fmt.Sprint(n)
			}
			want := said
			if len(r.Payload) > 0 {
				b.ok(json.Unmarshal(r.Payload, &said))
			}
			count := fmt.Sprint(said.Room, " ", said.Count)
			if want.Count = said.Count; r.Status != wire.StatusOK || said != want || said.Room != "" && (said.Count <= newest[said.Room] || counts[count]) {
				b.Errorf("client %d, event %d: %+v; want %+v, a number of its own, over %d", c, n, r, want, newest[said.Room])
			}
			newest[said.Room], counts[count] = said.Count, true
		}
	}
	if len(results) != talkers*sayings {
		b.Errorf("%d events have results, want %d", len(results), talkers*sayings)
	}
}

// TestEveryEventHasOneResultOnEveryEngine sends events of clients through a
// pipeline that is keyed otherwise.
func TestEveryEventHasOneResultOnEveryEngine(t *testing.T) {
	for engine, open := range map[string]func(*testing.T) (log, error){
		"memory":   func(*testing.T) (log, error) { return memory.New(memory.Options{}), nil },
		"embedded": func(t *testing.T) (log, error) { return embedded.Open(t.TempDir(), embedded.Options{}) },
		"kafka": func(t *testing.T) (log, error) {
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				return nil, err
			}
			t.Cleanup(cluster.Close)
			return kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs()})
		},
		"broker": func(t *testing.T) (log, error) {
			return kafka.Open(t.Context(), kafka.Options{Brokers: broker.Get(t).Addresses()})
		},
	} {
		t.Run(engine, func(t *testing.T) {
			l, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t, l, sequence.Limits{})
			b.converse(l)
			b.ok(l.Close())
		})
	}
}

// TestEveryEventHasOneResultWhateverFails does the same on a log whose commits
// fail, at every stage on the way, and whose partitions move.
func TestEveryEventHasOneResultWhateverFails(t *testing.T) {
	for s := *seed; s < *seed+*seeds/3; s++ {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d: -sequence.seed=%d -sequence.seeds=3", s, s)
			l := memory.New(memory.Options{RebalanceTimeout: 10 * time.Second})
			b := newBench(t, l, sequence.Limits{})
			b.converse(streamtest.NewFaulty(l, streamtest.FaultyOptions{Seed: s}))
			b.ok(l.Close())
		})
	}
}
