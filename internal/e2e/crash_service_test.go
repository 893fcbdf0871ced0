package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	modelserver "github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

var (
	serviceKills  = flag.Int("service.kills", 2, "kills of TestPaidCallsOfAPipelineAreItsQuestionsAndThoseInFlightAtAKill, of each engine and way")
	serviceEvents = flag.Int("service.events", 1_500, "events of the same, a third of which ask what others ask")
)

// serviceChild says what a process that asks a service is to do: see
// serviceProcess.
const serviceChild = "AFTERBAY_SERVICE_CHILD"

// serviceConcurrency is how many calls may be under way, of an event each.
const serviceConcurrency = 16

// serviceSession outlasts a machine that stands still: a member that ends asks again
// what was in flight. Nobody waits for its end, since processes keep their place.
const serviceSession = 45 * time.Second

// serviceQuestions is how many different questions so many events ask.
func serviceQuestions(events int) int { return events * 2 / 3 }

// serviceProcess is a process that runs a pipeline to its end.
type serviceProcess struct {
	brokers, dir, way, url string        // brokers is "-" on the embedded log; way is one of serviceWays
	after                  time.Duration // from its first durable step until it kills itself; 0 is never
}

// serviceWays are what is counted: with the journal that there is by default, with
// it and a service that fails, with it and an API that is called once a row though
// batches are of the default size, and without a journal.
var serviceWays = []string{"journal", "failing", "rows", "forgets"}

// journal reports whether answers are kept.
func (c *serviceProcess) journal() bool { return c.way != "forgets" }

// serviceScore returns the score that the service gives to an event of a way.
func serviceScore(way string, event int) float32 {
	a := fmt.Sprint(event % serviceQuestions(*serviceEvents))
	if way == "rows" {
		return faultserver.Score(fmt.Sprintf(`{"a":%s,"b":0.5}`, a))
	}
	return faultserver.Score(a, "0.5")
}

func (c *serviceProcess) fields() []any {
	return []any{&c.brokers, &c.dir, &c.way, &c.url, (*int64)(&c.after)}
}

func (c *serviceProcess) String() string {
	return fmt.Sprint(serviceChild, "=", c.brokers, " ", c.dir, " ", c.way, " ", c.url, " ", int64(c.after))
}

// runner returns a pipeline that asks a service about each event. Fault is that
// of its options.
func (c *serviceProcess) runner(ctx context.Context, fault func(stage string)) (*pipeline.Runner, *modelserver.Model, error) {
	options := modelserver.Options{
		URL: c.url, JSON: true, Model: "risk", Timeout: 20 * time.Second,
		Inputs: []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}},
	}
	size := 1
	if c.way == "rows" {
		options.URL, options.API, options.JSON, size = c.url+"/risk", modelserver.HTTP, false, 0
		options.Outputs = []model.Output{{Name: "score", Size: 1}}
	}
	m, err := modelserver.Load(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	risk := lang.Model{
		Name: "risk", Go: "risk", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}},
		Call: &lang.Calling{Concurrency: serviceConcurrency, Attempts: 10, // a fifth of the calls fails by chance
			Backoff: lang.Backoff{Base: 20 * time.Millisecond}, Breaker: lang.Breaker{Probe: 100 * time.Millisecond}},
	}
	if !c.journal() {
		risk.Journal = &lang.Journal{Off: true}
	}
	runner, err := builtin.New(lang.Pipeline{
		Name: c.way,
		Input: lang.Input{Topic: "in-" + c.way, Partitions: answerPartitions, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "n", Type: "int"}, {Name: "a", Type: "number"}, {Name: "b", Type: "number"},
		}},
		Commit: lang.Commit{Interval: 5 * time.Millisecond}, // a call has its place until its answer is durable
		Models: []lang.Model{risk},
		Steps: []lang.Step{
			&steps.Score{Model: "risk", Inputs: []string{"a", "b"}, Async: true, Batch: steps.Batch{Size: size}},
			&steps.Emit{Topic: "out-" + c.way, Names: []string{"n", "risk.score"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"risk": m}},
	}, pipeline.Options{Members: 2, Fault: fault})
	return runner, m, err
}

