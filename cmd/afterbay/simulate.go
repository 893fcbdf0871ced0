package main

import (
	"encoding/json"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lab/simulate"
	"github.com/afterbay/afterbay/internal/sys/plot"
)

type simulateCommand struct {
	Preset    string        `help:"Preset, which other flags change: textbook (a source of 500/s, 150/s while it is throttled, a queue of 200, marks 150 and 50, calls of 4ms), wide (marks 195 and 5), equal (100 and 100), fast (1.5ms)." default:"textbook" placeholder:"NAME"`
	Arrivals  string        `help:"Arrival of events: bernoulli, at most one in a tick; poisson; steady; or file:PATH with arrival times, one in each line: milliseconds, durations or timestamps." placeholder:"HOW"`
	Peak      string        `help:"Rate of the source at full rate, such as 500/s, 0.5/ms, or events a second." placeholder:"RATE"`
	Throttled string        `help:"Rate of the source while it is throttled; with --backlog, the rate of reading the log meanwhile." placeholder:"RATE"`
	Burst     string        `help:"The source alternates between active and resting, such as 2s/8s." placeholder:"ON/OFF"`
	Rest      string        `help:"Rate of a source that rests." default:"0" placeholder:"RATE"`
	Backlog   bool          `help:"Put a log before the queue: the source never slows down, and its events wait in the log."`
	Poll      int           `help:"Maximum of events in one read of the log." default:"1024"`
	Service   string        `help:"Duration of a call: 4ms, exponential:4ms, uniform:2ms-6ms, or file:PATH with measured times, one in each line." placeholder:"TIME"`
	Workers   int           `help:"Workers that make calls concurrently." default:"1"`
	Batch     int           `help:"Maximum of events in a call." default:"1"`
	Max       int           `help:"Capacity of the queue; without marks, they are at three quarters and one quarter of it." placeholder:"N"`
	High      int           `help:"The source is throttled when the queue reaches this depth." placeholder:"N"`
	Low       int           `help:"The source continues when the queue is down to this depth; -1 is the preset's value." default:"-1" placeholder:"N"`
	Duration  time.Duration `help:"Virtual time to simulate; the default is 4s, or up to the last event that a file has." placeholder:"DURATION"`
	Tick      time.Duration `help:"Grain of the virtual time: workers look at the queue once a tick." default:"1ms"`
	Seed      uint64        `help:"Seed of the random numbers, which are those of CPython." default:"7"`
	Every     int           `help:"Ticks between lines; the default is 16 lines." placeholder:"TICKS"`
	Sweep     bool          `help:"Try marks at growing distances around the middle of the given marks, and show the effect."`
	Plot      string        `help:"Draw the result into a file that ends in .svg or .png." placeholder:"FILE"`
	JSON      bool          `help:"Print one object of JSON: produced, scored, dropped, peak_depth, throttled_ticks, switches, samples; with --sweep gaps." name:"json"`
}

const sweepSteps = 20

// Run simulates and prints the results.
func (c *simulateCommand) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return failure.As(failure.OfUsage, err)
	}
	if c.Plot != "" {
		if _, err := plot.FormatOf(c.Plot); err != nil {
			return failure.As(failure.OfUsage, err)
		}
	}
	if c.Sweep {
		return c.sweep(a, o)
	}
	drawing := simulate.NewDrawing(&o)
	r, err := simulate.Run(o, func(s simulate.Sample) bool {
		if c.Plot != "" {
			drawing.Add(&s)
		}
		return s.Tick%4096 != 0 || a.ctx.Err() == nil
	})
	if err != nil {
		return failure.As(failure.OfUsage, err)
	}
	if c.Plot != "" {
		if err := plot.WriteFile(c.Plot, drawing.Charts(&r)...); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	r.Write(a.stdout, &o)
	return nil
}

// sweep tries high and low marks of the queue at growing distances.
func (c *simulateCommand) sweep(a *app, o simulate.Options) error {
	gaps, err := simulate.Sweep(o, sweepSteps)
	if err != nil {
		return failure.As(failure.OfUsage, err)
	}
	if c.Plot != "" {
		if err := plot.WriteFile(c.Plot, simulate.GapCharts(gaps)...); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(struct {
			Gaps []simulate.Gap `json:"gaps"`
		}{gaps})
	}
	return simulate.WriteGaps(a.stdout, gaps)
}
