// Package fraud generates the card payments of the fraud example. Customers have habits, and three
// patterns of fraud occur among their payments. Like a real stream, it also has events out of
// order, late or malformed. The same seed gives the same bytes on every machine, because the
// generator uses only integer arithmetic.
//
// The patterns of fraud are
//
//   - burst: a stolen card is tried with small amounts, which rise quickly;
//   - terminal: cards copied at a manipulated terminal are used there again by
//     their stripe, for some hours;
//   - takeover: after hours of silence, a customer's account pays large amounts
//     online, from another country and device, minutes apart.
package fraud

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"time"
)

// Options configure the generator.
type Options struct {
	Seed      uint64
	Events    int       // number of lines; 0 is 1,000,000
	Customers int       // 0 is 100,000
	Terminals int       // 0 is 20,000
	Start     time.Time // start of event time; zero is 2025-10-09 08:53:20 UTC
	Rate      int       // payments per second of event time, up to 1,000; 0 is 10
	// Labels receives labels.csv with the columns tx, fraud and pattern, in the order of the
	// events, without malformed ones. nil writes no labels. Only Generate uses it.
	Labels io.Writer
}

// Lateness is how far out of order an event can be without being late.
const Lateness = 5 * time.Second

// Stats counts the generated events.
type Stats struct {
	Events                    int // lines
	Burst, Terminal, Takeover int // fraudulent events by pattern
	OutOfOrder                int // behind the time of an earlier event, by up to Lateness
	Late                      int // behind it by more than Lateness
	Malformed                 Malformed
}

// Fraud returns the number of events of all patterns.
func (s Stats) Fraud() int { return s.Burst + s.Terminal + s.Takeover }

// Malformed counts invalid lines by their error.
type Malformed struct {
	Truncated  int // half a line
	WrongType  int // the amount is a string
	NoCustomer int
	NoTime     int
	Future     int // a hundred years ahead
	NotUTF8    int
}

// Total returns the number of malformed lines of all kinds.
func (m Malformed) Total() int {
	return m.Truncated + m.WrongType + m.NoCustomer + m.NoTime + m.Future + m.NotUTF8
}

// Validate returns an error if the options are not valid.
func (o Options) Validate() error {
	switch {
	case o.Events < 0:
		return fmt.Errorf("%d events: use 0 or more", o.Events)
	case o.Customers < 0 || o.Customers > 1_000_000:
		return fmt.Errorf("%d customers: use up to 1,000,000, or 0 for 100,000", o.Customers)
	case o.Terminals < 0 || o.Terminals > 100_000:
		return fmt.Errorf("%d terminals: use up to 100,000, or 0 for 20,000", o.Terminals)
	case o.Terminals > 0 && o.Terminals < 100:
		return fmt.Errorf("%d terminals: use 100 or more, so that each country has some", o.Terminals)
	case o.Rate < 0 || o.Rate > 1000:
		return fmt.Errorf("%d payments per second: use up to 1,000, or 0 for 10", o.Rate)
	case !o.Start.IsZero() && (o.Start.Year() < 1970 || o.Start.Year() > 2100):
		return fmt.Errorf("start in the year %d: use 1970 to 2100", o.Start.Year())
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Events == 0 {
		o.Events = 1_000_000
	}
	if o.Customers == 0 {
		o.Customers = 100_000
	}
	if o.Terminals == 0 {
		o.Terminals = 20_000
	}
	if o.Start.IsZero() {
		o.Start = time.UnixMilli(1_760_000_000_000)
	}
	if o.Rate == 0 {
		o.Rate = 10
	}
	return o
}

// Events yields the lines of NDJSON, without newlines. The caller may keep a line but must not
// change it. Events panics if the options are not valid.
func Events(o Options) iter.Seq[[]byte] {
	if err := o.Validate(); err != nil {
		panic("fraud: " + err.Error())
	}
	return func(yield func([]byte) bool) {
		g := newGenerator(o.withDefaults())
		const chunk = 1 << 16 // many lines share one allocation
		var buffer []byte
		for range g.options.Events {
			if cap(buffer)-len(buffer) < lineMax {
				buffer = make([]byte, 0, chunk)
			}
			from := len(buffer)
			buffer = g.append(buffer)
			if !yield(buffer[from:len(buffer):len(buffer)]) {
				return
			}
		}
	}
}

// Generate writes the events to w as NDJSON, and their labels to o.Labels.
func Generate(w io.Writer, o Options) (Stats, error) {
	if err := o.Validate(); err != nil {
		return Stats{}, err
	}
	g := newGenerator(o.withDefaults())
	out := bufio.NewWriterSize(w, 1<<16)
	labels := bufio.NewWriter(io.Discard)
	if o.Labels != nil {
		labels = bufio.NewWriter(o.Labels)
	}
	if _, err := labels.WriteString("tx,fraud,pattern\n"); err != nil {
		return g.stats, err
	}
	for range g.options.Events {
		if _, err := out.Write(append(g.append(out.AvailableBuffer()), '\n')); err != nil {
			return g.stats, fmt.Errorf("write events: %w", err)
		}
		if o.Labels == nil || g.malformed {
			continue
		}
		if _, err := labels.Write(g.appendLabel(labels.AvailableBuffer())); err != nil {
			return g.stats, fmt.Errorf("write labels: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return g.stats, fmt.Errorf("write events: %w", err)
	}
	if err := labels.Flush(); err != nil {
		return g.stats, fmt.Errorf("write labels: %w", err)
	}
	return g.stats, nil
}
