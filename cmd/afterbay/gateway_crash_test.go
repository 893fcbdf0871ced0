package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

var (
	gatewayKills   = flag.Int("gateway.kills", 2, "kills of gateways, and as many of engines, while clients talk; of brokers there are a quarter as many")
	gatewayClients = flag.Int("gateway.clients", 40, "clients of them")
	gatewayRate    = flag.Float64("gateway.rate", 100, "events a second of all clients")
	gatewayApart   = flag.Duration("gateway.apart", time.Second, "how long gateways and broker are apart")
	gatewayStable  = flag.Duration("gateway.stable", 0, "how long all goes well between faults, at least; after 10 s clients come back soon")
	gatewaySeed    = flag.Uint64("gateway.seed", 1, "seed of them")
)

// The stages at which processes are killed: events are not in the log yet, or are
// and nobody was told; a step of the sequencer, of what copies outcomes or of the
// pipeline is in flight.
var (
	gatewayStages = []string{"sequence-sync", "accept", "outcomes-sync", "append", "sequence-write", "outcomes-after", "sequence-after", "outcomes-write"}
	engineStages  = []string{"sync", "write", "after", "read"}
)

// ordersFrom in the environment makes a command read orders from its standard
// input: to kill itself, as kill -9 does, at a hit of a stage, or to end.
const ordersFrom = "AFTERBAY_TEST_ORDERS"

// runOrdered runs a command line that obeys.
func runOrdered() int {
	type order struct {
		stage string
		hits  atomic.Int64
	}
	var newest atomic.Pointer[order]
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // lives as long as the process
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			o, hits := &order{}, int64(0)
			if n, _ := fmt.Sscan(lines.Text(), &o.stage, &hits); n < 2 {
				cancel()
				continue
			}
			o.hits.Store(hits)
			newest.Store(o)
		}
		os.Exit(exitFailure) // the test is gone
	}()
	a := &app{ctx: ctx, stdin: strings.NewReader(""), stdout: os.Stdout, stderr: os.Stderr, log: slog.New(slog.NewTextHandler(os.Stderr, nil)), fault: func(stands string) {
		if o := newest.Load(); o != nil && o.stage == stands && o.hits.Add(-1) == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	err := a.execute(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "afterbay: %v\n", err)
	}
	return exitCode(err)
}

// ordered is such a process, from its start to its end. One of the same arguments
// takes up what it left.
type ordered struct {
	name    string
	args    []string
	road    *road // to it, where clients connect; nil where none do
	process *os.Process
	orders  io.WriteCloser
	out     *screen
	ended   chan error // of one
}

func (g *gatewayRun) start(p *ordered) {
	g.Helper()
	self, err := os.Executable()
	if err != nil {
		g.Fatal(err)
	}
	p.out, p.ended = newScreen(), make(chan error, 1)
	c := exec.CommandContext(context.WithoutCancel(g.Context()), self, p.args...)
	c.Env = append(os.Environ(), asCommand+"=1", ordersFrom+"=stdin")
	c.Stdout, c.Stderr = p.out, p.out
	if p.orders, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = p.orders.Close() })
	p.process = c.Process
	ended := p.ended
	go func() { ended <- c.Wait() }()
	p.out.wait(g, "listening on")
	if p.road != nil {
		p.out.wait(g, "/v1/stream; events go to")
		_, address, _ := strings.Cut(p.out.String(), "clients connect to ws://")
		address, _, _ = strings.Cut(address, "/v1/stream;")
		p.road.lead(address)
	}
}

// gatewayRun is clients, and what serves them.
type gatewayRun struct {
	*testing.T
	*crowd
	rng       *rand.Rand
	begun     time.Time
	processes []*ordered
	kills     map[string]int // by stage
	stages    []string       // in which there was to be one
}

func newGatewayRun(t *testing.T) *gatewayRun {
	t.Chdir(t.TempDir())
	t.Setenv("GATEWAY_KEY", gatewayKey)
	t.Setenv("CURSOR_KEY", gatewayCursors)
	write(t, "totals.yaml", totalsPipeline)
	write(t, "keys.yaml", "keys: [{id: k1, secret: '${GATEWAY_KEY}', audience: chat}]\n")
	write(t, "gateway.yaml", strings.NewReplacer("input: posts, outputs: [decisions]", "input: numbers, outputs: [totals, totals.ended]",
		"moderation", "totals", "partitions: 2", "partitions: 4").Replace(gatewayFile)+"limits: {address: {connections: 5000, rate: 5000, burst: 5000}}\n")
	g := &gatewayRun{T: t, rng: rand.New(rand.NewPCG(*gatewaySeed, 31)), begun: time.Now(), kills: map[string]int{}}
	t.Cleanup(func() {
		for _, p := range g.processes {
			if t.Failed() {
				g.show(p)
			}
		}
	})
	return g
}

