package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

type statusCommand struct {
	directoryFlags
	JSON bool `name:"json" help:"Print what GET /v1/status replies with, times in seconds."`
}

// Run prints the status of the pipelines of a process.
func (c *statusCommand) Run(a *app) error {
	client, err := c.process(a, errors.New("no process here knows the status of pipelines: start afterbay run, and name its directory with --data or, on Kafka, its address with --url http://host:port"))
	if err != nil {
		return err
	}
	status, err := client.Status(a.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(status)
	}
	return printStatus(a.stdout, &status, time.Now())
}

func printStatus(out io.Writer, status *admin.Status, now time.Time) error {
	fmt.Fprintf(out, "afterbay %s, process %d, since %v\n", status.Version, status.PID, now.Sub(status.Started).Round(time.Second))
	if err := status.Print(out); err != nil {
		return err
	}
	if g := status.Gateway; g != nil && g.Ended != "" {
		fmt.Fprintf(out, "\ngateway %s ended: %s\n", g.Name, g.Ended)
	}
	if len(status.Pipelines) > 0 {
		fmt.Fprint(out, "\nLAG: records that are not committed yet. P50, P99: times of events, see afterbay budget PIPELINE\n")
	}
	if c := status.Checkpoint; c != nil {
		made := "no checkpoint since the start"
		if c.Number > 0 {
			made = fmt.Sprintf("%s since the start, the newest took %v", counted(int(c.Number), "checkpoint"), metric.Rounded(c.Took))
		}
		if _, err := fmt.Fprintf(out, "state: %.1f MiB on disk; %s\nafter a crash, a restart replays the last %s of the log\n",
			float64(c.Bytes)/(1<<20), made, counted(int(c.Behind), "write")); err != nil {
			return err
		}
	}
	return nil
}
