package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/test/seeds"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/stream"
)

const typescript = "../clients/typescript"

// node returns a command of Node.js in the folder of the client for browsers.
// Before version 22 a flag gives it the WebSocket of browsers.
func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but there is no node: make deps installs one")
		}
		t.Skip("there is no node")
	}
	// A result of this test that is kept is of files that the test itself has read.
	err = filepath.WalkDir(typescript, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--experimental-websocket"}, args...)...)
	cmd.Dir = typescript
	return cmd
}

func TestClientInTypeScript(t *testing.T) {
	out, err := node(t, "--test", "--test-reporter=tap", "test/client.test.js").CombinedOutput()
	count := func(what string) int {
		found := regexp.MustCompile(`(?m)^# ` + what + ` (\d+)$`).FindSubmatch(out)
		if found == nil {
			return -1
		}
		n, _ := strconv.Atoi(string(found[1]))
		return n
	}
	if pass := count("pass"); err != nil || pass < 20 || pass != count("tests") {
		t.Errorf("%v, %d of %d tests pass\n%s", err, pass, count("tests"), out)
	}
}

// TestTypesOfTheClient compiles what applications write, as strictly as there is.
func TestTypesOfTheClient(t *testing.T) {
	modules := servertest.NodeModules(t)
	cmd := node(t, filepath.Join(modules, "typescript", "bin", "tsc"), "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess",
		"--target", "es2022", "--lib", "es2023,dom", "--module", "nodenext", "--types", "", "test/types.ts")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestClientInTypeScriptAgainstGatewaysThatComeAndGo runs it as browsers do, over
// connections of which the first ones are cut after any byte, while the gateway is
// replaced by another one.
func TestClientInTypeScriptAgainstGatewaysThatComeAndGo(t *testing.T) {
	const cuts, events = 2, 200
	seeds.Run(t, 2, func(t *testing.T, random *rand.Rand) {
		w := newWorld(t)
		defer w.close()
		options := gateway.Options{DrainWindow: 100 * time.Millisecond, PendingLimit: 16}
		stop := sync.OnceFunc(w.start(options))
		defer stop()
		address, end := w.proxy(cuts, random)
		defer end()
		c := drive(t, node(t, "testdata/drive.js", "ws://"+address, "acme.ada", fmt.Sprint(events), "64"))
		got := c.read(events/4, false)
		stop()
		stop = sync.OnceFunc(w.start(options))
		defer stop()
		got = append(got, c.read(0, true)...)
		// All events were accepted. What was sent twice may still be on its way to the log.
		stop()
		for w.unjudged() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.missing("ada", events); n > 0 {
			t.Errorf("%d events were accepted and have no result", n)
		}
		defer w.start(options)()
		got = append(got, c.read(len(w.resultsOf("ada"))-len(got), false)...)
		c.finish()
		w.compare("ada", got)
	})
}

// unjudged returns how many events of the log have no result yet.
func (w *world) unjudged() (n stream.Offset) {
	for topic, sign := range map[string]stream.Offset{"inbox": 1, "results": -1} {
		for p := range int32(partitions) {
			_, next, err := w.log.Offsets(w.Context(), stream.Partition{Topic: topic, Index: p})
			w.ok(err)
			n += sign * next
		}
	}
	return n
}

// missing returns how many events of a client have no result.
func (w *world) missing(name string, events int) int {
	done := map[string]bool{}
	for _, r := range w.resultsOf(name) {
		done[r.Event] = true
	}
	return events - len(done)
}

// proxy hands connections of TCP to the gateway that serves. The first ones are cut
// after a random number of bytes.
func (w *world) proxy(cuts int, random *rand.Rand) (address string, end func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.ok(err)
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reads, writes := 1<<40, 1<<40
			if n < cuts {
				reads, writes = random.Intn(12_000), random.Intn(12_000)
			}
			group.Go(func() { w.relay(&cut{conn, reads, writes}) })
		}
	})
	return l.Addr().String(), func() { _ = l.Close(); group.Wait() }
}

// relay hands over bytes until one of both sides ends.
func (w *world) relay(here net.Conn) {
	there, err := w.dial(w.Context(), "", "")
	if err != nil {
		_ = here.Close()
		return
	}
	var group sync.WaitGroup
	for _, ends := range [][2]net.Conn{{here, there}, {there, here}} {
		group.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			_ = here.Close()
			_ = there.Close()
		})
	}
	group.Wait()
}

// driven is a process of testdata/drive.js.
type driven struct {
	testing.TB
	cmd    *exec.Cmd
	in     io.Closer
	lines  *bufio.Scanner
	errors *strings.Builder
	sent   bool
}

func drive(t *testing.T, cmd *exec.Cmd) *driven {
	t.Helper()
	d := &driven{TB: t, cmd: cmd, errors: &strings.Builder{}}
	in, err := cmd.StdinPipe()
	if err == nil {
		d.in = in
		var out io.Reader
		out, err = cmd.StdoutPipe()
		d.lines = bufio.NewScanner(out)
	}
	if cmd.Stderr = d.errors; err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// read returns the next n results, or those until all events were accepted.
func (d *driven) read(n int, untilSent bool) (results []*client.Result) {
	d.Helper()
	for len(results) < n || untilSent && !d.sent {
		if !d.lines.Scan() {
			err := d.cmd.Wait()
			d.Fatalf("after %d results more it ends: %v, %v\n%s", len(results), d.lines.Err(), err, d.errors)
		}
		var line struct {
			client.Result
			Type string `json:"type"`
			Sent bool   `json:"sent"`
		}
		if err := json.Unmarshal(d.lines.Bytes(), &line); err != nil {
			d.Fatalf("%s: %v", d.lines.Bytes(), err)
		}
		switch {
		case line.Sent:
			d.sent = true
		case line.Type != "result":
			d.Errorf("it says %s", d.lines.Bytes())
		default:
			results = append(results, &line.Result)
		}
	}
	return results
}

// finish ends the process, which has no more results.
func (d *driven) finish() {
	d.Helper()
	_ = d.in.Close()
	for d.lines.Scan() {
		d.Errorf("one line more: %s", d.lines.Bytes())
	}
	if err := d.cmd.Wait(); err != nil {
		d.Errorf("%v\n%s", err, d.errors)
	}
	d.Logf("%s", d.errors)
}
