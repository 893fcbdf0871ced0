package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/inspect"
)

type lagCommand struct {
	Pipeline string `arg:"" optional:"" help:"Name of a pipeline or group; without it all of them."`
	directoryFlags
	JSON  bool `name:"json" help:"Print one object of JSON: lag, a list of group, topic, partition, committed, next, records, seconds; of a process that runs, sources, a list of pipeline, topic, queue, state, waiting, max, high, low, switches, throttled_seconds, refused."`
	Watch bool `help:"Print again every second, until a signal ends the command." short:"w"`
}

const lagWatchEvery = time.Second

// Run prints how far pipelines are behind.
func (c *lagCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if _, ok := directory.(*inspect.Local); ok && c.Watch && !c.engine.Shared() { // while this command watches, no other process can open it
		return fmt.Errorf("no process runs in %s, so there is nothing to watch: start afterbay run, or leave out --watch", c.Data)
	}
	for first := true; ; first = false {
		all, err := c.measure(a, directory)
		if err == nil {
			err = c.print(a, all, first)
		}
		if err != nil || !c.Watch {
			if a.ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-a.ctx.Done():
			return nil
		case <-time.After(lagWatchEvery):
		}
	}
}

// measure asks the process that runs the pipelines, because it also knows the lag of their sources.
// If no process runs, measure reads the log.
func (c *lagCommand) measure(a *app, directory inspect.Directory) (all admin.Lags, err error) {
	if client, ok := directory.(*admin.Client); ok {
		return client.Lags(a.ctx, c.Pipeline)
	}
	all.Lag, err = directory.Lag(a.ctx, c.Pipeline)
	return all, err
}

func (c *lagCommand) print(a *app, all admin.Lags, first bool) error {
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(all)
	}
	if !first {
		fmt.Fprintln(a.stdout)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tTOPIC\tPARTITION\tCOMMITTED\tNEXT\tRECORDS\tBEHIND")
	for _, l := range all.Lag {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%v\n", l.Group, l.Topic, l.Partition, l.Committed, l.Next, l.Records, l.Age().Round(time.Millisecond))
	}
	if len(all.Sources) == 0 {
		return table.Flush()
	}
	fmt.Fprintln(table, "\nPIPELINE\tTOPIC\tQUEUE\tSTATE\tWAITING\tOF\tSWITCHES\tTHROTTLED")
	for _, s := range all.Sources {
		throttled := time.Duration(s.ThrottledSeconds * float64(time.Second)).Round(time.Millisecond)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%v\n", s.Pipeline, s.Topic, s.Queue, s.State, s.Waiting, s.Max, s.Switches, throttled)
	}
	return table.Flush()
}
