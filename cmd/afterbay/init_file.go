package main

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/scaffold"
	"github.com/afterbay/afterbay/internal/process"
)

// file samples a file of events.
func (c *initCommand) file(a *app) (*sampled, error) {
	events, err := a.openEvents(c.Sample, c.Format)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	name := events.Name
	if c.Sample == "-" {
		name = "" // the name of the topic is derived from it
	}
	found, err := scaffold.Infer(events, scaffold.Options{Name: name, Format: events.Format, NoHeader: c.NoHeader, Key: c.Key, Time: c.Time})
	if err != nil {
		return nil, err
	}
	where := "of"
	if found.Partial {
		where = fmt.Sprintf("in the first %d lines of", found.Events+found.Malformed)
	}
	file := c.Sample
	if file == "-" {
		file = "events.ndjson"
	}
	out, file := process.ShellWord(c.Out), process.ShellWord(file)
	format, key, try := "", " --key "+process.ShellWord(found.KeyPath()), ""
	switch {
	case c.NoHeader: // each line is a whole event
		format, key, try = " --format ndjson", "", " --format ndjson"
	case events.Format == ingest.CSV:
		format = " --format csv"
	}
	return &sampled{Findings: found, count: where + " " + events.Name, lines: "lines are not JSON objects", next: []string{
		fmt.Sprintf("try %s %s%s", out, file, try),
		fmt.Sprintf("produce %s %s%s --partitions %d%s", found.Topic, file, format, compile.DefaultPartitions, key),
		fmt.Sprintf("run %s --until-idle", out),
		fmt.Sprintf("tail %s --limit 5", found.Output()),
	}}, nil
}
