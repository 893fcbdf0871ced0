// Command gateway loads the gateway of `afterbay run --gateway`. It compares it with a bare echo of
// the same WebSocket library, and with the design that it replaces: sockets straight to workers.
// README.md describes the measurements. It prints one `name value unit` line per figure, and fails
// if a figure exceeds its promised limit.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options say what to measure, and how much of it.
type options struct {
	afterbay string // the program
	dir      string // for logs of the engine and of what the processes say
	plot     string // a file for the picture of the latencies; "" is none
	seed     uint64
	clients  int
	rate     int // events a second of all clients
	length   time.Duration
	rounds   int

	drained int           // connections that are drained
	window  time.Duration // time of the drain
	stalled int           // connections that are not read
	behind  int           // pending results of 1 KB of each stalled connection
	faulty  time.Duration // under faults, for each design
	strict  bool          // figures must meet the promised limits
}

// full returns the options of `make prove`.
func full() options {
	return options{
		afterbay: "bin/afterbay", seed: 1, clients: 1000, rate: 5000, length: 10 * time.Second, rounds: 5,
		drained: 5000, window: 30 * time.Second, stalled: 1000, behind: 1500, faulty: 30 * time.Second, strict: true,
	}
}

// part is one of the measurements.
type part struct {
	name string
	run  func(context.Context, *bench) error
}

func parts() []part {
	return []part{{"latency", latency}, {"drain", drain}, {"flood", flood}, {"stalled", stalledReaders}, {"faults", faults}}
}

func main() {
	if serve := servers[os.Getenv(serverEnv)]; serve != nil {
		fail(serve())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx)
	stop()
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// measure runs the measurements that the flags select.
func measure(ctx context.Context) error {
	o, only := full(), ""
	flag.StringVar(&o.afterbay, "afterbay", o.afterbay, "the program")
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to measure; without it a temporary one")
	flag.StringVar(&o.plot, "plot", "", "file for a picture of the latencies, .svg or .png")
	flag.Uint64Var(&o.seed, "seed", o.seed, "seed of faults and cuts")
	flag.IntVar(&o.clients, "clients", o.clients, "connections")
	flag.IntVar(&o.rate, "rate", o.rate, "events a second of all of them")
	flag.DurationVar(&o.length, "length", o.length, "length of a round; its first fifth does not count")
	flag.IntVar(&o.rounds, "rounds", o.rounds, "rounds; figures are medians")
	flag.IntVar(&o.drained, "drained", o.drained, "connections that are sent away")
	flag.DurationVar(&o.window, "window", o.window, "over which they are")
	flag.DurationVar(&o.faulty, "faulty", o.faulty, "of a run under faults")
	flag.BoolVar(&o.strict, "strict", o.strict, "fail if a figure misses its promise")
	flag.StringVar(&only, "only", "", "parts to measure, with commas; without it all")
	flag.Parse()
	if flag.NArg() > 0 || o.clients < 1 || o.rate < 1 || o.length < time.Second || o.rounds < 1 || o.faulty < time.Second {
		return errors.New("-clients, -rate and -rounds are above 0, -length and -faulty at least 1s, and nothing follows the flags")
	}
	chosen := parts()
	if only != "" {
		names := strings.Split(only, ",")
		chosen = slices.DeleteFunc(chosen, func(p part) bool { return !slices.Contains(names, p.name) })
		if len(chosen) != len(names) {
			return fmt.Errorf("-only %s: the parts are latency, drain, flood, stalled and faults", only)
		}
	}
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer b.end()
	for _, p := range chosen {
		if err = errors.Join(err, p.run(ctx, b)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(err, b.missed)
}

// bench measures in a folder.
type bench struct {
	options
	temporary string
	runs      int   // of processes, each with a folder
	missed    error // figures that exceed their promised limit
}

func newBench(o options) (*bench, error) {
	b := &bench{options: o}
	var err error
	if b.afterbay, err = filepath.Abs(b.afterbay); err != nil {
		return nil, err
	}
	if b.dir == "" {
		b.temporary, err = os.MkdirTemp("", "gateway-load-")
	}
	b.dir = cmp.Or(b.dir, b.temporary)
	return b, err
}

func (b *bench) end() {
	if b.temporary != "" {
		_ = os.RemoveAll(b.temporary) // the folder is no longer needed
	}
}

// figure prints a line.
func (b *bench) figure(name string, value float64, unit string) {
	fmt.Printf("gateway_load.%s %.4g %s\n", name, value, unit)
}

// held prints a figure with an upper limit.
func (b *bench) held(name string, value float64, unit string, most float64) {
	b.figure(name, value, unit)
	if b.strict && !(value <= most) { // NaN is missed too
		b.missed = errors.Join(b.missed, fmt.Errorf("%s is %.4g %s: at most %.4g is promised", name, value, unit, most))
	}
}
