package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// kafkaChild says what a worker process is to do: brokers, the folder of the
// test, its name, whether it keeps its partitions when it ends, and its session
// timeout.
const kafkaChild = "AFTERBAY_KAFKA_CHILD"

// crashDeliveries are all. A worker runs the pipeline in each of them, so that
// every kill tries all of them.
var crashDeliveries = []kafka.Delivery{kafka.ExactlyOnce, kafka.AtLeastOnce, kafka.AtMostOnce}

var crashNames = map[kafka.Delivery]string{kafka.ExactlyOnce: "exactly-once", kafka.AtLeastOnce: "at-least-once", kafka.AtMostOnce: "at-most-once"}

// crashPipeline is the pipeline in the folder; each delivery writes topics of
// its own.
func crashPipeline(dir string, delivery kafka.Delivery) (lang.Pipeline, error) {
	file, err := config.Load(filepath.Join(dir, "fraud.yaml"), builtin.Kinds())
	if err != nil {
		return lang.Pipeline{}, err
	}
	p := file.Pipelines[0]
	p.Commit.Interval = 50 * time.Millisecond
	if delivery != kafka.ExactlyOnce {
		suffix := "-" + crashNames[delivery]
		p.Name += suffix
		for _, s := range p.Steps {
			if emit, ok := s.(*steps.Emit); ok {
				emit.Topic += suffix
			}
		}
	}
	return p, nil
}

// crashOrder is what a worker is to do to itself at the hit of a stage of one
// of its pipelines.
type crashOrder struct {
	verb, stage string
	pipeline    int
	hits        atomic.Int64
}

// runKafkaChild runs the pipelines until its orders end.
func runKafkaChild(arguments string) error {
	var brokers, dir, name string
	var stay bool
	var session time.Duration
	if _, err := fmt.Sscan(arguments, &brokers, &dir, &name, &stay, (*int64)(&session)); err != nil {
		return err
	}
	ctx, order := takeOrders()
	group, ctx := errgroup.WithContext(ctx)
	for _, delivery := range crashDeliveries {
		group.Go(func() error {
			return runDelivery(ctx, dir, kafka.Options{
				Brokers: strings.Split(brokers, ","), Dir: filepath.Join(dir, fmt.Sprint(name, "-", delivery)), Stay: stay, Delivery: delivery, Timeouts: kafka.Timeouts{Session: session},
			}, order)
		})
	}
	return group.Wait()
}

// takeOrders reads the orders of the test. The context ends with them.
func takeOrders() (context.Context, *atomic.Pointer[crashOrder]) {
	ctx, cancel := context.WithCancel(context.Background())
	order := &atomic.Pointer[crashOrder]{}
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			o, hits := &crashOrder{}, int64(0)
			if _, err := fmt.Sscan(lines.Text(), &o.verb, &o.stage, &o.pipeline, &hits); err != nil {
				return
			}
			o.hits.Store(hits)
			order.Store(o)
		}
	}()
	return ctx, order
}

func runDelivery(ctx context.Context, dir string, o kafka.Options, order *atomic.Pointer[crashOrder]) error {
	p, err := crashPipeline(dir, o.Delivery)
	if err != nil {
		return err
	}
	var first sync.Once
	runner, err := builtin.New(p, pipeline.Options{Logger: slog.New(slog.NewTextHandler(io.MultiWriter(os.Stdout, os.Stderr), nil)), Fault: func(stage string) {
		if stage == "after" {
			first.Do(func() { fmt.Println(crashDurable, o.Delivery) })
		}
		obey(order, stage, int(o.Delivery))
	}})
	if err != nil {
		return err
	}
	log, err := kafka.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(runner.Run(ctx, log), log.Close())
}

