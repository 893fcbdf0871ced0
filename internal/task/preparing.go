package task

import (
	"log/slog"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// preparing gets what decoders need from outside, such as a schema, before records are computed. The
// member of the task holds a record until its decoder has it, so that the loop does not wait.
type preparing struct {
	plan      *Plan
	preparers []decode.Preparer // by source; nil needs nothing
	turn      uint64
	kept      bool // records are read in later turns too
	wake      func()
	logger    *slog.Logger
	clock     clock.Clock
	warned    time.Time
}

// newPreparing returns what prepares records for decoders. wake wakes the member.
func newPreparing(plan *Plan, decoders []*envelope.Reader, o *Options, wake func()) *preparing {
	p := &preparing{plan: plan, wake: wake, logger: o.Logger, clock: o.Clock}
	for _, d := range decoders {
		p.preparers = append(p.preparers, d.Preparer())
	}
	return p
}

// gate returns what reports whether a record can be read; nil if all can.
func (p *preparing) gate() func(*stream.Record) bool {
	for _, one := range p.preparers {
		if one != nil {
			return p.ready
		}
	}
	return nil
}

// keep has all that was prepared be kept: the records are read in any later turn.
func (p *preparing) keep() { p.turn, p.kept = decode.EveryTurn, true }

// next begins the next turn.
func (p *preparing) next() {
	if !p.kept {
		p.turn++
	}
}

// ready reports whether a record can be read.
func (p *preparing) ready(r *stream.Record) bool {
	d := p.preparers[0]
	if p.plan.Sources != nil {
		if header.MovesTime(r) {
			return true
		}
		if d = p.of(r); d == nil {
			return true
		}
	}
	ready, why := d.Prepare(r.Value, p.turn, p.wake)
	if now := p.clock.Now(); why != nil && now.Sub(p.warned) >= warnEvery {
		p.warned = now
		p.logger.Warn("what is needed to read events is away, and is asked for again: their partitions wait", "pipeline", p.plan.Name, "record", r.Partition.String(), "offset", int64(r.Offset), "reason", why)
	}
	return ready
}

const warnEvery = time.Minute

// of returns the preparer of a record of a topic of copies; nil needs nothing, or the record does not
// say where it was copied from.
func (p *preparing) of(r *stream.Record) decode.Preparer {
	at, err := deadletter.ParsePosition(header.SourceOf(r))
	if err != nil {
		return nil
	}
	source, err := p.plan.source(at)
	if err != nil {
		return nil
	}
	return p.preparers[source]
}
