package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// healthOf in the environment makes the test binary a process that asks the URL that it
// names for health, until its standard input ends. A process of its own, since the
// attackers keep theirs busy: it would measure them.
const healthOf = "AFTERBAY_TEST_HEALTH_OF"

// health is what such a process saw.
type health struct {
	Probes  int
	Slowest time.Duration // with the tries that were turned away
	Failed  string
	Tries   []string // of the slowest
}

// runHealth is the process.
func runHealth(url string) int {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	var seen health
	for ctx.Err() == nil && seen.Failed == "" {
		seen.probe(client, url)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		return exitFailure
	}
	return exitOK
}

// probe asks until it has an answer, over a connection of its own each time. A connection
// may be closed, or turned away, beside thousands that come at once: it is asked again.
func (h *health) probe(client *http.Client, url string) {
	began := time.Now()
	var tries []string
	for {
		reply, err := client.Get(url)
		took := time.Since(began)
		status := http.StatusTooManyRequests
		if err != nil {
			tries = append(tries, fmt.Sprintf("%v: %v", took, err))
		} else {
			status = reply.StatusCode
			tries = append(tries, fmt.Sprintf("%v: %s", took, reply.Status))
			_ = reply.Body.Close()
		}
		if status != http.StatusTooManyRequests || took > time.Minute {
			if h.Probes++; took > h.Slowest {
				h.Slowest, h.Tries = took, tries
			}
			if status != http.StatusOK {
				h.Failed = fmt.Sprint(tries)
			}
			return
		}
	}
}

// watchHealth starts such a process for a surface. What it returns ends it and says what
// it saw.
func watchHealth(t *testing.T, s surface) func() health {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), healthOf+"=http://"+s.address+s.health)
	c.Stderr = os.Stderr
	in, out := piped(t, c)
	return sync.OnceValue(func() (seen health) {
		_ = in.Close()
		if err := json.NewDecoder(out).Decode(&seen); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
		return seen
	})
}
