package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// drain ends the process by SIGTERM while clients send events, and restarts it. It measures how the
// first reconnections of clients spread over time, because they load the gateway that takes over.
// Here no gateway answers until the process is back.
func drain(ctx context.Context, b *bench) error {
	ours, err := b.startOurs(settings{pipeline: decidePipeline, drain: b.window})
	if err != nil {
		return err
	}
	defer func() { ours.stop() }()
	f := b.newFleet("drain", ours, b.drained, 1, true)
	if err := f.connect(ctx); err != nil {
		f.end()
		return ours.explain(err)
	}
	defer f.end()
	rate := max(1, b.rate/10)
	published := make(chan error, 1)
	go func() { published <- f.publish(ctx, rate, b.window*5/4+2*time.Second) }()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	f.countDials()
	ours.stop()
	first := f.firstDials()
	left := f.counted().left
	fmt.Fprintf(os.Stderr, "drain: %d of %d clients were sent away\n", left, b.drained)
	if err := ours.start(); err != nil {
		return err
	}
	if err := <-published; err != nil {
		return err
	}
	if err := f.answered(ctx, 2*time.Minute); err != nil {
		return err
	}
	lost, accepted := f.lost()
	c := f.counted()
	b.figure("drain.connections", float64(b.drained), "connections")
	b.figure("drain.events", float64(c.published), "events")
	b.figure("drain.accepted", float64(c.acceptedEvents), "events")
	b.figure("drain.not_told", float64(b.drained-left), "connections")
	b.held("drain.lost", float64(lost), "events", 0)
	b.held("drain.accepted_lost", float64(accepted), "events", 0)
	b.held("drain.holes", float64(c.holes), "holes", 0)
	b.held("drain.reconnects_spread", spread(first, b.window), "max/mean", 2)
	return f.sound()
}

// spread returns the most times within one second, relative to the mean over the window.
func spread(times []time.Time, window time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	seconds := map[int64]int{}
	most := 0
	for _, t := range times {
		second := int64(t.Sub(times[0]) / time.Second)
		seconds[second]++
		most = max(most, seconds[second])
	}
	return float64(most) / (float64(len(times)) / max(1, window.Seconds()))
}
