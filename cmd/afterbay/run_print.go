package main

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
)

// announce prints the running pipelines, their addresses, and the commands to type next.
func (c *runCommand) announce(a *app, e *process.Engine, running process.Running) {
	if e.Shared() {
		fmt.Fprintf(a.stdout, "log %s, state copied to %s\n", e.Config.Describe(), running.Dir)
	} else {
		fmt.Fprintf(a.stdout, "%s %s\n", e.Config.Describe(), running.Dir)
	}
	arrivals := pipeline.Arrivals(process.Runners(running.Pipelines))
	for i, one := range running.Pipelines {
		fmt.Fprintf(a.stdout, "pipeline %s reads %s\n", one.Runner.Name(), one.Describe())
		for _, w := range slices.Concat(one.Runner.Warnings, arrivals[i]) {
			fmt.Fprintf(a.stdout, "  warning: %s\n", w)
		}
	}
	if running.URL != "" {
		fmt.Fprintf(a.stdout, "listening on %s: POST /v1/topics/{topic}, /metrics, /healthz, /readyz, /v1/status\n", running.URL)
	}
	if running.Gateway != nil && running.Gateway.Address() != "" {
		announceGateway(a, running.Gateway)
	}
	if running.URL == "" || c.UntilIdle {
		return
	}
	data := engineFlag(e, running.Dir)
	runner := running.Pipelines[0].Runner
	first := fmt.Sprintf("produce %s events.ndjson%s", runner.Input(), data)
	if running.Gateway != nil {
		first = fmt.Sprintf("token issue --keys %s --key ID --tenant NAME --client NAME", running.Gateway.File().Keys)
	}
	fmt.Fprintf(a.stdout, "next, in another terminal:\n  afterbay %s\n  afterbay tail %s --follow%s\n", first, runner.Outputs()[0], data)
}

// sumUp prints the totals of a pipeline and its sinks.
func sumUp(a *app, runner *pipeline.Runner) {
	s := runner.Snapshot()
	c := &s.Counts
	fmt.Fprintf(a.stdout, "pipeline %s: %d events, %d outputs, %d dead letters, %d late\n", runner.Name(), c.Events, c.Outputs, c.DeadLetters, c.Late)
	for _, m := range s.Sinks {
		fmt.Fprintf(a.stdout, "sink %s.%s: %d delivered, %d repeated, %d dead letters, %d failed calls\n",
			s.Name, m.Sink, m.Delivered, m.Repeated, m.Dead, m.Failures)
	}
}
