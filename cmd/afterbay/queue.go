package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/task/async"
)

type queueCommand struct {
	Ls    queueLsCommand    `cmd:"" help:"List the events in the async queue of a pipeline, by partition and offset."`
	Retry queueRetryCommand `cmd:"" help:"Call for queued events at once, before they are due. A process must run the pipeline."`
	Drop  queueDropCommand  `cmd:"" help:"Give queued events up: they become dead letters. A process must run the pipeline."`
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

// queuedEvent is an event of the async queue as queue ls prints it.
type queuedEvent struct {
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Key       string     `json:"key"`
	Waits     string     `json:"waits"` // for call, or for those of its key before it
	Attempts  int        `json:"attempts"`
	Since     time.Time  `json:"since"`
	Due       *time.Time `json:"due,omitempty"`
	Priority  string     `json:"priority"` // high, normal or low
	Tenant    string     `json:"tenant,omitempty"`
	Error     string     `json:"error,omitempty"`
	Bytes     int        `json:"bytes"`
}

func newQueuedEvent(e *async.Entry) queuedEvent {
	p := queuedEvent{
		Partition: e.Record.Partition.Index, Offset: int64(e.Record.Offset), Key: string(e.Record.Key), Waits: "call",
		Attempts: e.Attempts, Priority: e.Class.String(), Tenant: e.Tenant, Since: time.UnixMicro(e.Since).UTC(), Error: e.Error, Bytes: len(e.Record.Value),
	}
	if e.Behind {
		p.Waits = "key"
	}
	if e.Due != 0 {
		due := time.UnixMicro(e.Due).UTC()
		p.Due = &due
	}
	return p
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
		for e, err := range admin.Queued(a.ctx, directory, c.Pipeline) {
			if err == nil {
				err = out.Encode(newQueuedEvent(e))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tOFFSET\tKEY\tWAITS FOR\tATTEMPTS\tFOR\tERROR")
	for e, err := range admin.Queued(a.ctx, directory, c.Pipeline) {
		if err != nil {
			return err
		}
		p := newQueuedEvent(e)
		fmt.Fprintf(table, "%d\t%d\t%q\t%s\t%d\t%v\t%s\n", p.Partition, p.Offset, p.Key, p.Waits, p.Attempts, time.Since(p.Since).Round(time.Millisecond), p.Error)
	}
	return table.Flush()
}

// Run calls for queued events.
func (c *queueRetryCommand) Run(a *app) error { return c.order(a, false, "called for") }

// Run gives queued events up.
func (c *queueDropCommand) Run(a *app) error { return c.order(a, true, "given up") }

func (c *orderFlags) order(a *app, drop bool, done string) error {
	client, err := c.process(a, fmt.Errorf("no known process runs pipeline %q: start afterbay run, which also retries queued events; for a process elsewhere give its address with --url", c.Pipeline))
	if err != nil {
		return err
	}
	n, err := client.Order(a.ctx, c.Pipeline, async.Order{Drop: drop, Partition: c.Partition, Offset: c.Offset})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d events of %s are %s\n", n, c.Pipeline, done)
	return nil
}
