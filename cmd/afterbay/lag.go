package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/serve"
	"github.com/afterbay/afterbay/stream/embedded"
)

type lagCommand struct {
	Pipeline string `arg:"" optional:"" help:"Name of a pipeline or group; without it all of them."`
	directoryFlags
	JSON  bool `name:"json" help:"Print one object of JSON: lag, a list of group, topic, partition, committed, next, records, seconds."`
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
	if local, ok := directory.(*serve.Local); ok && c.Watch {
		if _, ok := local.Log.(*embedded.Log); ok { // which no process could open meanwhile
			return fmt.Errorf("no process runs in %s, so there is nothing to watch: start afterbay run, or leave out --watch", c.Data)
		}
	}
	for first := true; ; first = false {
		list, err := directory.Lag(a.ctx, c.Pipeline)
		if err == nil {
			err = c.print(a, list, first)
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

func (c *lagCommand) print(a *app, list []observe.Lag, first bool) error {
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(serve.Lags{Lag: list})
	}
	if !first {
		fmt.Fprintln(a.stdout)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tTOPIC\tPARTITION\tCOMMITTED\tNEXT\tRECORDS\tBEHIND")
	for _, l := range list {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%v\n", l.Group, l.Topic, l.Partition, l.Committed, l.Next, l.Records, l.Age().Round(time.Millisecond))
	}
	return table.Flush()
}
