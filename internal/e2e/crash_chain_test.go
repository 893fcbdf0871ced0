package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	runs "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// chainPipelines are the pipelines of the reference's chain, with its functions
// written for the engine and its model in a folder.
func chainPipelines(dir string) (map[string]lang.Pipeline, error) {
	for name, data := range map[string][]byte{"chain.yaml": reference.Chain(), "fraud.json": reference.Model()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	file, err := config.Load(filepath.Join(dir, "chain.yaml"), builtin.Kinds())
	if err != nil {
		return nil, err
	}
	pipelines := map[string]lang.Pipeline{}
	for _, p := range file.Pipelines {
		p.Code.Functions = chainFunctions(p.Name)
		pipelines[p.Name] = p
	}
	return pipelines, nil
}

// chainRunners are the pipelines of the chain, by name, ready to run.
type chainRunners map[string]*runs.Runner

// newChain makes the chain's runners. Every turn of those named by fault calls
// it.
func newChain(dir string, v variant, fault map[string]func(stage string)) (chainRunners, error) {
	pipelines, err := chainPipelines(dir)
	if err != nil {
		return nil, err
	}
	runners := chainRunners{}
	var list []*runs.Runner
	for _, name := range wholeChain {
		p := pipelines[name]
		p.Commit = lang.Commit{Interval: v.interval, Size: chunkOf(v.batch)}
		for _, s := range p.Steps {
			if score, ok := s.(*steps.Score); ok {
				score.Batch.Size = v.batch
			}
		}
		if runners[name], err = builtin.New(p, runs.Options{Members: v.members, Fault: fault[name], Keys: v.keys()}); err != nil {
			return nil, fmt.Errorf("pipeline %s: %w", name, err)
		}
		list = append(list, runners[name])
	}
	if _, found := runs.Chain(list); len(found) > 0 {
		return nil, fmt.Errorf("the pipelines do not fit: %v", found)
	}
	return runners, nil
}

// keys is how many keys stay in memory: with small batches few do, so that
// others are read again.
func (v variant) keys() int {
	if v.batch < 10 {
		return 20
	}
	return 0
}

// chunkOf is how many events are computed at once, beside a batch of a model.
func chunkOf(batch int) int {
	return map[int]int{1: 13, 7: 70, 64: 500}[batch] // 0 is the default
}

func (c chainRunners) createTopics(ctx context.Context, log stream.Log) error {
	for _, name := range wholeChain {
		if err := c[name].CreateTopics(ctx, log); err != nil {
			return err
		}
	}
	return nil
}

// run runs the pipelines of these names until feed has returned and they have
// committed all that came of it, in five minutes if ctx has no limit.
func (c chainRunners) run(ctx context.Context, log stream.Log, names []string, feed func(ctx context.Context) error) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, running := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error { return c[name].Run(running, log) })
	}
	err := feed(running)
	for _, name := range names {
		if err == nil {
			err = c[name].WaitIdle(running, log)
		}
	}
	cancel()
	return errors.Join(group.Wait(), err)
}

var wholeChain = []string{"terminals", "fraud", "activity"}

func nothing(context.Context) error { return nil }

func appendMessages(ctx context.Context, log stream.Log, messages []reference.Message) error {
	for chunk := range slices.Chunk(messages, 2000) {
		records := make([]stream.Record, len(chunk))
		for i, m := range chunk {
			records[i] = stream.Record{
				Partition: stream.Partition{Topic: m.Topic, Index: stream.ByKey}, Time: time.UnixMicro(m.Time), Key: m.Key, Value: m.Value,
			}
			for _, h := range m.Headers {
				records[i].Headers = append(records[i].Headers, stream.Header{Key: h.Key, Value: []byte(h.Value)})
			}
		}
		if err := log.Append(ctx, records...); err != nil {
			return err
		}
	}
	return nil
}

// chainChild says what a child process is to do: folder, stage, pipeline, hit
// and members.
const chainChild = "AFTERBAY_CHAIN_CHILD"

