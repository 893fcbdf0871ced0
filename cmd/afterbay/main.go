// Command afterbay runs pipelines over the log in a data directory, and looks
// into both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/clean"
)

type commands struct {
	Init        initCommand        `cmd:"" help:"Write a pipeline file that fits a sample of events."`
	Try         tryCommand         `cmd:"" help:"Show what the pipelines of a file make of events, event by event, and keep nothing."`
	Lint        lintCommand        `cmd:"" help:"Check pipeline files and their models, and say all that is wrong."`
	Test        testCommand        `cmd:"" help:"Run scenario files: events, crashes and what is expected of them."`
	Run         runCommand         `cmd:"" help:"Run the pipelines of files until a signal ends the process."`
	Serve       serveCommand       `cmd:"" help:"Answer HTTP and gRPC with the predictions of models, record by record of a stream."`
	Produce     produceCommand     `cmd:"" help:"Append the records of a file or of standard input to a topic."`
	Tail        tailCommand        `cmd:"" help:"Print the records of a topic."`
	Explain     explainCommand     `cmd:"" help:"Say where an output came from: event, features, models, times."`
	Features    featuresCommand    `cmd:"" help:"Write the feature rows of events to a file, to train a model with."`
	Topics      topicsCommand      `cmd:"" help:"List the topics and what they hold."`
	DLQ         dlqCommand         `cmd:"" name:"dlq" help:"Look at the dead letters of a pipeline, send their events back or drop them."`
	Lag         lagCommand         `cmd:"" help:"Say how far pipelines are behind, partition by partition, the worst first."`
	Status      statusCommand      `cmd:"" help:"Say what the pipelines of a running process do: events, times by case of a route, models and their faults, groups, sinks and how fresh they are, what the journal saved, the checkpoint."`
	Budget      budgetCommand      `cmd:"" help:"Say what events of a running pipeline take in each phase, beside its budget."`
	State       stateCommand       `cmd:"" help:"Look into the state of a pipeline."`
	Journal     journalCommand     `cmd:"" help:"Look into the answers that a pipeline paid for."`
	Queue       queueCommand       `cmd:"" help:"Look at the events in the async queue of a pipeline, retry their calls now, or give them up."`
	Doctor      doctorCommand      `cmd:"" help:"Check a data directory: every frame, index and block; and cut damage out of it. Or check the brokers of Kafka."`
	Reprocess   reprocessCommand   `cmd:"" help:"Process the history of a pipeline again with a changed model or file, beside the live one, and hand over to it."`
	Generations generationsCommand `cmd:"" help:"Say which generation of a pipeline computes each partition, from which offset on."`
	Gateway     gatewayCommand     `cmd:"" help:"Serve clients, over WebSocket and HTTP: their events go to a pipeline on Kafka, its results come back, each once and in order."`
	Clients     clientsCommand     `cmd:"" help:"Say who is connected to a gateway, how many events of each wait for their result, and how far each is behind."`
	Token       tokenCommand       `cmd:"" help:"Issue tokens for clients of the gateway, and look into them."`
	Model       modelCommand       `cmd:"" help:"Look into a model, or score rows with it."`
	Demo        demoCommand        `cmd:"" help:"Turn generated card payments into fraud decisions, and sum up."`
	Bench       benchCommand       `cmd:"" help:"Measure throughput and latency here, of the work that peers are compared on."`
	Placement   placementCommand   `cmd:"" help:"Measure a pipeline with its model inside and behind an endpoint, and say which it should be."`
	Simulate    simulateCommand    `cmd:"" help:"Try in virtual time what a source, a queue and what serves it do: how deep the queue gets, how often the source is throttled, what is dropped."`
	Plan        planCommand        `cmd:"" help:"Say how many workers and partitions a rate needs, how busy they are, what events wait, and whether one machine is enough."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Help        helpCommand        `cmd:"" help:"Print this help, or that of a command."`
}

// helpCommand stands in the help; execute makes --help of it.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, such as dlq redrive."`
}

// app is what a command gets from its surroundings.
type app struct {
	ctx    context.Context // ends with the first signal
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	log    *slog.Logger
	ends   []func() // of what a command opened

	loading *process.Loader // made by loader

	fault func(stage string) // of their options; nil but in crash tests

	service atomic.Bool // the command runs until a signal, so that one is no failure
	orderly atomic.Bool // it ends by itself, however long that takes
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailure)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout = clean.NewWriter(stdout) // clients wrote much of the output
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, log: slog.New(slog.NewTextHandler(stderr, nil))}
	err := a.untilSignal(func() error {
		err := a.execute(args)
		if a.loading != nil {
			a.loading.Close()
		}
		for _, end := range a.ends {
			end()
		}
		return err
	})
	if err != nil && !errors.Is(err, errHelped) {
		fmt.Fprintf(stderr, "afterbay: %s\n", clean.Lines(err.Error()))
	}
	return exitCode(err)
}

// errHelped ends a command line that asked for help.
var errHelped = errors.New("helped")

func (a *app) execute(args []string) (err error) {
	defer func() { // the parser goes on after --help unless it is stopped
		if r := recover(); r == errHelped {
			err = errHelped
		} else if r != nil {
			panic(r)
		}
	}()
	var c commands
	parser, err := kong.New(&c, kong.Name("afterbay"), kong.Description(description),
		kong.Writers(a.stdout, a.stderr), kong.Exit(func(int) { panic(errHelped) }),
		kong.WithHyphenPrefixedParameters(true), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		args = []string{"version"}
	}
	if err := checkRenamed(args); err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return misused(err)
	}
	return command.Run(a)
}

// misused says how the command is written that a command line is not right for.
func misused(err error) error {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		if node := wrong.Context.Selected(); node != nil {
			unknown, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "unknown flag --"), ",")
			if now := newFlag(strings.TrimPrefix(node.FullPath(), "afterbay "), unknown); now != "" {
				return usage("--%s is now --%s: see %s --help", unknown, now, node.FullPath())
			}
			return usage("%w: write afterbay %s; see %s --help", err, node.Summary(), node.FullPath())
		}
	}
	return usage("%w: see afterbay --help", err)
}