// obey ends or stops the process where an order says so.
func obey(order *atomic.Pointer[crashOrder], stage string, pipeline int) {
	o := order.Load()
	if o == nil || o.stage != stage || o.pipeline != pipeline || o.hits.Add(-1) != 0 {
		return
	}
	fmt.Println(o.verb, "at", stage)
	if o.verb == "killed" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// crashWorker is a process that runs the pipelines, from its start to its end.
type crashWorker struct {
	name   string
	child  *exec.Cmd
	orders io.WriteCloser
	said   chan string   // what it printed last
	ended  chan struct{} // closed when it is gone
	err    error         // after that
	ending bool          // it may end

	patiently func() (context.Context, context.CancelFunc) // how long it is waited for
}

// crashTold is how much of the log of each worker a test that fails shows.
const crashTold = 32 << 10

// startWorker starts a process that is such a child; one of a name starts again what the one
// before it left.
func startWorker(t *testing.T, of string, brokers []string, dir, name string, stay bool, session time.Duration) *crashWorker {
	t.Helper()
	w := &crashWorker{name: name, child: exec.Command(os.Args[0], ofSeed()), said: make(chan string, 10_000), ended: make(chan struct{})}
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	w.child.Stderr = log
	w.child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %v %d", of, strings.Join(brokers, ","), dir, name, stay, session))
	if w.orders, err = w.child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.child.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.hears(lines.Text())
		}
		w.err = w.child.Wait()
		close(w.ended)
		close(w.said)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			_ = w.child.Process.Signal(syscall.SIGQUIT) // its log then says where it stands
			select {
			case <-w.ended:
			case <-time.After(5 * time.Second):
			}
			if told, err := os.ReadFile(filepath.Join(dir, name+".log")); err == nil {
				t.Logf("worker %s: ...%s", name, told[max(0, len(told)-crashTold):])
			}
		}
		_ = w.child.Process.Kill()
		<-w.ended
	})
	return w
}

// hears keeps the line for those that wait for one. Where it is full, the oldest goes: a worker
// stands still whose output is not read.
func (w *crashWorker) hears(line string) {
	for {
		select {
		case w.said <- line:
			return
		default:
		}
		select {
		case <-w.said:
		default:
		}
	}
}

// until waits until the worker says a line with these words.
func (w *crashWorker) until(t *testing.T, words string) {
	t.Helper()
	ctx, cancel := w.patiently()
	defer cancel()
	for {
		select {
		case line, ok := <-w.said:
			if !ok {
				t.Fatalf("worker %s ended before it said %q: %v", w.name, words, w.err)
			}
			if strings.Contains(line, words) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("worker %s does not say %q: %v", w.name, words, context.Cause(ctx))
		}
	}
}

// atWork waits until a step of each delivery is durable.
func (w *crashWorker) atWork(t *testing.T) {
	t.Helper()
	for range crashDeliveries {
		w.until(t, crashDurable)
	}
}

// saidBefore reports whether the worker said the words and was not heard yet.
func (w *crashWorker) saidBefore(words string) bool {
	found := false
	for {
		select {
		case line, ok := <-w.said:
			if !ok {
				return found
			}
			found = found || strings.Contains(line, words)
		default:
			return found
		}
	}
}

// order makes the worker kill or stop itself at the next hit of a stage of one of
// its pipelines, and waits until it did.
func (w *crashWorker) order(t *testing.T, verb, stage string, pipeline, hit int) {
	t.Helper()
	w.ending = verb == "killed"
	if _, err := fmt.Fprintln(w.orders, verb, stage, pipeline, hit); err != nil {
		t.Fatal(err)
	}
	w.until(t, verb+" at "+stage)
	if !w.ending {
		return
	}
	<-w.ended
	var exit *exec.ExitError
	if !errors.As(w.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("worker %s ended with %v, not by a kill", w.name, w.err)
	}
}

// end lets the worker commit what it computed and go.
func (w *crashWorker) end(t *testing.T) {
	t.Helper()
	w.ending = true
	if err := w.orders.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := w.patiently()
	defer cancel()
	select {
	case <-w.ended:
	case <-ctx.Done():
		t.Fatalf("worker %s does not end: %v", w.name, context.Cause(ctx))
	}
	if w.err != nil {
		t.Errorf("worker %s ended with %v", w.name, w.err)
	}
}

// crashPatience is how long nothing may come of a run before it is given up. A
// busy machine may take long for anything, and does something meanwhile.
const crashPatience = 3 * time.Minute

// patiently returns a context that ends where no decision came for crashPatience.
func (c *crashRun) patiently() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(c.Context())
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for seen, since := -1, time.Now(); ; {
			if now := c.seen(); now != seen {
				seen, since = now, time.Now()
			}
			if time.Since(since) > crashPatience {
				cancel(fmt.Errorf("after %d decisions none came for %v", seen, crashPatience))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// seen returns how many decisions were seen.
func (c *crashRun) seen() int {
	n := 0
	for _, watches := range c.watches {
		for _, w := range watches {
			n += len(w.read())
		}
	}
	return n
}
