package e2e_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/internal/test/reference"
)

var (
	crashKills = flag.Int("crash.kills", 10, "kills of TestKilledProcessesLeaveTheSameAnswer")
	crashOf    = flag.Int("crash.events", 50_000, "events of the same and of other tests that kill processes, which take steps until the last kill")
)

// The stages of a turn that a child is killed at, each with a step in flight.
var crashStages = []string{"read", "model", "write", "sync", "after"}

const crashChild = "AFTERBAY_CRASH_CHILD" // folder, stage and hit of a child process

func TestMain(m *testing.M) {
	toRoot()
	faultserver.Main()
	if flag.Parse(); testing.Short() { // as under the race detector
		*answerEvents, *orderedEvents = min(*answerEvents, 10_000), min(*orderedEvents, 1000)
	}
	realKafka.Options.Speed = *answerAll || *overloadLong
	for name, run := range map[string]func(arguments string) error{crashChild: runCrashChild, chainChild: runChainChild, kafkaChild: runKafkaChild, keysChild: runKeysChild, serviceChild: runServiceChild, failingChild: runFailingChild, orderedChild: runOrderedChild, orderedKafkaChild: runOrderedKafkaChild, byKafkaChild: runByKafkaChild, chunkChild: runChunkChild} {
		if arguments := os.Getenv(name); arguments != "" {
			if err := run(arguments); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(realKafka.Run(m))
}

// ofSeed is the argument that gives a child the seed of its parent: pipelines are of it too.
func ofSeed() string { return fmt.Sprint("-answer.seed=", *answerSeed) }

// seedsOf returns how many of n seeds a random test runs: all, or a quarter under the
// race detector, which takes ten times as long to see the same goroutines meet.
func seedsOf(n uint64) uint64 {
	if testing.Short() {
		n /= 4
	}
	return max(n, 1)
}

// crashDurable is what a child prints when its first step is durable.
const crashDurable = "durable"

// crashRestarts is how long children took from their start, in a process of
// their own, to their first durable step.
type crashRestarts []time.Duration

func (r crashRestarts) String() string {
	if len(r) == 0 {
		return "none"
	}
	slices.Sort(r)
	return fmt.Sprintf("%d, median %v, longest %v", len(r), r[len(r)/2].Round(time.Millisecond), r[len(r)-1].Round(time.Millisecond))
}

// killedAt returns a fault that kills the process, as kill -9 does, at the hit of a stage. It
// prints the stage right before.
func killedAt(stage string, hit int) func(at string) {
	var hits atomic.Int64
	return func(at string) {
		if at == stage && hits.Add(1) == int64(hit) {
			fmt.Println("killed at", at)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// endsInTime ends a child process that hangs, with the stacks of all goroutines.
func endsInTime() {
	time.AfterFunc(5*time.Minute, func() {
		debug.SetTraceback("all")
		panic("the child hangs")
	})
}

// runCrashChild runs the pipeline in the folder until the input is done, or
// until it kills itself, as kill -9 does, at the hit of a stage. It prints the
// stage right before.
func runCrashChild(arguments string) error {
	var dir, stage string
	var hit, members int
	if _, err := fmt.Sscan(arguments, &dir, &stage, &hit, &members); err != nil {
		return err
	}
	file, err := config.Load(filepath.Join(dir, answerFile), builtin.Kinds())
	if err != nil {
		return err
	}
	p := file.Pipelines[0]
	p.Commit = lang.Commit{Interval: time.Millisecond, Size: 256}
	endsInTime()
	kill := killedAt(stage, hit)
	var first sync.Once
	runner, err := builtin.New(p, pipeline.Options{Members: members, Fault: func(at string) {
		if at == "after" {
			first.Do(func() { fmt.Println(crashDurable) })
		}
		kill(at)
	}})
	if err != nil {
		return err
	}
	return runToEnd(runner, filepath.Join(dir, "data"))
}

func TestKilledProcessesLeaveTheSameAnswer(t *testing.T) {
	t.Parallel() // it waits more than it computes
	events := reference.Generate(*answerSeed, *crashOf)
	want := runVariant(t, variant{"memory", 64, 1, time.Millisecond}, events)
	compareWithReference(t, want, events)
	answerOfKilled(t, referenceFiles(), events, *crashKills).mustEqual(t, want)
}

// answerOfKilled runs a pipeline in processes that are killed, and returns what
// they leave behind.
func answerOfKilled(t *testing.T, files map[string][]byte, events []reference.Event, times int) *answer {
	t.Helper()
	rng := rand.New(rand.NewPCG(*answerSeed, 2))
	dir := answerFolder(t, files)
	log := openLog(t, "embedded", filepath.Join(dir, "data"))
	runner, err := builtin.New(loadAnswer(t, dir), pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	appendEvents(t, log, runner.Input(), events)
	closeLog(t, log)
	kills := map[string]int{}
	var restarts crashRestarts
	for n := range times {
		stage := crashStages[n%len(crashStages)]
		killed, err := startChild(t, stage, fmt.Sprintf("%s=%s %s %d %d", crashChild, dir, stage, 2+rng.IntN(8), 1+n%4), &restarts)
		if err != nil {
			t.Fatalf("seed %d: kill %d at %s: %v", *answerSeed, n, stage, err)
		}
		if killed {
			kills[stage]++
		}
	}
	if killed, err := startChild(t, "none", fmt.Sprintf("%s=%s none 1 2", crashChild, dir), &restarts); err != nil || killed {
		t.Fatalf("the last child: killed %v, %v", killed, err)
	}
	for _, stage := range crashStages {
		t.Logf("killed at %-5s %d times with a step in flight", stage, kills[stage])
		if kills[stage] == 0 {
			t.Errorf("seed %d: nothing was killed at %s: more events are needed", *answerSeed, stage)
		}
	}
	t.Logf("restarts to the first durable step: %v", restarts)
	log = openLog(t, "embedded", filepath.Join(dir, "data"))
	defer closeLog(t, log)
	return readAnswer(t, runner, log)
}

// startChild runs a child to its end, and reports whether it was killed at the
// stage. What it is to do is a variable of its environment.
func startChild(t *testing.T, stage, todo string, restarts *crashRestarts) (killed bool, err error) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], ofSeed())
	child.Env = append(os.Environ(), todo)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := child.Start(); err != nil {
		return false, err
	}
	said, start := "", time.Now()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said = lines.Text(); said == crashDurable {
			*restarts = append(*restarts, time.Since(start))
		}
	}
	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		if said != "killed at "+stage {
			return false, fmt.Errorf("killed, but it said %q", said)
		}
		return true, nil
	}
	return false, err
}