// show shows where a process stands that may have failed.
func (g *gatewayRun) show(p *ordered) {
	if p.process == nil {
		return
	}
	_ = p.process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
	}
	said, stacks, _ := strings.Cut(p.out.String(), "SIGQUIT: quit")
	g.Logf("the end of what %s said:\n%s\n%s", p.name, said[max(0, len(said)-5_000):], stacks[:min(len(stacks), 30_000)])
}

// talk has the clients come, and waits until they have results.
func (g *gatewayRun) talk() {
	g.Helper()
	keys, err := process.OpenKeys("keys.yaml")
	if err != nil {
		g.Fatal(err)
	}
	var roads []*road
	for _, p := range g.processes {
		if p.road != nil {
			roads = append(roads, p.road)
		}
	}
	g.crowd = newCrowd(g.T, keys, *gatewayClients, *gatewayRate, roads...)
	g.crowd.start()
	g.until("all clients have results", func() bool {
		return g.unsettled(slices.Repeat([]int{3}, len(g.talkers))) == 0
	})
}

// until waits for something while nothing goes wrong.
func (g *gatewayRun) until(what string, is func() bool) {
	g.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for ticker := time.NewTicker(20 * time.Millisecond); !is(); <-ticker.C {
		g.must()
		for _, p := range g.processes {
			select {
			case err := <-p.ended:
				p.ended <- err
				g.Fatalf("seed %d: %s ended: %v", *gatewaySeed, p.name, err)
			default:
			}
		}
		if time.Now().After(deadline) {
			g.Fatalf("seed %d: it is not so that %s: %+v", *gatewaySeed, what, g.counts())
		}
	}
}

// settle waits until what was accepted before now has its results, and for as long
// as all is to go well.
func (g *gatewayRun) settle(what string, since time.Time) {
	g.Helper()
	before, settling := g.acceptedEach(), time.Now()
	g.until("all that was accepted has results", func() bool { return g.unsettled(before) == 0 })
	n := g.counts()
	g.Logf("%4.0f s: %s: over after %.1f s, all had its results after %.1f s; %d events, %d sent again, %d results twice, %d connections",
		time.Since(g.begun).Seconds(), what, settling.Sub(since).Seconds(), time.Since(since).Seconds(), n.accepted, n.resent, n.duplicates, n.connects)
	settled := time.Now()
	g.until("time passes", func() bool { return time.Since(settling) >= *gatewayStable })
	if well := time.Since(settled).Seconds(); well > 1 {
		g.Logf("%4.0f s: %.0f events a second while all went well", time.Since(g.begun).Seconds(), float64(g.counts().accepted-n.accepted)/well)
	}
}

// kill kills a process at a stage, and starts it again.
func (g *gatewayRun) kill(p *ordered, stage string) {
	g.Helper()
	if p.road != nil {
		g.balance(p.road)
	}
	if !slices.Contains(g.stages, stage) {
		g.stages = append(g.stages, stage)
	}
	if _, err := fmt.Fprintf(p.orders, "%s %d\n", stage, 1+g.rng.IntN(20)); err != nil {
		g.Fatal(err)
	}
	g.killed(p, stage)
	killed := time.Now()
	g.kills[stage]++
	if p.road != nil {
		p.road.lead("")
	}
	_ = p.orders.Close()
	g.start(p)
	g.settle(p.name+" was killed at "+stage, killed)
}

// killed waits until a process is.
func (g *gatewayRun) killed(p *ordered, stage string) {
	g.Helper()
	for deadline := time.After(5 * time.Minute); ; {
		select {
		case err := <-p.ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				p.ended <- err
				g.Fatalf("seed %d: %s, to be killed at %s, ended: %v", *gatewaySeed, p.name, stage, err)
			}
			return
		case <-time.After(100 * time.Millisecond):
			g.must()
		case <-deadline:
			g.Fatalf("seed %d: %s has no step in flight at %s", *gatewaySeed, p.name, stage)
		}
	}
}