// runChainChild runs the chain in a folder until all is done, or until it kills
// itself, as kill -9 does, at the hit of a stage of a pipeline.
func runChainChild(arguments string) error {
	var dir, stage, pipeline string
	var hit, members int
	if _, err := fmt.Sscan(arguments, &dir, &stage, &pipeline, &hit, &members); err != nil {
		return err
	}
	endsInTime()
	at := killedAt(stage, hit)
	kill := func(stage string) { at(strings.TrimPrefix(stage, "copy-")) }
	runners, err := newChain(dir, variant{"embedded", 1, members, time.Millisecond}, map[string]func(string){pipeline: kill})
	if err != nil {
		return err
	}
	log, err := embedded.Open(filepath.Join(dir, "data"), embedded.Options{})
	if err != nil {
		return err
	}
	return errors.Join(runners.run(context.Background(), log, wholeChain, nothing), log.Close())
}

// TestKilledChainLeavesTheSameAnswer kills processes that run the whole chain,
// half as often as those of one pipeline.
func TestKilledChainLeavesTheSameAnswer(t *testing.T) {
	t.Parallel() // it waits more than it computes
	events := reference.GenerateChain(*answerSeed, chainEvents(*crashOf))
	rng := rand.New(rand.NewPCG(*answerSeed, 4))
	dir := t.TempDir()
	runners, err := newChain(dir, variant{"embedded", 1, 1, time.Millisecond}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := openLog(t, "embedded", filepath.Join(dir, "data"))
	err = errors.Join(runners.createTopics(t.Context(), log), appendMessages(t.Context(), log, events), log.Close())
	if err != nil {
		t.Fatal(err)
	}
	kills := map[string]int{}
	for n := range max(*crashKills/2, 1) {
		stage, pipeline := crashStages[n%len(crashStages)], wholeChain[n%len(wholeChain)]
		killed, err := startChild(t, stage, fmt.Sprintf("%s=%s %s %s %d %d", chainChild, dir, stage, pipeline, 2+rng.IntN(4), 1+n%4), nil)
		if err != nil {
			t.Fatalf("seed %d: kill %d at %s of %s: %v", *answerSeed, n, stage, pipeline, err)
		}
		if killed {
			kills[stage]++
		}
	}
	if killed, err := startChild(t, "none", fmt.Sprintf("%s=%s none none 1 2", chainChild, dir), nil); err != nil || killed {
		t.Fatalf("the last child: killed %v, %v", killed, err)
	}
	for _, stage := range crashStages {
		t.Logf("killed at %-5s %d times with a step in flight", stage, kills[stage])
		if kills[stage] == 0 {
			t.Errorf("seed %d: nothing was killed at %s: more events are needed", *answerSeed, stage)
		}
	}
	log = openLog(t, "embedded", filepath.Join(dir, "data"))
	defer closeLog(t, log)
	whole := mustBeChain(t, runners, log)
	mustReplay(t, readStored(t, log), whole)
	mustEqualUnbroken(t, events, whole)
}

// mustEqualUnbroken compares what events alone decide with a run in which
// nothing fails.
func mustEqualUnbroken(t *testing.T, events []reference.Message, whole map[string]*answer) {
	t.Helper()
	c := newChainRun(t, variant{"memory", 64, 1, time.Millisecond})
	if err := c.run(t.Context(), c.log, wholeChain, func(ctx context.Context) error { return appendMessages(ctx, c.log, events) }); err != nil {
		t.Fatal(err)
	}
	want := mustBeChain(t, c.chainRunners, c.log)
	if d := whole["terminals"].chainDifference(want["terminals"]); d != "" {
		t.Fatalf("seed %d: %s", *answerSeed, d)
	}
	if d := copies(whole["activity"]).chainDifference(copies(want["activity"])); d != "" {
		t.Fatalf("seed %d: %s", *answerSeed, d)
	}
}
