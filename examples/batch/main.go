// Command batch runs a pipeline file over the records of a topic in another log, and exits. The
// pipelines run in memory and do not change the other log. So yesterday's events show the results
// of today's file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("batch", flag.ContinueOnError)
	file := flags.String("file", "pipeline.yaml", "pipeline file; its sinks may be of the kind print")
	url := flags.String("from", "embedded", "log that has the records, as engine of a pipeline file names it")
	data := flags.String("data", "data", "folder of the log, if it is embedded")
	topic := flags.String("topic", "", "topic of the records, and of the pipeline's input")
	id := flags.String("explain", "", "id of an output, or topic/partition@offset: where it came from is printed")
	show := flags.String("show", "", "schema or reference: what a file may say of the kind print is printed, and nothing runs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	code := afterbay.Code{Sinks: []sink.Kind{printing(out)}}
	if *show != "" {
		return document(out, code, *show)
	}
	records, err := read(ctx, code, *url, *data, *topic)
	if err != nil {
		return err
	}
	pipelines, err := afterbay.Load(code, *file)
	if err != nil {
		return err
	}
	warnings, err := pipelines.Check(ctx, afterbay.Options{})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintln(out, w)
	}
	engine, err := afterbay.Open(ctx, "memory:", afterbay.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return engine.Run(running, pipelines) })
	err = process(running, out, engine, *topic, records, *id)
	stop()
	return errors.Join(group.Wait(), err)
}

// document prints the reference of the file.
func document(out io.Writer, code afterbay.Code, what string) error {
	if what == "reference" {
		page, err := afterbay.Reference(code)
		fmt.Fprint(out, page)
		return err
	}
	schema, err := afterbay.Schema(code)
	fmt.Fprintf(out, "%s", schema)
	return err
}

// read returns the records of a topic.
func read(ctx context.Context, code afterbay.Code, url, dir, topic string) (records []stream.Record, err error) {
	log, err := afterbay.OpenLog(ctx, url, code, stream.Process{Dir: dir, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		for i := int32(0); t.Name == topic && i < t.Partitions; i++ {
			p := stream.Partition{Topic: topic, Index: i}
			for next := stream.Offset(0); ; {
				r, found, err := log.Peek(ctx, p, next)
				if err != nil {
					return nil, err
				}
				if !found {
					break
				}
				records, next = append(records, r), r.Offset+1
			}
		}
	}
	return records, nil
}

// process runs the pipelines over the records, and prints the outcome.
func process(ctx context.Context, out io.Writer, engine *afterbay.Engine, topic string, records []stream.Record, id string) error {
	if err := engine.Ready(ctx); err != nil {
		return err
	}
	if err := engine.Append(ctx, topic, records...); err != nil {
		return err
	}
	if err := engine.WaitIdle(ctx); err != nil {
		return err
	}
	status, err := engine.Status(ctx)
	if err != nil {
		return err
	}
	for _, p := range status.Pipelines {
		fmt.Fprintf(out, "%s: %d events, %d outputs, %d dead letters\n", p.Name, p.Counts.Events, p.Counts.Outputs, p.Counts.DeadLetters)
	}
	if id == "" {
		return nil
	}
	explanation, err := engine.Explain(ctx, id)
	if err != nil {
		return err
	}
	return explanation.Write(out)
}
