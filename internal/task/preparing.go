package task

import (
	"log/slog"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// preparing fetches external data that decoders need, such as a schema, before records are
// computed. The member holds a record until its decoder is ready, so that the loop does not wait.
type preparing struct {
	plan    *Plan
	readers []*envelope.Reader // by source
	turn    uint64
	kept    bool // records may be read in later turns too
	wake    func()
	logger  *slog.Logger
	clock   clock.Clock
	warned  time.Time
}

// newPreparing returns a preparing for these decoders. wake wakes the member.
func newPreparing(plan *Plan, decoders []*envelope.Reader, o *Options, wake func()) *preparing {
	return &preparing{plan: plan, readers: decoders, wake: wake, logger: o.Logger, clock: o.Clock}
}

// gate returns a function that reports whether a record can be read. It returns nil if all records
// can be read.
func (p *preparing) gate() func(*stream.Record) bool {
	if slices.ContainsFunc(p.readers, (*envelope.Reader).Prepares) {
		return p.ready
	}
	return nil
}

// keep keeps all prepared data, because records may be read in any later turn.
func (p *preparing) keep() { p.turn, p.kept = decode.EveryTurn, true }

// next begins the next turn.
func (p *preparing) next() {
	if !p.kept {
		p.turn++
	}
}

// ready reports whether a record can be read.
func (p *preparing) ready(r *stream.Record) bool {
	d := p.readers[0]
	if p.plan.Sources != nil {
		if header.MovesTime(r) {
			return true
		}
		if d = p.of(r); d == nil {
			return true
		}
	}
	ready, why := d.Prepare(r, p.turn, p.wake)
	if now := p.clock.Now(); why != nil && now.Sub(p.warned) >= warnEvery {
		p.warned = now
		p.logger.Warn("a service that is needed to read events does not respond: their partitions wait, and the engine tries again", "pipeline", p.plan.Name, "record", r.Partition.String(), "offset", int64(r.Offset), "reason", why)
	}
	return ready
}

const warnEvery = time.Minute

// of returns the reader for a record of a topic of copies. It returns nil if the record needs no
// preparation or does not say where it was copied from.
func (p *preparing) of(r *stream.Record) *envelope.Reader {
	at, err := deadletter.ParsePosition(header.SourceOf(r))
	if err != nil {
		return nil
	}
	source, err := p.plan.source(at)
	if err != nil {
		return nil
	}
	if d := p.readers[source]; d.Prepares() {
		return d
	}
	return nil
}
