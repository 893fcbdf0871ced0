package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
)

// signalled runs a command, ends it by a signal when it is at work, and returns its
// exit code and output.
func signalled(t *testing.T, stdin io.Reader, atWork <-chan struct{}, args ...string) (int, string) {
	t.Helper()
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	var out bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, stdin, &out, &out) }()
	select {
	case <-atWork:
	case c := <-code:
		t.Fatalf("%q ended by itself with %d: %s", args, c, out.String())
	}
	signal()
	select {
	case c := <-code:
		return c, out.String()
	case <-time.After(time.Minute):
		t.Fatalf("%q does not end", args)
		return 0, ""
	}
}

// waiting is a stream that has nothing to read.
type waiting struct{ read chan struct{} }

func (w waiting) Read([]byte) (int, error) {
	close(w.read)
	select {}
}

// TestFirstSignalEndsWhatACommandWaitsFor signals commands that read standard input, and
// ones that wait for the server of a model, which says nothing. run goes on when that
// server ends with the test, so its data directory is one that cannot be made.
func TestFirstSignalEndsWhatACommandWaitsFor(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	asked := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			asked <- struct{}{}
		}
	}()
	write(t, "mute.yaml", "model: mute\nversion: 1\nkind: remote\ninputs: {card: string}\noutputs: {word: string}\nremote: {endpoint: \"http://"+listener.Addr().String()+"/v1\", api: chat, chat: {prompt: 'say {card}'}}\n")
	write(t, "waits.yaml", "pipeline: waits\ninput: {topic: in, key: card, fields: {card: string}}\nmodels:\n  mute: {file: mute.yaml, version: 1, outputs: {word: string}}\nsteps:\n  - score: {model: mute, inputs: [card]}\n  - emit: {topic: out, value: [mute.word]}\n")
	for _, c := range []struct {
		stdin bool
		code  int
		line  string
	}{
		{true, exitFailure, "produce in - --data new"}, {true, exitFailure, "try counts.yaml -"},
		{false, exitOK, "run waits.yaml --listen none --data /dev/null/data"}, {false, exitFailure, "lint waits.yaml --connect"}, {false, exitFailure, "model verify mute.yaml"},
	} {
		in, atWork := io.Reader(strings.NewReader("")), (<-chan struct{})(asked)
		if c.stdin {
			w := waiting{make(chan struct{})}
			in, atWork = w, w.read
		}
		code, said := signalled(t, in, atWork, fields(c.line)...)
		if code != c.code || (code == exitFailure) != strings.Contains(said, errEnded.Error()) {
			t.Errorf("%s: exit code %d, want %d: %s", c.line, code, c.code, said)
		}
	}
}

// TestSignalWhileStartingIsNoFailure has the signal there before the log is asked for
// its topics.
func TestSignalWhileStartingIsNoFailure(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	ctx, signal := context.WithCancel(t.Context())
	signal()
	var out bytes.Buffer
	if code := run(ctx, []string{"run", "counts.yaml", "--listen", "none"}, strings.NewReader(""), &out, &out); code != exitOK {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

func TestOnlyCanceledErrorsAreEnds(t *testing.T) {
	wrapped := fmt.Errorf("list topics: %w", context.Canceled)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{wrapped, true}, {errors.Join(nil, wrapped), true}, {failure.As(failure.OfConnections, wrapped), true},
		{errors.Join(wrapped, errors.New("close: no space")), false}, {context.DeadlineExceeded, false}, {nil, false},
	} {
		if got := onlyCanceled(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