// finish has no more events sent, wants all results, and ends the processes.
func (g *gatewayRun) finish() {
	g.Helper()
	g.enough.Store(true)
	took := time.Since(g.begun)
	g.until("all events have results", func() bool {
		n, sent := g.counts(), 0
		for _, k := range g.talkers {
			k.mu.Lock()
			sent += len(k.want)
			k.mu.Unlock()
		}
		return n.accepted == sent && n.ended == sent
	})
	g.check()
	n := g.counts()
	g.Logf("seed %d: %d clients, %d events accepted in %.0f s with faults (%.0f a second of %.0f that they try), each with one result; sent again %d times, %d results were marked as duplicates, %d repeats were dropped by seq, %d connections",
		*gatewaySeed, len(g.talkers), n.accepted, took.Seconds(), float64(n.accepted)/took.Seconds(), *gatewayRate, n.resent, n.duplicates, n.repeats, n.connects)
	g.end()
	g.group.Wait()
	for _, p := range slices.Backward(g.processes) {
		if _, err := fmt.Fprintln(p.orders, "end"); err != nil {
			g.Error(err)
		}
		if err := <-p.ended; err != nil {
			g.Errorf("seed %d: %s ended with %v", *gatewaySeed, p.name, err)
		}
	}
	for _, stage := range g.stages {
		g.Logf("killed at %-14s %d times with a step in flight", stage, g.kills[stage])
		if g.kills[stage] == 0 {
			g.Errorf("seed %d: nothing was killed at %s", *gatewaySeed, stage)
		}
	}
}

// TestKilledGatewaysOnALogLoseAndRepeatNoResult kills a process that has all in one.
func TestKilledGatewaysOnALogLoseAndRepeatNoResult(t *testing.T) {
	if apart(t) {
		return
	}
	g := newGatewayRun(t)
	all := &ordered{name: "the process", args: []string{"run", "totals.yaml", "--gateway", "gateway.yaml", "--listen", "127.0.0.1:0"}, road: newRoad(t)}
	g.processes = []*ordered{all}
	g.start(all)
	g.talk()
	stages := slices.Concat(gatewayStages[:4], engineStages[:2], gatewayStages[4:], engineStages[2:])
	for n := range *gatewayKills {
		g.kill(all, stages[n%len(stages)])
	}
	g.restartClients()
	g.finish()
}

// kafkaGateways starts two engines and two gateways. The gateways reach the broker
// by roads.
func kafkaGateways(t *testing.T) (g *gatewayRun, broker *kafkatest.Broker, roads []*road) {
	t.Helper()
	kafkatest.Need(t)
	roads = []*road{newRoad(t), newRoad(t)}
	cluster := kafkatest.Start(t, kafkatest.Options{Speed: *gatewayKills >= 10, Proxies: []string{roads[0].address(), roads[1].address()}, Settings: []string{
		"log.retention.ms=-1", "add.partitions.to.txn.retry.backoff.ms=1", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
	}})
	broker = cluster.Brokers[0]
	g = newGatewayRun(t)
	for i, at := range []string{"one", "two"} {
		g.processes = append(g.processes, &ordered{name: "engine " + at, args: []string{"run", "totals.yaml", "--engine", "kafka://" + broker.Address, "--data", "engine-" + at, "--listen", "127.0.0.1:0"}})
		g.start(g.processes[i])
	}
	for i, at := range []string{"one", "two"} {
		roads[i].lead(broker.Behind[i])
		p := &ordered{name: "gateway " + at, args: []string{"gateway", "gateway.yaml", "--engine", "kafka://" + roads[i].address(), "--data", "gateway-" + at, "--admin", "127.0.0.1:0"}, road: newRoad(t)}
		g.processes = append(g.processes, p)
		g.start(p)
	}
	return g, broker, roads
}

// killBroker kills the broker and starts it again.
func (g *gatewayRun) killBroker(b *kafkatest.Broker) {
	g.Helper()
	killed := time.Now()
	if err := errors.Join(b.Kill(), b.Start(g.Context())); err != nil {
		g.Fatal(err)
	}
	g.settle("the broker was killed", killed)
}

