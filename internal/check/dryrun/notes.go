package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// follow copies tables into the replay, with instructions from the notes of the pipeline about when
// to read their rows. It skips tables that are read as of the event, and those with rows from
// files.
func (l *recorded) follow() error {
	p := l.part
	for _, topic := range p.runner.Tables() {
		given := slices.ContainsFunc(l.tables, func(text string) bool { return strings.HasPrefix(text, topic+":") })
		if p.runner.AsOfEvent(topic) || given {
			continue
		}
		if l.notes.Reads == nil {
			err := inspect.ReadNotes(l.ctx, l.directory, p.runner.Plan.Notes(), &l.notes)
			if err == nil {
				err = l.complete()
			}
			if err != nil {
				return failure.Usage("columns %s of pipeline %s are unknown: %v. Give the rows of a file with --table %s:KEY=FILE", strings.Join(p.found(topic), ", "), p.runner.Name(), err, topic)
			}
		}
		if err := l.mirror(topic); err != nil {
			return fmt.Errorf("rows of table %s: %w", topic, err)
		}
	}
	return nil
}

// complete returns an error if the notes begin after the events do.
func (l *recorded) complete() error {
	plan := l.part.runner.Plan
	var first map[int32]stream.Offset // first offsets of partitions with events
	if plan.Sources == nil {
		first = map[int32]stream.Offset{}
		about, err := inspect.Find(l.ctx, l.directory, plan.Topic)
		if err != nil {
			return err
		}
		committed, err := l.committed(plan.Topic)
		if err != nil {
			return err
		}
		for i, extent := range about.Partitions {
			if home := int32(i); extent.First < committed[home] {
				first[home] = extent.First
			}
		}
	}
	return inspect.NotesFrom(plan.Notes(), &l.notes, first)
}

// found returns the names introduced by lookups that find the newest rows of a table.
func (p *part) found(topic string) (names []string) {
	for s := range lang.EachStep(p.pipeline.Steps) {
		if l, ok := s.(*steps.Lookup); ok && l.Table == topic && l.Versions.AsOf != "event" {
			names = append(names, l.Name+".*")
		}
	}
	return names
}

// mirror copies the rows of a table from the log into the log of the replay.
func (l *recorded) mirror(topic string) error {
	about, err := inspect.Find(l.ctx, l.directory, topic)
	if err != nil {
		return err
	}
	if err := l.log.CreateTopic(l.ctx, stream.Topic{Name: topic, Partitions: int32(len(about.Partitions)), Key: about.Key}); err != nil {
		return err
	}
	for r, err := range l.directory.Records(l.ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
		if err == nil {
			err = l.log.Mirror(l.ctx, r)
		}
		if err != nil {
			return err
		}
	}
	if l.mirrored == nil {
		l.mirrored = map[string]bool{}
	}
	l.mirrored[topic] = true
	return nil
}

// tailMost limits how long a replay may read tables after its last event.
const tailMost = 10 * time.Second

// readTablesOut waits until the replay has read tables as far as the last notes say. After tailMost
// it returns anyway: the tables then differ from those of the live run, and a caller that compares
// them must check this.
func (r *Rows) readTablesOut(ctx context.Context) error {
	name := r.part.runner.Name()
	for begun := time.Now(); len(r.mirrored) > 0 && time.Since(begun) < tailMost; {
		read, err := inspect.TablesRead(ctx, inspect.NewLocal(r.log, nil, nil, nil), name, false)
		if err != nil {
			return err
		}
		out := true
		for home, notes := range r.notes.Reads {
			for _, n := range notes {
				for _, t := range n.Tables {
					out = out && (read[home][t.Partition] >= t.Next || !r.mirrored[t.Topic])
				}
			}
		}
		if out {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
