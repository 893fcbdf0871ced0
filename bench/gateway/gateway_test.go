package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if serve := servers[os.Getenv(serverEnv)]; serve != nil {
		fail(serve())
		return
	}
	os.Exit(m.Run())
}

// TestClientsLoseNothing runs the parts, small: whether anything is lost does not
// depend on how fast the machine is. Each fails where an event of ours has no result,
// or a client sees a hole.
func TestClientsLoseNothing(t *testing.T) {
	afterbay := filepath.Join(t.TempDir(), "afterbay")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", afterbay, "./cmd/afterbay")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	ours := func(ctx context.Context, b *bench) error {
		designs := b.designs()
		_, err := b.suffer(ctx, designs[len(designs)-1])
		return err
	}
	for _, p := range []part{{"latency", latency}, {"drain", drain}, {"flood", flood}, {"stalled", stalledReaders}, {"faults", ours}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b, err := newBench(options{
				afterbay: afterbay, dir: t.TempDir(), seed: 1, clients: 40, rate: 200, length: time.Second, rounds: 1,
				drained: 60, window: time.Second, stalled: 20, behind: 100, faulty: 2 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.run(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNaiveDesignLosesWhatItHolds sees that the faults are ones: with them the naive
// design loses results, and without them it does not.
func TestNaiveDesignLosesWhatItHolds(t *testing.T) {
	b, err := newBench(options{dir: t.TempDir(), seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := b.startServer(workerServer, []string{seedEnv + "=1"})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.stop()
	naive, err := b.startServer(naiveServer, []string{workerEnv + "=" + worker.address})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { naive.stop() }()
	f := b.newFleet("naive", naive, 10, 1, false)
	defer func() { f.end() }()
	if err := f.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.publish(t.Context(), 50, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := f.answered(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if lost, _ := f.lost(); lost != 0 {
		t.Errorf("%d events are lost, without a cut", lost)
	}
	if err := worker.command.Process.Signal(syscall.SIGSTOP); err != nil { // so that the design holds all that comes
		t.Fatal(err)
	}
	if err := f.publish(t.Context(), 1200, 250*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	naive.kill()
	if err := worker.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := naive.start(); err != nil {
		t.Fatal(err)
	}
	if err := f.answered(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if lost, _ := f.lost(); lost == 0 {
		t.Error("no event is lost with the process that holds them")
	}
}

func TestLatencyCountsFromWhenAnEventWasDue(t *testing.T) {
	now := time.Now()
	f := &fleet{start: now, every: 10 * time.Millisecond, took: make([]time.Duration, 4), accepted: make([]bool, 4)}
	f.note(0, now.Add(5*time.Millisecond), "")
	f.note(2, now.Add(45*time.Millisecond), "ok")
	f.note(2, now.Add(50*time.Millisecond), "ok")
	f.note(3, now.Add(31*time.Millisecond), "dead_lettered")
	f.accept(1)
	got := f.latencies(0)
	want := []float64{1, 5, 25, math.Inf(1)}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-6 && got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	lost, accepted := f.lost()
	if c := f.counted(); lost != 1 || accepted != 1 || c.ok != 2 || c.failed != 1 || c.repeats != 1 {
		t.Errorf("%d lost, %d accepted; %+v", lost, accepted, c)
	}
	if q := quantile(got, 0.5); q != 25 {
		t.Errorf("p50 is %v", q)
	}
}

func TestSpreadIsTheFullestSecondAgainstTheMean(t *testing.T) {
	now := time.Now()
	var times []time.Time
	for i := range 100 {
		times = append(times, now.Add(time.Duration(i)*100*time.Millisecond))
	}
	if got := spread(times, 10*time.Second); got != 1 {
		t.Errorf("even: %v", got)
	}
	if got := spread(make([]time.Time, 100), 10*time.Second); got != 10 {
		t.Errorf("at once: %v", got)
	}
}

func TestFieldsOfMessages(t *testing.T) {
	message := []byte(`{"type":"result","seq":17,"cursor":"0.1.2","eventId":"ours-1.42","status":"ok","payload":{"eventId":"9"}}`)
	if n := number(field(message, `"eventId":"`)); n != 42 {
		t.Error(n)
	}
	if got := digits(message, `"seq":`); !bytes.Equal(got, []byte("17")) {
		t.Errorf("%s", got)
	}
	if got := number(field(message, `"none":"`)); got != -1 {
		t.Error(got)
	}
}
