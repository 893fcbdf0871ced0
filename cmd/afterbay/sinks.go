package main

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay"
)

// describeSinks says where the outputs of a pipeline go.
func (p pipeline) describeSinks() string {
	var text strings.Builder
	for _, s := range p.runner.Sinks() {
		fmt.Fprintf(&text, "\n  sink %s: %s to %s", s.Name, s.From, s.Config.Describe())
	}
	return text.String()
}

// sumUpSinks prints what the sinks did.
func (p *process) sumUpSinks(runner *afterbay.Runner) {
	for i, m := range runner.SinkMetrics() {
		fmt.Fprintf(p.stdout, "sink %s.%s: %d delivered, %d repeated, %d dead letters, %d failed calls\n",
			runner.Name(), runner.Sinks()[i].Name, m.Delivered.Load(), m.Repeated.Load(), m.Refused.Load(), m.Failures.Load())
	}
}
