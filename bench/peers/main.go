// Command peers measures other stream processors beside afterbay on the work of examples/baseline,
// on one broker: scripts/peers.sh. It prints one `name value unit` line per figure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// options say what to measure.
type options struct {
	address   string
	brokerPID int
	work      string
	events    int
	warm      int
	rates     []int
	seconds   int
	rounds    int
	seed      uint64
	only      []string
	keep      bool
	ours      []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measureAll(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse() (options, error) {
	var o options
	flag.StringVar(&o.address, "broker", "127.0.0.1:9092", "address of the broker; its topics that begin with peers- are deleted")
	flag.IntVar(&o.brokerPID, "broker-pid", 0, "process of the broker, to count its CPU time")
	flag.StringVar(&o.work, "work", "", "folder to work in, with model.deprecated, an absolute path")
	flag.IntVar(&o.events, "events", 2_000_000, "events to drain; 0 leaves that out")
	flag.IntVar(&o.warm, "warm", 200_000, "events before a schedule begins")
	flag.IntVar(&o.seconds, "seconds", 30, "length of a schedule in seconds; the first 5 do not count; 0 leaves latency out")
	flag.IntVar(&o.rounds, "rounds", 1, "rounds; figures are medians")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the generator")
	flag.BoolVar(&o.keep, "keep", false, "keep the folders of the runs")
	o.rates = []int{2000}
	flag.Func("rates", "events a second of each schedule, with commas (default 2000)", func(s string) error {
		o.rates = nil
		for _, word := range strings.Split(s, ",") {
			rate, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			o.rates = append(o.rates, rate)
		}
		return nil
	})
	flag.Func("only", "systems to measure, with commas: "+strings.Join(names(systems(nil)), ", "), func(s string) error {
		o.only = strings.Split(s, ",")
		return nil
	})
	ours := "bin/afterbay run --listen none --engine kafka://{broker} --data {dir}/data {dir}/pipeline.yaml"
	flag.StringVar(&ours, "afterbay", ours, "how afterbay is started")
	flag.Parse()
	o.ours = strings.Fields(ours)
	return o, o.validate()
}

func names(all []system) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.name)
	}
	return out
}

func (o options) validate() error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("%q is not a flag", flag.Arg(0))
	case !strings.HasPrefix(o.work, "/"):
		return errors.New("-work is an absolute path")
	case o.events < 0 || o.warm < 1 || o.rounds < 1 || slices.ContainsFunc(o.rates, func(rate int) bool { return rate < 1 }):
		return errors.New("-warm, -rounds and -rates are above 0, -events not below")
	case o.seconds != 0 && o.seconds <= int(settle.Seconds()):
		return fmt.Errorf("-seconds is 0 or above %.0f", settle.Seconds())
	}
	return nil
}

func measureAll(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	all, err := o.chosen()
	if err != nil {
		return err
	}
	on, err := connect(o.address, o.brokerPID)
	if err != nil {
		return err
	}
	defer on.client.Close()
	b := &bench{options: o, broker: on}
	fmt.Printf("# baseline: drain of %d events; schedules of %v events/s for %d s after %d events; seed %d; medians of %d\n", o.events, o.rates, o.seconds, o.warm, o.seed, o.rounds)
	if err := b.load(ctx); err != nil {
		return err
	}
	if o.events > 0 {
		// A broker gets faster for some seconds: the first drain does not count.
		if _, err := b.drain(ctx, "peers-warm", all[0]); err != nil {
			fmt.Fprintln(os.Stderr, "peers: drain that does not count:", err)
		}
	}
	t := &table{values: map[string][]float64{}}
	for round := range o.rounds {
		for _, s := range all {
			err = errors.Join(err, b.measure(ctx, t, s, round))
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	t.print(all)
	return err
}

// chosen returns the systems to measure.
func (o options) chosen() ([]system, error) {
	all := systems(o.ours)
	if o.only == nil {
		return all, nil
	}
	var chosen []system
	for _, name := range o.only {
		i := slices.IndexFunc(all, func(s system) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no system %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// measure measures all figures of a system in one round. A failed measurement omits its figures.
func (b *bench) measure(ctx context.Context, t *table, s system, round int) error {
	var errs []error
	take := func(prefix string, figures []figure, err error) {
		if err != nil {
			err = fmt.Errorf("%s, round %d: %w", prefix, round+1, err)
			fmt.Fprintln(os.Stderr, "peers:", err)
			errs = append(errs, fmt.Errorf("%s was not measured", prefix))
			return
		}
		for _, f := range figures {
			t.add(prefix+"_"+f.name, round, f.value, f.unit)
			fmt.Fprintf(os.Stderr, "round %d: %s_%s %.4g %s\n", round+1, prefix, f.name, f.value, f.unit)
		}
	}
	id := func(kind string) string {
		return fmt.Sprintf("peers-%s-%s-%d", strings.ReplaceAll(s.name, "_", "-"), kind, round)
	}
	if b.events > 0 {
		figures, err := b.drain(ctx, id("drain"), s)
		take(s.name, figures, err)
	}
	for _, rate := range b.rates {
		if b.seconds > 0 {
			figures, err := b.paced(ctx, id(strconv.Itoa(rate)), s, rate)
			take(fmt.Sprintf("%s_rate_%d", s.name, rate), figures, err)
		}
	}
	return errors.Join(errs...)
}

// table holds figures by name, one value per round; NaN if it was not measured.
type table struct {
	names  []string
	units  map[string]string
	values map[string][]float64
}

func (t *table) add(name string, round int, value float64, unit string) {
	if t.values[name] == nil {
		t.names = append(t.names, name)
	}
	if t.units == nil {
		t.units = map[string]string{}
	}
	t.units[name] = unit
	for len(t.values[name]) <= round {
		t.values[name] = append(t.values[name], math.NaN())
	}
	t.values[name][round] = value
}

// print prints the median of each figure, and of what the first system's are
// against those of each other one in the same round.
func (t *table) print(all []system) {
	for _, name := range t.names {
		fmt.Printf("%s %.4g %s\n", name, median(t.values[name]), t.units[name])
	}
	if all[0].name != "afterbay" {
		return
	}
	for _, s := range all[1:] {
		fmt.Printf("# afterbay against %s, of the same round\n", s.name)
		for _, name := range t.names {
			figure, ok := strings.CutPrefix(name, s.name+"_")
			ours := t.values["afterbay_"+figure]
			if !ok || ours == nil || t.units[name] == "events" || t.units[name] == "score" {
				continue
			}
			var ratios []float64
			for round, theirs := range t.values[name] {
				if round < len(ours) {
					ratios = append(ratios, ours[round]/theirs)
				}
			}
			fmt.Printf("afterbay_against_%s_%s %.3g times\n", s.name, figure, median(ratios))
		}
	}
}

// median returns the median of the values that are numbers.
func median(values []float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(sorted)
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
