package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/lab/simulate"
)

const simulateLines = 16

// options returns the preset with the changes of the flags.
func (c *simulateCommand) options() (simulate.Options, error) {
	o, err := simulate.Preset(c.Preset)
	if err != nil {
		return o, err
	}
	o.Tick, o.Seed, o.Backlog, o.Poll, o.Workers, o.Batch = c.Tick, c.Seed, c.Backlog, c.Poll, c.Workers, c.Batch
	if c.Tick <= 0 || c.Duration < 0 || c.Every < 0 {
		return o, fmt.Errorf("--tick must be above 0, --duration and --every not below it")
	}
	if err := c.source(&o); err != nil {
		return o, err
	}
	if path, ok := strings.CutPrefix(c.Service, "file:"); ok {
		o.Service = simulate.Service{Kind: simulate.Measured}
		if o.Service.Measured, err = simulate.TimesOf(path); err != nil {
			return o, err
		}
	} else if c.Service != "" {
		if o.Service, err = simulate.ParseService(c.Service); err != nil {
			return o, err
		}
	}
	if o.Queue, err = c.queue(o.Queue); err != nil {
		return o, err
	}
	switch {
	case c.Duration > 0:
		o.Ticks = int(c.Duration / c.Tick)
	case o.Recorded != nil:
		o.Ticks = int(o.Recorded[len(o.Recorded)-1]/c.Tick) + 1
	default:
		o.Ticks = int(time.Duration(o.Ticks) * time.Millisecond / c.Tick)
	}
	o.Every = cmp.Or(c.Every, max(1, o.Ticks/simulateLines))
	return o, nil
}

// source sets the arrival process of events.
func (c *simulateCommand) source(o *simulate.Options) (err error) {
	if path, ok := strings.CutPrefix(c.Arrivals, "file:"); ok {
		if o.Recorded, err = simulate.TimesOf(path); err != nil {
			return err
		}
	} else if c.Arrivals != "" {
		if o.Arrivals, err = simulate.ParseArrivals(c.Arrivals); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		text string
		rate *float64
	}{{c.Peak, &o.Peak}, {c.Throttled, &o.Throttled}, {c.Rest, &o.Burst.Rest}} {
		if r.text == "" {
			continue
		}
		if *r.rate, err = simulate.ParseRate(r.text); err != nil {
			return err
		}
	}
	if c.Burst == "" {
		return nil
	}
	rest := o.Burst.Rest
	if o.Burst, err = simulate.ParseBurst(c.Burst); err != nil {
		return fmt.Errorf("--burst %s: %w", c.Burst, err)
	}
	o.Burst.Rest = rest
	return nil
}

// queue returns the limits of the queue. If the flags change its size, its high and low marks
// become the default shares of the new size.
func (c *simulateCommand) queue(q control.GateOptions) (control.GateOptions, error) {
	if c.Max < 0 || c.High < 0 || c.Low < -1 {
		return q, fmt.Errorf("--max, --high and --low must be 0 or more")
	}
	if c.Max > 0 {
		var err error
		if q, err = (control.GateOptions{Max: c.Max}).Resolved(); err != nil {
			return q, err
		}
	}
	if c.High > 0 {
		q.High = c.High
	}
	if c.Low >= 0 {
		q.Low = c.Low
	}
	return q.Resolved()
}
