// Command afterbay runs pipelines over the log in a data directory, and inspects both.
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
	"sync/atomic"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/clean"
)

// app is the environment of a command.
type app struct {
	ctx    context.Context // done after the first signal
	args   []string        // of the command line
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	log    *slog.Logger
	ends   []func() // close what the command opened

	commands *kong.Node // the commands, with their flags

	loading *process.Loader // created by loader

	fault func(stage string) // Fault of the pipelines' options; nil except in crash tests

	service atomic.Bool // the command runs until a signal, so a signal is no failure
	orderly atomic.Bool // after a signal, the command ends by itself, even if that takes long
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
	a := &app{ctx: ctx, args: args, stdin: stdin, stdout: stdout, stderr: stderr, log: slog.New(slog.NewTextHandler(stderr, nil))}
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

// errHelped is the error of a command line that asked for help.
var errHelped = errors.New("helped")

func (a *app) execute(args []string) (err error) {
	defer func() { // the parser continues after --help unless it is stopped
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
	a.commands = parser.Model.Node
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
	// command.Run finds the method by its name: then the linker keeps the methods of all types
	// (docs/adr/0053-release.md).
	return command.Selected().Target.Addr().Interface().(interface{ Run(*app) error }).Run(a)
}
