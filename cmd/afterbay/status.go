package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
)

type statusCommand struct {
	directoryFlags
	JSON bool `name:"json" help:"Print what GET /v1/status replies with, times in seconds."`
}

// Run prints what the pipelines of a process do.
func (c *statusCommand) Run(a *app) error {
	client, err := c.process(a, errors.New("no process runs here that knows the status of pipelines: start afterbay run, and name its directory with --data or, on Kafka, its address with --url http://host:port"))
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

// statusTables are the tables of a status: one that has no rows is not printed.
var statusTables = []struct {
	head string
	rows func(p *admin.PipelineStatus, row func(format string, args ...any))
}{
	{"PIPELINE\tEVENTS\tOUTPUTS\tDEAD LETTERS\tLAG\tQUEUED\tP50\tP99\t", func(p *admin.PipelineStatus, row func(string, ...any)) {
		note := ""
		if p.Stopped != nil {
			note = "stopped: afterbay dlq stats " + p.Name
		}
		if p.Ended != "" {
			note = "ended: " + p.Ended
		}
		row("%d\t%d\t%d\t%d\t%d\t%v\t%v\t%s", p.Counts.Events, p.Counts.Outputs, p.Counts.DeadLetters, p.Lag, p.Queued, seconds(p.Times.P50), seconds(p.Times.P99), note)
	}},
	{"PIPELINE\tCASE\tEVENTS\tP50\tP99\tBUDGET\tMISSED", func(p *admin.PipelineStatus, row func(string, ...any)) {
		for _, w := range p.Cases {
			limit := "-"
			if w.Limit > 0 {
				limit = seconds(w.Limit).String()
			}
			row("%s\t%d\t%v\t%v\t%s\t%d", w.Case, w.Events, seconds(w.P50), seconds(w.P99), limit, w.Missed)
		}
	}},
	{"PIPELINE\tMODEL\tROWS\tREFUSED\tFAULTS\tRATE", func(p *admin.PipelineStatus, row func(string, ...any)) {
		for _, s := range p.Scored {
			row("%s\t%d\t%d\t%d\t%.1f%%", s.Model, s.Rows, s.Refused, s.Faults, 100*float64(s.Refused+s.Faults)/max(1, float64(s.Rows)))
		}
	}},
	{"PIPELINE\tENDPOINT OF\tSTATE\tCALLS\tFAULTS\tRATE\tRUNNING\tLIMIT", func(p *admin.PipelineStatus, row func(string, ...any)) {
		for _, e := range p.Endpoints {
			row("%s\t%s\t%d\t%d\t%.1f%%\t%d\t%d", e.Model, e.State, e.Calls, e.Faults, 100*float64(e.Faults)/max(1, float64(e.Calls)), e.Running, e.Limit)
		}
	}},
	{"PIPELINE\tJOURNAL OF\tCALLS\tHITS\tAGAIN\tUNITS PAID\tUNITS SAVED", func(p *admin.PipelineStatus, row func(string, ...any)) {
		for _, m := range p.Journal {
			row("%s\t%d\t%d\t%d\t%d\t%d", m.Model, m.Calls, m.Hits, m.Again, m.Paid, m.Saved)
		}
	}},
	{"PIPELINE\tGROUP\tOPEN\tSTATE\tDUPLICATES\tLATE", func(p *admin.PipelineStatus, row func(string, ...any)) {
		for _, g := range p.Groups {
			row("%s\t%d\t%.1f MiB\t%d\t%d", g.Group, g.Open, float64(g.Bytes)/(1<<20), g.Duplicates, g.Late)
		}
	}},
	{"PIPELINE\tSINK\tDELIVERED\tOLDER\tREPEATED\tCALLS\tFAILED\tDEAD LETTERS\tWAITING\tFRESH P50\tFRESH P99\t", func(p *admin.PipelineStatus, row func(string, ...any)) {
		for _, s := range p.Sinks {
			note := ""
			if s.Resting {
				note = "fails: it is only probed"
			}
			row("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%s", s.Sink, s.Delivered, s.Older, s.Repeated, s.Calls, s.Failures, s.Dead, s.Waiting, seconds(s.Fresh.P50), seconds(s.Fresh.P99), note)
		}
	}},
}

func printStatus(out io.Writer, status *admin.Status, now time.Time) error {
	fmt.Fprintf(out, "afterbay %s, process %d, since %v\n", status.Version, status.PID, now.Sub(status.Started).Round(time.Second))
	for _, t := range statusTables {
		table, begun := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.TabIndent), false
		for i := range status.Pipelines {
			p := &status.Pipelines[i]
			t.rows(p, func(format string, args ...any) {
				if !begun {
					begun = true
					fmt.Fprintf(table, "\n%s\n", t.head)
				}
				fmt.Fprintf(table, "%s\t"+format+"\n", append([]any{p.Name}, args...)...)
			})
		}
		if err := table.Flush(); err != nil {
			return err
		}
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
			made = fmt.Sprintf("%s since the start, the newest took %v", counted(int(c.Number), "checkpoint"), seconds(c.Took))
		}
		if _, err := fmt.Fprintf(out, "state: %.1f MiB on disk; %s\nafter a crash, a restart replays the last %s of the log\n",
			float64(c.Bytes)/(1<<20), made, counted(int(c.Behind), "write")); err != nil {
			return err
		}
	}
	return nil
}