func runServiceChild(arguments string) error {
	var c serviceProcess
	if _, err := fmt.Sscan(arguments, c.fields()...); err != nil {
		return err
	}
	asks := sync.OnceFunc(func() {
		if c.after > 0 { // by its own clock: on a busy machine another process would be late
			time.AfterFunc(c.after, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
	})
	runner, m, err := c.runner(context.Background(), func(stage string) {
		if stage == "after" {
			asks()
		}
	})
	if err != nil {
		return err
	}
	log, err := openService(context.Background(), c.brokers, c.dir, serviceSession)
	if err != nil {
		return err
	}
	return errors.Join(runIdle(context.Background(), runner, log), log.Close(), m.Close())
}

// TestPaidCallsOfAPipelineAreItsQuestionsAndThoseInFlightAtAKill kills processes of a
// pipeline that asks a service of a process of its own, and counts there what was
// paid for.
func TestPaidCallsOfAPipelineAreItsQuestionsAndThoseInFlightAtAKill(t *testing.T) {
	t.Parallel() // it waits more than it computes
	for _, engine := range []string{"embedded", "kafka"} {
		t.Run(engine, func(t *testing.T) {
			brokers := "-"
			if engine == "kafka" {
				cluster := kafkatest.Start(t, kafkatest.Options{Speed: *serviceKills >= 10, Settings: []string{
					"log.retention.ms=-1", "group.min.session.timeout.ms=1000", "add.partitions.to.txn.retry.backoff.ms=1",
					"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
				}})
				brokers = strings.Join(cluster.Addresses(), ",")
			}
			for _, way := range serviceWays {
				t.Run(way, func(t *testing.T) {
					countPaid(t, serviceProcess{brokers: brokers, dir: filepath.Join(t.TempDir(), "data"), way: way})
				})
			}
		})
	}
}

func countPaid(t *testing.T, c serviceProcess) {
	service := faultserver.Options{
		File: filepath.Join(t.TempDir(), "calls"), Seed: *answerSeed, Takes: 4 * time.Millisecond, Slow: 0.05, SlowFor: 20 * time.Millisecond,
	}
	if c.way == "failing" {
		service.Fail, service.Reset, service.Half, service.Wrong = 0.05, 0.03, 0.03, 0.02
	}
	server := faultserver.Start(t, service)
	c.url = server.URL
	runner, m, err := c.runner(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	open := func() stream.Log {
		log, err := openService(t.Context(), c.brokers, c.dir, serviceSession)
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	log := open()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), serviceInput(c.way, *serviceEvents)...); err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	rng, kills, begun := rand.New(rand.NewPCG(*answerSeed, 8)), 0, time.Now()
	for kills < *serviceKills {
		if c.after = time.Duration(20+rng.IntN(200)) * time.Millisecond; !runService(t, c.String()) {
			break
		}
		kills++
	}
	c.after = 0
	runService(t, c.String())
	took := time.Since(begun).Round(time.Millisecond)
	wantPaid(t, c.way, service.File, kills, c.journal())
	t.Logf("%s: seed %d, %v, %d kills", c.way, *answerSeed, took, kills)
	log = open()
	defer closeLog(t, log)
	wantServiceAnswers(t, log, c.way, runner.Outputs(), *serviceEvents)
}

// wantPaid compares what was paid for with the questions, those in flight at kills
// and the answers that the service lost.
func wantPaid(t *testing.T, way, file string, kills int, journal bool) {
	t.Helper()
	calls, err := faultserver.ReadCalls(file)
	if err != nil {
		t.Fatal(err)
	}
	paid, questions := faultserver.Count(calls), serviceQuestions(*serviceEvents)
	lost := paid.Faults[faultserver.Reset] + paid.Faults[faultserver.Half] + paid.Faults[faultserver.Wrong]
	most := questions + serviceConcurrency*kills + lost
	t.Logf("%s: %d events ask %d questions: %d calls were paid for, %d more than questions; in flight at kills may be %d, answers lost by the service were %d",
		way, *serviceEvents, questions, paid.Rows, paid.Rows-questions, serviceConcurrency*kills, lost)
	if kills == 0 || paid.Distinct != questions || paid.Rows != paid.Paid {
		t.Errorf("%d kills, %d questions of %d were asked, %d rows in %d calls", kills, paid.Distinct, questions, paid.Rows, paid.Paid)
	}
	if journal && paid.Rows > most {
		t.Errorf("%d calls were paid for, %d are the most", paid.Rows, most)
	}
	if !journal && paid.Rows < *serviceEvents {
		t.Errorf("%d calls of %d events: this shows nothing of a journal", paid.Rows, *serviceEvents)
	}
}

// serviceInput has equal questions of equal keys, since each partition has a
// journal of its own.
func serviceInput(way string, events int) []stream.Record {
	records := make([]stream.Record, events)
	for n := range records {
		question := n % serviceQuestions(events)
		key := fmt.Sprint("key ", question%97)
		records[n] = stream.Record{
			Partition: stream.Partition{Topic: "in-" + way, Index: stream.ByKey}, Key: []byte(key),
			Value: fmt.Appendf(nil, `{"k":%q,"n":%d,"a":%d,"b":0.5}`, key, n, question),
		}
	}
	return records
}

// runService runs a child to its end, and reports whether it killed itself.
func runService(t *testing.T, todo string) (killed bool) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], ofSeed())
	child.Env, child.Stderr = append(os.Environ(), todo), os.Stderr
	err := child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// wantServiceAnswers wants one output of each event, with the score that the
// service gives, and no dead letter.
func wantServiceAnswers(t *testing.T, log stream.Log, way string, topics []string, events int) {
	t.Helper()
	ends := log.(stream.Inspector)
	seen := make([]int, events)
	for _, topic := range topics {
		for i := range int32(answerPartitions) {
			p := stream.Partition{Topic: topic, Index: i}
			_, next, err := ends.Offsets(t.Context(), p)
			if err != nil || next == 0 {
				continue // of fewer partitions
			}
			for r, err := range log.Tail(t.Context(), p, 0) {
				var output struct {
					N     int
					Score float32 `json:"risk_score"`
				}
				if err == nil {
					err = json.Unmarshal(r.Value, &output)
				}
				if err != nil || topic != "out-"+way || output.Score != serviceScore(way, output.N) {
					t.Fatalf("%v of %s: %s, %v", r.Offset, topic, r.Value, err)
				}
				seen[output.N]++
				if r.Offset == next-1 {
					break
				}
			}
		}
	}
	for n, times := range seen {
		if times != 1 {
			t.Fatalf("event %d has %d outputs", n, times)
		}
	}
}
