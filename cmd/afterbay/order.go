package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type orderCommand struct {
	Status orderStatusCommand `cmd:"" help:"Show the position of each source partition, how many events wait, and the source partition that they wait for."`
	Skip   orderSkipCommand   `cmd:"" help:"Stop waiting for a source partition, up to now. Its earlier events are then forced when they arrive. The log records the skip, so a replay gives the same result. A process must run the pipeline."`
}

type orderStatusCommand struct {
	Pipeline string `arg:"" optional:"" help:"Name of the pipeline. The default is all pipelines of the process that read several partitions in one order."`
	directoryFlags
	JSON bool `name:"json" help:"Print what GET /v1/order replies with: pipelines, a list of pipeline, order, held, forced, late, sources, stages and partitions; times in seconds."`
}

type orderSkipCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Source   string `required:"" help:"Source partition that events wait for." placeholder:"TOPIC/PARTITION"`
	directoryFlags
}

// Run prints the partitions that events wait for.
func (c *orderStatusCommand) Run(a *app) error {
	client, err := c.process(a, errors.New("no process here knows the waiting events: start afterbay run, and name its directory with --data or, on Kafka, its address with --url http://host:port"))
	if err != nil {
		return err
	}
	all, err := client.Orders(a.ctx, c.Pipeline)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(all)
	}
	if len(all.Pipelines) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no pipeline of the process reads several partitions in one order: only those with repartition or inputs do")
		return err
	}
	for i := range all.Pipelines {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := report.WriteOrder(a.stdout, &all.Pipelines[i]); err != nil {
			return err
		}
	}
	return nil
}

// Run skips a source partition.
func (c *orderSkipCommand) Run(a *app) error {
	client, err := c.process(a, fmt.Errorf("no known process runs pipeline %q: start afterbay run; for a process elsewhere give its address with --url", c.Pipeline))
	if err != nil {
		return err
	}
	done, err := client.Skip(a.ctx, c.Pipeline, c.Source)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s is skipped up to now: %s waited for it. Its earlier events are forced when they arrive\n", done.Source, counted(done.Held, "event"))
	return err
}
