// Command library runs a pipeline that has a step in Go, over a data directory
// and until all of its input is processed.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

//go:embed pipeline.yaml
var pipeline []byte

// code is what the pipeline file names.
var code = afterbay.Code{Functions: map[string]udf.Function{"visits": visits}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "data"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newRunner(o afterbay.Options) (*afterbay.Runner, error) {
	file, err := afterbay.Parse("pipeline.yaml", pipeline, code)
	if err != nil {
		return nil, err
	}
	return file.New(0, o)
}

func run(ctx context.Context, dir string) (err error) {
	runner, err := newRunner(afterbay.Options{})
	if err != nil {
		return err
	}
	log, err := afterbay.OpenLog(ctx, "embedded", code, stream.Process{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := runner.CreateTopics(ctx, log); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- runner.Run(ctx, log)
		stop()
	}()
	idle := runner.WaitIdle(ctx, log) // leave this out to go on for ever
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if idle != nil {
		return idle
	}
	fmt.Printf("%d events, %d outputs\n", runner.Counts().Events, runner.Counts().Outputs)
	return nil
}
