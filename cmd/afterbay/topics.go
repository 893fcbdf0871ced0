package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
)

type topicsCommand struct{ directoryFlags }

// Run lists the topics.
func (c *topicsCommand) Run(a *app) (err error) {
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
		key := t.Key
		if key == "" {
			key = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", t.Name, key, len(t.Partitions), records, offsets)
	}
	return table.Flush()
}
