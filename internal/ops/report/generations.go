package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Generations is the output of the command generations.
type Generations struct {
	Pipeline   string            `json:"pipeline"`
	Mixed      bool              `json:"mixed"` // the partitions have different generations
	Partitions []partitionReport `json:"partitions"`
	Derived    []derivedReport   `json:"reprocessed"`
}

// partitionReport is the generation that computes a partition.
type partitionReport struct {
	Partition   int32          `json:"partition"`
	Generation  uint64         `json:"generation"`
	Fingerprint string         `json:"fingerprint"`    // of the pipeline
	From        *stream.Offset `json:"from,omitempty"` // offset at which the generation took over
	Since       *time.Time     `json:"since,omitempty"`
}

// derivedReport is a generation made by reprocessing.
type derivedReport struct {
	Generation uint64    `json:"generation"`
	Group      string    `json:"group"`
	Models     []string  `json:"models"`
	Begun      time.Time `json:"begun"`
	Live       int       `json:"live"` // number of partitions that it computes
}

// Write writes the generations as text.
func (r *Generations) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tGENERATION\tFROM OFFSET\tSINCE\tFINGERPRINT")
	for _, p := range r.Partitions {
		from, since := "-", "-"
		if p.From != nil {
			from, since = fmt.Sprint(*p.From), p.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\n", p.Partition, p.Generation, from, since, p.Fingerprint)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, d := range r.Derived {
		text := append([]string{"reprocessed from " + d.Begun.Format(time.RFC3339) + " on"}, d.Models...)
		text = append(text, fmt.Sprintf("live in %d of %d partitions", d.Live, len(r.Partitions)))
		fmt.Fprintf(out, "generation %d: %s\n", d.Generation, strings.Join(text, ", "))
	}
	if r.Mixed {
		fmt.Fprintln(out, "mixed: partitions have different generations")
	}
	return nil
}

// ReadGenerations reads the generations of a pipeline from state and from the topic of generations.
func ReadGenerations(ctx context.Context, directory inspect.Directory, pipeline string) (report Generations, err error) {
	report = Generations{Pipeline: pipeline, Partitions: []partitionReport{}, Derived: []derivedReport{}}
	for e, err := range directory.EntriesOf(ctx, pipeline, statekey.Generation) {
		if err != nil {
			return report, err
		}
		n, fingerprint, err := generation.ParseStored(e.Value)
		if err != nil {
			return report, fmt.Errorf("state of %q beside partition %d: %w", pipeline, e.Partition, err)
		}
		report.Partitions = append(report.Partitions, partitionReport{Partition: e.Partition, Generation: n, Fingerprint: fingerprint})
	}
	q := inspect.Query{Topic: generation.Topic(pipeline), Partition: inspect.AllPartitions}
	for r, err := range directory.Records(ctx, q) {
		if errors.Is(err, stream.ErrUnknownTopic) {
			break // no generation was reprocessed
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
			report.Derived = append(report.Derived, derivedReport{Generation: begun.Generation, Group: generation.Group(pipeline, begun.Generation), Models: begun.Models, Begun: begun.Time})
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

// give counts a partition that was handed over to a generation.
func (r *Generations) give(l *generation.Live) {
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
