package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lab/plot"
	"github.com/afterbay/afterbay/internal/lab/simulate"
)

type simulateCommand struct {
	Preset    string        `help:"Settings to start from, which flags change: textbook (a source of 500/s, 150/s while it is throttled, a queue of 200, marks 150 and 50, calls of 4ms), wide (marks 195 and 5), equal (100 and 100), fast (1.5ms)." default:"textbook" placeholder:"NAME"`
	Arrivals  string        `help:"How events come: bernoulli, at most one a tick; poisson; steady; or file:PATH, when they came, a line each: milliseconds, durations or moments." placeholder:"HOW"`
	Peak      string        `help:"Rate of the source at full rate, such as 500/s, 0.5/ms, or events a second." placeholder:"RATE"`
	Throttled string        `help:"Rate of the source while it is throttled; with --backlog, at which the log is read meanwhile." placeholder:"RATE"`
	Burst     string        `help:"The source comes and rests by turns, such as 2s/8s." placeholder:"ON/OFF"`
	Rest      string        `help:"Rate of a source that rests." default:"0" placeholder:"RATE"`
	Backlog   bool          `help:"A log stands before the queue: the source never slows down, what it sends waits."`
	Poll      int           `help:"Events of one reading of the log, at most." default:"1024"`
	Service   string        `help:"How long a call takes: 4ms, exponential:4ms, uniform:2ms-6ms, or file:PATH, times that were measured, a line each." placeholder:"TIME"`
	Workers   int           `help:"Workers that make calls side by side." default:"1"`
	Batch     int           `help:"Events of a call, at most." default:"1"`
	Max       int           `help:"Most events of the queue; without marks they are at three and one quarter of it." placeholder:"N"`
	High      int           `help:"The source is throttled when the queue is as deep." placeholder:"N"`
	Low       int           `help:"And goes on when it is down to this; -1 is the preset's." default:"-1" placeholder:"N"`
	Duration  time.Duration `help:"Virtual time to simulate; the default is 4s, or up to the last event that a file has." placeholder:"DURATION"`
	Tick      time.Duration `help:"Grain of the virtual time: workers look at the queue once a tick." default:"1ms"`
	Seed      uint64        `help:"Seed of the random numbers, which are those of CPython." default:"7"`
	Every     int           `help:"Ticks between lines; the default is 16 lines." placeholder:"TICKS"`
	Sweep     bool          `help:"Try marks ever farther apart around the middle of those given, and show what that changes."`
	Plot      string        `help:"Draw it: a file that ends in .svg or .png." placeholder:"FILE"`
	JSON      bool          `help:"Print one object of JSON: produced, scored, dropped, peak_depth, throttled_ticks, switches, samples; with --sweep gaps." name:"json"`
}

const (
	simulateLines = 16
	sweepSteps    = 20
)

// Run simulates, and prints what came of it.
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
	drawing := newDrawing(&o)
	r, err := simulate.Run(o, func(s simulate.Sample) bool {
		if c.Plot != "" {
			drawing.add(&s)
		}
		return s.Tick%4096 != 0 || a.ctx.Err() == nil
	})
	if err != nil {
		return failure.As(failure.OfUsage, err)
	}
	if c.Plot != "" {
		if err := plot.WriteFile(c.Plot, drawing.charts(&r)...); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	c.print(a, &o, &r)
	return nil
}

// options are the preset's, changed by flags.
func (c *simulateCommand) options() (simulate.Options, error) {
	o, err := simulate.Preset(c.Preset)
	if err != nil {
		return o, err
	}
	o.Tick, o.Seed, o.Backlog, o.Poll, o.Workers, o.Batch = c.Tick, c.Seed, c.Backlog, c.Poll, c.Workers, c.Batch
	if c.Tick <= 0 || c.Duration < 0 || c.Every < 0 {
		return o, fmt.Errorf("--tick is above 0, --duration and --every not below it")
	}
	if err := c.source(&o); err != nil {
		return o, err
	}
	if path, ok := strings.CutPrefix(c.Service, "file:"); ok {
		o.Service = simulate.Service{Kind: simulate.Measured}
		if o.Service.Measured, err = readTimes(path); err != nil {
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

// source sets how events come.
func (c *simulateCommand) source(o *simulate.Options) (err error) {
	if path, ok := strings.CutPrefix(c.Arrivals, "file:"); ok {
		if o.Recorded, err = readTimes(path); err != nil {
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
	on, off, _ := strings.Cut(c.Burst, "/")
	if o.Burst.On, err = time.ParseDuration(on); err == nil {
		o.Burst.Off, err = time.ParseDuration(off)
	}
	if err != nil || o.Burst.On <= 0 || o.Burst.Off <= 0 {
		return fmt.Errorf("--burst %s: use two times such as 2s/8s: how long the source comes, and how long it rests", c.Burst)
	}
	return nil
}

// queue returns the bounds: marks of a queue of another size are shares of it.
func (c *simulateCommand) queue(q control.GateOptions) (control.GateOptions, error) {
	if c.Max < 0 || c.High < 0 || c.Low < -1 {
		return q, fmt.Errorf("--max, --high and --low are not below 0")
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

func readTimes(path string) ([]time.Duration, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return simulate.ReadTimes(file, path)
}
