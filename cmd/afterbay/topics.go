package main

import (
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/sys/clean"
)

type topicsCommand struct {
	Ls     topicsLsCommand     `cmd:"" default:"withargs" help:"List the topics and their contents."`
	Delete topicsDeleteCommand `cmd:"" help:"Delete a topic and its records. It is refused while a pipeline, a table, a sink or a gateway of the process names it."`
}

type topicsLsCommand struct{ directoryFlags }

type topicsDeleteCommand struct {
	Topic string `arg:"" help:"Topic to delete. If it is created again, it begins after the last offset."`
	directoryFlags
}

// Run deletes a topic.
func (c *topicsDeleteCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if _, err := inspect.Find(a.ctx, directory, c.Topic); err != nil {
		return err
	}
	if err := directory.DeleteTopic(a.ctx, c.Topic); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "deleted topic %s\n", c.Topic)
	return nil
}

// Run lists the topics.
func (c *topicsLsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	topics, err := directory.List(a.ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TOPIC\tKEY\tPARTITIONS\tRECORDS\tOFFSETS")
	for _, t := range topics {
		records, offsets := int64(0), ""
		for i, p := range t.Partitions {
			records += int64(p.Next - p.First)
			if i > 0 {
				offsets += " "
			}
			offsets += fmt.Sprintf("%d-%d", p.First, p.Next)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", clean.Text(t.Name), cmp.Or(clean.Text(t.Key), "-"), len(t.Partitions), records, offsets)
	}
	return table.Flush()
}
