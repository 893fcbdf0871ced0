package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// Skip is a command to stop waiting for a source partition, up to a time.
type Skip struct {
	Source string    `json:"skip"` // topic/partition
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// Skipped is the result of a Skip.
type Skipped struct {
	Source string `json:"source"`
	Held   int    `json:"held"` // events that waited for it
}

// skipAfter is how long events must wait for a source before it can be skipped. All sources of a
// busy pipeline hold events for a moment.
const skipAfter = time.Second

// Skip writes to the log that the events up to s.At no longer wait for a source partition. It
// returns an error if no event waits for the partition, or if stages wait for values that events
// return. Later events of the partition up to that time are forced: they are released at once. A
// replay reads the same records.
func (r *Runner) Skip(ctx context.Context, log stream.Log, s Skip) (done Skipped, err error) {
	o := r.Order(s.At)
	switch {
	case o == nil:
		return done, fmt.Errorf("pipeline %q waits for no source partition: it reads %s in its own order. Only pipelines with repartition or inputs wait", r.Name(), r.Input())
	case r.Plan.Arrival:
		return done, fmt.Errorf("pipeline %q waits for no source partition: it has order: arrival", r.Name())
	case len(r.Plan.Returns) > 0: // a later event could get another place in a stage
		return done, fmt.Errorf("pipeline %q has features by another field with a delay: an earlier event of the source would stop it. Set idle of the input: then the pipeline does not wait for a source without events", r.Name())
	}
	if err := o.mayskip(s.Source); err != nil {
		return done, err
	}
	source := o.source(s.Source)
	plan := r.copier(source.number)
	text, err := json.Marshal(s)
	if err != nil {
		return done, err
	}
	records := order.Marks{order.Skip(source.number, s.At.UnixMicro())}.Records(append([]string{plan.Outputs[0]}, plan.Copy.Stages...), plan.Copy.Partitions, s.At)
	for i := range records {
		records[i].Value = text
	}
	if err := log.Append(ctx, records...); err != nil {
		return done, fmt.Errorf("skip %s: %w: run the same command again to complete it", s.Source, err)
	}
	r.logger.Warn("a source partition is skipped: its events up to now are forced when they arrive", "pipeline", r.Name(), "source", s.Source, "by", s.By)
	return Skipped{s.Source, source.Holds}, nil
}

// mayskip returns an error if a source partition cannot be skipped.
func (o *Order) mayskip(name string) error {
	s, holder := o.source(name), o.Holder()
	see := "afterbay order status " + o.Pipeline
	switch {
	case len(o.Sources) == 0:
		return fmt.Errorf("this process reads no partition of pipeline %q: ask another one, with --url", o.Pipeline)
	case s == nil:
		return fmt.Errorf("%q is not a source partition of pipeline %q: it has %s", name, o.Pipeline, strings.Join(o.names(), ", "))
	case s.Holds == 0 && holder == nil:
		return fmt.Errorf("in this process no event of pipeline %q waits for a source partition: see %s", o.Pipeline, see)
	case s.Holds == 0:
		return fmt.Errorf("no event waits for %s: pipeline %q waits for %s. Skip that, or see %s", name, o.Pipeline, holder.Source, see)
	case s.For < skipAfter.Seconds():
		return fmt.Errorf("events have waited for %s for less than %v, and may continue without a skip: try again after that time", name, skipAfter)
	}
	return nil
}

// source returns a source partition by its name, or nil if it does not exist.
func (o *Order) source(name string) *OrderSource {
	i := slices.IndexFunc(o.Sources, func(s OrderSource) bool { return s.Source == name })
	if i < 0 {
		return nil
	}
	return &o.Sources[i]
}

// names lists the source partitions.
func (o *Order) names() (list []string) {
	for _, s := range o.Sources {
		list = append(list, s.Source)
	}
	return list
}
