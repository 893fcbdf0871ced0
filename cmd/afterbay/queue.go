package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
)

type queueCommand struct {
	Ls    queueLsCommand    `cmd:"" help:"List the events in the async queue of a pipeline, by partition and offset."`
	Retry queueRetryCommand `cmd:"" help:"Retry the calls of queued events now, before they are due. A process must run the pipeline."`
	Drop  queueDropCommand  `cmd:"" help:"Drop queued events: they become dead letters. A process must run the pipeline."`
}

type queueLsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	JSON bool `name:"json" help:"Print one object of JSON a line: partition, offset, key, waits (call or key), attempts, since, due, priority, tenant, error, bytes."`
}

type queueRetryCommand struct{ orderFlags }

type queueDropCommand struct{ orderFlags }

type orderFlags struct {
	Pipeline  string `arg:"" help:"Name of the pipeline."`
	Partition int32  `help:"Only events of this partition." default:"-1" placeholder:"N"`
	Offset    int64  `help:"Only the event at this offset." default:"-1" placeholder:"N"`
	directoryFlags
}

// Run lists the queued events.
func (c *queueLsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if c.JSON {
		out := json.NewEncoder(a.stdout)
		for e, err := range inspect.Queued(a.ctx, directory, c.Pipeline) {
			if err == nil {
				err = out.Encode(report.NewQueued(e))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tOFFSET\tKEY\tWAITS FOR\tATTEMPTS\tFOR\tERROR")
	for e, err := range inspect.Queued(a.ctx, directory, c.Pipeline) {
		if err != nil {
			return err
		}
		p := report.NewQueued(e)
		fmt.Fprintf(table, "%d\t%d\t%q\t%s\t%d\t%v\t%s\n", p.Partition, p.Offset, p.Key, p.Waits, p.Attempts, time.Since(p.Since).Round(time.Millisecond), p.Error)
	}
	return table.Flush()
}

// Run retries the calls of queued events.
func (c *queueRetryCommand) Run(a *app) error { return c.order(a, false, "called for") }

// Run gives up queued events.
func (c *queueDropCommand) Run(a *app) error { return c.order(a, true, "given up") }

func (c *orderFlags) order(a *app, drop bool, done string) error {
	client, err := c.process(a, fmt.Errorf("no known process runs pipeline %q: start afterbay run, which also retries queued events; for a process elsewhere give its address with --url", c.Pipeline))
	if err != nil {
		return err
	}
	n, err := report.Order(a.ctx, client, c.Pipeline, drop, c.Partition, c.Offset)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d events of %s are %s\n", n, c.Pipeline, done)
	return nil
}
