// Command generate writes the events of the fraud example as NDJSON to its
// standard output, and counts them on its standard error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	var o fraud.Options
	flag.IntVar(&o.Events, "events", 1_000_000, "lines to write")
	flag.Uint64Var(&o.Seed, "seed", 1, "one seed always gives the same lines")
	flag.IntVar(&o.Rate, "rate", 10, "payments per second of event time")
	labels := flag.String("labels", "", "file to write the labels to, as tx,fraud,pattern")
	flag.Parse()
	if *labels == "" {
		return generate(o)
	}
	file, err := os.Create(*labels)
	if err != nil {
		return err
	}
	o.Labels = file
	return errors.Join(generate(o), file.Close())
}

func generate(o fraud.Options) error {
	stats, err := fraud.Generate(os.Stdout, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stderr, "%d events: %d fraud (%d burst, %d terminal, %d takeover), %d out of order, %d late, %d malformed\n",
		stats.Events, stats.Fraud(), stats.Burst, stats.Terminal, stats.Takeover,
		stats.OutOfOrder, stats.Late, stats.Malformed.Total())
	return err
}
