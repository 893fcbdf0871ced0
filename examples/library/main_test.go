package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/stream"
)

// TestPostedClicksBecomeVisits posts clicks, reads the visit that has ended from the stream,
// and ends the service while the stream is open. Another one goes on with the state.
func TestPostedClicksBecomeVisits(t *testing.T) {
	dir := t.TempDir()
	for _, clicks := range [][]string{
		{`{"user":"ann","page":"home","at":1767258000}`, `{"user":"ann","page":"shoes","at":1767258020}`},
		{`{"user":"ann","page":"hats","at":1767261000}`},
	} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		read, logs := io.Pipe()
		go func() {
			err := serve(ctx, dir, "127.0.0.1:0", slog.New(slog.NewTextHandler(logs, nil)))
			logs.Close()
			ended <- err
		}()
		url := addressIn(t, read)
		for _, click := range clicks {
			reply, err := http.Post(url+"/clicks", "application/json", strings.NewReader(click))
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
			if reply.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", click, reply.Status)
			}
		}
		if len(clicks) == 1 { // the first visit has ended
			reply, err := http.Get(url + "/visits")
			if err != nil {
				t.Fatal(err)
			}
			visit, err := bufio.NewReader(reply.Body).ReadString('\n')
			if want := `{"user":"ann","clicks":2,"start":"2026-01-01T09:00:00Z","end":"2026-01-01T09:00:20Z","last":"shoes"}` + "\n"; err != nil || visit != want {
				t.Errorf("the visit is %s, %v, want %s", visit, err, want)
			}
			defer reply.Body.Close() // later than the service
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// addressIn returns the URL that a service logs, and reads on.
func addressIn(t *testing.T, logs io.Reader) (url string) {
	t.Helper()
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		if _, url, found := strings.Cut(lines.Text(), "url="); found {
			go func() {
				for lines.Scan() {
				}
			}()
			return url
		}
	}
	t.Fatal("the service logs no address")
	return ""
}

// TestServiceEndsBySIGTERM runs the program, which is this test in another process, and ends it
// as Kubernetes and systemd do.
func TestServiceEndsBySIGTERM(t *testing.T) {
	if os.Getenv("AFTERBAY_RUN_MAIN") != "" {
		os.Args = []string{"library", "127.0.0.1:0"}
		main()
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServiceEndsBySIGTERM$")
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), "AFTERBAY_RUN_MAIN=1")
	logs, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	url := addressIn(t, logs)
	reply, err := http.Post(url+"/clicks", "application/json", strings.NewReader(`{"user":"ann","page":"home","at":1767258000}`))
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestVisitsEndAfterSilence compares with visits.txt, in memory and on disk, in
// steps of all sizes, killed at every stage.
func TestVisitsEndAfterSilence(t *testing.T) {
	scenario.Test(t, "visits.txt", scenario.Options{Code: code})
}

// TestVisitsAreTheSameUnderFaults sees a step that reads a clock, randomness or
// a variable: its outputs differ when commits are lost and members change. It uses internal
// packages, which a module of yours cannot import: there a scenario, as above, sees the same.
func TestVisitsAreTheSameUnderFaults(t *testing.T) {
	var clicks []stream.Record
	for i := range 500 {
		user, at := fmt.Sprint("user-", i*i%17), 1767258000+i*40
		clicks = append(clicks, stream.Record{
			Partition: stream.Partition{Topic: "clicks", Index: stream.ByKey}, Time: time.Unix(int64(at), 0),
			Key: []byte(user), Value: fmt.Appendf(nil, `{"user":%q,"page":"p%d","at":%d}`, user, i%5, at),
		})
	}
	file, err := lang.Parse("pipeline.yaml", pipeline, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	newLog := func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) }
	newRunner := func() (answers.Runner, error) {
		p := file.Pipelines[0]
		p.Code = code
		return builtin.New(p, running.Options{Members: 2})
	}
	answers.SameAnswer(t, newLog, newRunner, clicks, 10)
}
