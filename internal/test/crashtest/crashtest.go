// Package crashtest lets tests kill processes. The test binary runs itself again as a child that
// does one thing. The child is killed meanwhile or kills itself.
//
//	func TestMain(m *testing.M) {
//		crashtest.Main(crashtest.Children{"deliver": runChild})
//		os.Exit(m.Run())
//	}
package crashtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// variable is the environment variable with the name and the arguments of a child.
const variable = "AFTERBAY_CRASH_TEST"

const childMax = 3 * time.Minute // a child that takes longer hangs

// Children are the functions that a test binary runs as a child, by name. Their context ends when
// they take too long.
type Children map[string]func(ctx context.Context, arguments string) error

// Main runs the child if the process is one, and exits with 0, or with 1 after an error. Otherwise
// it returns.
func Main(children Children) {
	name, arguments, found := strings.Cut(os.Getenv(variable), " ")
	if !found {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), childMax)
	err := children[name](ctx, arguments)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Killed runs a child and reports whether it was killed: by itself, or after the given time unless
// that is 0. If the child fails, the test fails.
func Killed(t *testing.T, name string, after time.Duration, arguments ...any) bool {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), variable+"="+name+" "+strings.TrimSuffix(fmt.Sprintln(arguments...), "\n"))
	var said bytes.Buffer
	child.Stdout, child.Stderr = &said, &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		defer time.AfterFunc(after, func() { _ = child.Process.Kill() }).Stop()
	}
	err := child.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	t.Fatalf("child %s %v: %v: %s", name, arguments, err, &said)
	return false
}

// KillAt returns a function that kills the process, as kill -9 does, at its hit-th call for the
// stage. The stage "any" matches every stage. The function is not safe for concurrent use.
func KillAt(stage string, hit int) func(at string) {
	return func(at string) {
		if at != stage && stage != "any" {
			return
		}
		if hit--; hit == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// Log is a log that a process can reopen after a kill.
type Log interface {
	stream.Log
	stream.Inspector
}

// NoBrokers selects a log in a folder.
const NoBrokers = "none"

// OpenLog opens the log of the brokers, or of the folder if there are no brokers.
func OpenLog(ctx context.Context, dir, brokers string) (Log, error) {
	if brokers == NoBrokers {
		return embedded.Open(dir, embedded.Options{})
	}
	return kafka.Open(ctx, kafka.Options{Brokers: strings.Split(brokers, ","), Dir: dir, Stay: true})
}

// Left returns how many records of a topic a group has not committed.
func Left(ctx context.Context, log Log, group string, topic stream.Topic) (left stream.Offset, err error) {
	for i := range topic.Partitions {
		p := stream.Partition{Topic: topic.Name, Index: i}
		_, next, err := log.Offsets(ctx, p)
		committed, err1 := log.Committed(ctx, group, p)
		if err := errors.Join(err, err1); err != nil {
			return 0, err
		}
		left += next - committed
	}
	return left, nil
}

// RunUntilRead runs until a group committed all records of a topic.
func RunUntilRead(ctx context.Context, log Log, group string, topic stream.Topic, run func(ctx context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(running) }()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	left, err := stream.Offset(1), error(nil)
	for ; left > 0 && err == nil; <-ticker.C {
		if left, err = Left(ctx, log, group, topic); ctx.Err() != nil {
			err = fmt.Errorf("the child hangs: %w", ctx.Err())
		}
	}
	stop()
	return errors.Join(err, <-done)
}

// Letters returns the ids of the dead letters of a group.
func Letters(t *testing.T, dir, brokers, group string) (ids []string) {
	t.Helper()
	log, err := OpenLog(t.Context(), dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for l, err := range deadletter.Letters(t.Context(), log, group, deadletter.Filter{}, true) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.ID)
	}
	return ids
}