// restartClients restarts all clients at once.
func (g *gatewayRun) restartClients() {
	g.Helper()
	restarted, n, way := time.Now(), g.counts(), 0
	for _, k := range g.talkers {
		k.mu.Lock()
		way += len(k.want) - k.accepted
		k.mu.Unlock()
	}
	g.restart()
	g.settle(fmt.Sprintf("all clients were restarted, with %d events and %d results on their way", way, n.accepted-n.ended), restarted)
}

// part holds what gateways and broker send each other for a time. Where these are
// all gateways nothing is appended in its second half. What clients see says less:
// the answers to earlier events may still be on their way to those that come back.
func (g *gatewayRun) part(roads ...*road) {
	g.Helper()
	const appended = "afterbay_gateway_events_accepted_total"
	parted := time.Now()
	for _, r := range roads {
		defer r.hold(there, back)()
	}
	g.until("time passes", func() bool { return time.Since(parted) > *gatewayApart/2 })
	before := g.metric(appended)
	g.until("time passes", func() bool { return time.Since(parted) > *gatewayApart })
	if after := g.metric(appended); len(roads) > 1 && after != before {
		g.Errorf("seed %d: %d events were accepted without a log", *gatewaySeed, after-before)
	}
}

// loseAnswers has a gateway take events, and nobody hear of it: its clients are cut
// off, and send the events again to the other one.
func (g *gatewayRun) loseAnswers(gateway, other *ordered) {
	g.Helper()
	g.balance(gateway.road)
	lost, before, known := time.Now(), g.counts(), g.recognized()
	to := gateway.road.to
	release := gateway.road.hold(back)
	taken := g.metricOf(gateway, "afterbay_gateway_events_accepted_total") // the answers of all that follow are lost
	g.until("events are taken for a second", func() bool {
		return time.Since(lost) > time.Second && g.metricOf(gateway, "afterbay_gateway_events_accepted_total") > taken
	})
	gateway.road.lead("")
	gateway.road.cut(1 << 30)
	release()
	g.until("events are sent again and known", func() bool { return g.counts().resent > before.resent && g.recognized() > known })
	g.Logf("%4.0f s: %d events were sent again to %s, %d were in the log", time.Since(g.begun).Seconds(), g.counts().resent-before.resent, other.name, g.recognized()-known)
	gateway.road.lead(to)
	g.settle("the answers of "+gateway.name+" were lost", lost)
}

// recognized is how many events gateways know to have been sent before.
func (g *gatewayRun) recognized() int {
	g.Helper()
	return g.metric("afterbay_gateway_sequence_duplicate_events_total")
}

// metric returns the sum of a counter of the gateways.
func (g *gatewayRun) metric(name string) (n int) {
	g.Helper()
	for _, p := range g.processes {
		n += g.metricOf(p, name)
	}
	return n
}

// metricOf returns a counter of a gateway, 0 of another process.
func (g *gatewayRun) metricOf(p *ordered, name string) (n int) {
	g.Helper()
	_, admin, ok := strings.Cut(p.out.String(), "listening on ")
	admin, _, _ = strings.Cut(admin, ": ")
	if !ok || p.road == nil {
		return 0
	}
	_, metrics := ask(g.T, http.MethodGet, admin+"/metrics", "", "")
	for line := range strings.Lines(metrics) {
		var value float64
		if _, err := fmt.Sscanf(line, name+" %g", &value); err == nil {
			n += int(value)
		}
	}
	return n
}

// TestKilledGatewaysAndEnginesLoseAndRepeatNoResult kills gateways, engines and the
// broker between them, cuts them off, and restarts all clients.
func TestKilledGatewaysAndEnginesLoseAndRepeatNoResult(t *testing.T) {
	if apart(t) {
		return
	}
	g, broker, roads := kafkaGateways(t)
	g.talk()
	engines, gateways := g.processes[:2], g.processes[2:]
	kills := *gatewayKills
	for n := range kills {
		g.kill(gateways[n%2], gatewayStages[n%len(gatewayStages)])
		g.kill(engines[n%2], engineStages[n%len(engineStages)])
		if n%4 == 0 && n/4 < max(kills/4, 1) {
			g.killBroker(broker)
		}
	}
	parted := time.Now()
	g.part(roads...)
	g.settle("both gateways were apart from the broker", parted)
	parted = time.Now()
	g.part(roads[0])
	g.settle("gateway one was apart from the broker", parted)
	g.restartClients()
	g.loseAnswers(gateways[0], gateways[1])
	g.finish()
}
