package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/park"
	"github.com/afterbay/afterbay/serve"
)

type parkedCommand struct {
	Ls   parkedLsCommand   `cmd:"" help:"List the events that a pipeline has parked, by partition and offset."`
	Run  parkedRunCommand  `cmd:"" help:"Call for parked events at once, whenever they are due. A process has to run the pipeline."`
	Drop parkedDropCommand `cmd:"" help:"Give parked events up: they become dead letters. A process has to run the pipeline."`
}

type parkedLsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	JSON bool `name:"json" help:"Print one object of JSON a line: partition, offset, key, waits (call or key), attempts, since, due, class, tenant, error, bytes."`
}

type parkedRunCommand struct{ orderFlags }

type parkedDropCommand struct{ orderFlags }

type orderFlags struct {
	Pipeline  string `arg:"" help:"Name of the pipeline."`
	Partition int32  `help:"Only events of this partition." default:"-1" placeholder:"N"`
	Offset    int64  `help:"Only the event at this offset." default:"-1" placeholder:"N"`
	directoryFlags
}

// parkedEvent is a parked event as parked ls prints it.
type parkedEvent struct {
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Key       string     `json:"key"`
	Waits     string     `json:"waits"` // for call, or for those of its key before it
	Attempts  int        `json:"attempts"`
	Since     time.Time  `json:"since"`
	Due       *time.Time `json:"due,omitempty"`
	Class     string     `json:"class"` // high, normal or low
	Tenant    string     `json:"tenant,omitempty"`
	Error     string     `json:"error,omitempty"`
	Bytes     int        `json:"bytes"`
}

func newParkedEvent(e *park.Entry) parkedEvent {
	p := parkedEvent{
		Partition: e.Record.Partition.Index, Offset: int64(e.Record.Offset), Key: string(e.Record.Key), Waits: "call",
		Attempts: e.Attempts, Class: e.Class.String(), Tenant: e.Tenant, Since: time.UnixMicro(e.Since).UTC(), Error: e.Error, Bytes: len(e.Record.Value),
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

// Run lists the parked events.
func (c *parkedLsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if c.JSON {
		out := json.NewEncoder(a.stdout)
		for e, err := range serve.Parked(a.ctx, directory, c.Pipeline) {
			if err == nil {
				err = out.Encode(newParkedEvent(e))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tOFFSET\tKEY\tWAITS FOR\tATTEMPTS\tFOR\tERROR")
	for e, err := range serve.Parked(a.ctx, directory, c.Pipeline) {
		if err != nil {
			return err
		}
		p := newParkedEvent(e)
		fmt.Fprintf(table, "%d\t%d\t%q\t%s\t%d\t%v\t%s\n", p.Partition, p.Offset, p.Key, p.Waits, p.Attempts, time.Since(p.Since).Round(time.Millisecond), p.Error)
	}
	return table.Flush()
}

// Run calls for parked events.
func (c *parkedRunCommand) Run(a *app) error { return c.order(a, false, "called for") }

// Run gives parked events up.
func (c *parkedDropCommand) Run(a *app) error { return c.order(a, true, "given up") }

func (c *orderFlags) order(a *app, drop bool, done string) error {
	client, err := c.process(a, fmt.Errorf("no process is known that runs pipeline %q: start afterbay run, which also calls for what is parked; of one elsewhere give the address with --url", c.Pipeline))
	if err != nil {
		return err
	}
	n, err := client.Order(a.ctx, c.Pipeline, park.Order{Drop: drop, Partition: c.Partition, Offset: c.Offset})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d events of %s are %s\n", n, c.Pipeline, done)
	return nil
}
