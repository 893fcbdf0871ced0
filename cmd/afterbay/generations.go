package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

type generationsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	JSON bool `name:"json" help:"Print one object of JSON: pipeline, mixed, partitions, a list of partition, generation, fingerprint, from, since, and reprocessed, a list of generation, group, models, begun, live."`
}

// generationsReport is what generations prints.
type generationsReport struct {
	Pipeline   string            `json:"pipeline"`
	Mixed      bool              `json:"mixed"` // partitions have different ones
	Partitions []partitionReport `json:"partitions"`
	Derived    []derivedReport   `json:"reprocessed"`
}

// partitionReport says which generation computes a partition.
type partitionReport struct {
	Partition   int32          `json:"partition"`
	Generation  uint64         `json:"generation"`
	Fingerprint string         `json:"fingerprint"`    // of the pipeline
	From        *stream.Offset `json:"from,omitempty"` // where it was handed over
	Since       *time.Time     `json:"since,omitempty"`
}

// derivedReport is a generation that was reprocessed.
type derivedReport struct {
	Generation uint64    `json:"generation"`
	Group      string    `json:"group"`
	Models     []string  `json:"models"`
	Begun      time.Time `json:"begun"`
	Live       int       `json:"live"` // partitions that it was given
}

// Run says which generations compute the partitions of a pipeline.
func (c *generationsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	report, err := c.read(a, directory)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(report)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tGENERATION\tFROM OFFSET\tSINCE\tFINGERPRINT")
	for _, p := range report.Partitions {
		from, since := "-", "-"
		if p.From != nil {
			from, since = fmt.Sprint(*p.From), p.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\n", p.Partition, p.Generation, from, since, p.Fingerprint)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, d := range report.Derived {
		text := append([]string{"reprocessed from " + d.Begun.Format(time.RFC3339) + " on"}, d.Models...)
		text = append(text, fmt.Sprintf("live in %d of %d partitions", d.Live, len(report.Partitions)))
		fmt.Fprintf(a.stdout, "generation %d: %s\n", d.Generation, strings.Join(text, ", "))
	}
	if report.Mixed {
		fmt.Fprintln(a.stdout, "mixed: partitions have different generations")
	}
	return nil
}

// read gathers the report from state and from the topic of generations.
func (c *generationsCommand) read(a *app, directory admin.Directory) (report generationsReport, err error) {
	report = generationsReport{Pipeline: c.Pipeline, Partitions: []partitionReport{}, Derived: []derivedReport{}}
	for e, err := range directory.EntriesOf(a.ctx, c.Pipeline, statekey.Generation) {
		if err != nil {
			return report, err
		}
		n, fingerprint, err := generation.ParseStored(e.Value)
		if err != nil {
			return report, fmt.Errorf("state of %q beside partition %d: %w", c.Pipeline, e.Partition, err)
		}
		report.Partitions = append(report.Partitions, partitionReport{Partition: e.Partition, Generation: n, Fingerprint: fingerprint})
	}
	q := admin.Query{Topic: generation.Topic(c.Pipeline), Partition: admin.AllPartitions}
	for r, err := range directory.Records(a.ctx, q) {
		if errors.Is(err, stream.ErrUnknownTopic) {
			break // none was reprocessed
		}
		var begun *generation.Begun
		var live *generation.Live
		if err == nil {
			begun, live, err = generation.Parse(&r)
		}
		if err != nil {
			return report, err
		}
		if begun != nil {
			report.Derived = append(report.Derived, derivedReport{Generation: begun.Generation, Group: generation.Group(c.Pipeline, begun.Generation), Models: begun.Models, Begun: begun.Time})
		}
		if live != nil {
			report.give(live)
		}
	}
	for _, p := range report.Partitions {
		report.Mixed = report.Mixed || p.Generation != report.Partitions[0].Generation
	}
	return report, nil
}

// give notes that a partition was handed over.
func (r *generationsReport) give(l *generation.Live) {
	for i := range r.Derived {
		if r.Derived[i].Generation == l.Generation {
			r.Derived[i].Live++
		}
	}
	i := slices.IndexFunc(r.Partitions, func(p partitionReport) bool { return p.Partition == l.Partition })
	if i < 0 {
		r.Partitions = append(r.Partitions, partitionReport{Partition: l.Partition})
		i = len(r.Partitions) - 1
	}
	p := &r.Partitions[i]
	p.From, p.Since, p.Generation = &l.Offset, &l.Time, max(p.Generation, l.Generation)
}
