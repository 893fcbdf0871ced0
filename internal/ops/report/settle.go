package report

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/sys/clean"
)

// Settling sends the events of dead letters back to their pipeline, or drops the dead letters.
type Settling struct {
	Pipeline string
	Filter   Filter
	Drop     bool
	Limit    int // 0 means all
}

// words returns the words for the action: done, and to be done.
func (s *Settling) words() (done, verb string) {
	if s.Drop {
		return "dropped", "drop"
	}
	return "sent back", "send back"
}

// Run sends back or drops the dead letters. It reports its progress on errs.
func (s *Settling) Run(ctx context.Context, out, errs io.Writer, directory inspect.Directory) (err error) {
	done, _ := s.words()
	var p deadletter.Progress
	shown := time.Now()
	for p, err = range directory.Settle(ctx, deadletter.Job{Pipeline: s.Pipeline, Filter: s.Filter, Drop: s.Drop, Limit: s.Limit}) {
		if err != nil {
			return fmt.Errorf("%w: %d were %s before: run the same command again for the others", err, p.Settled, done)
		}
		if !p.Done && time.Since(shown) > time.Second {
			shown = time.Now()
			fmt.Fprintf(errs, "%d of %d open dead letters %s\n", p.Settled, p.Read, done)
		}
	}
	if !p.Done {
		return fmt.Errorf("the process of this job ended: %d were %s before: run the same command again for the others", p.Settled, done)
	}
	fmt.Fprintf(out, "%d of %d open dead letters %s\n", p.Settled, p.Read, done)
	printRefusals(out, &p)
	return nil
}

func printRefusals(out io.Writer, p *deadletter.Progress) {
	if p.Refused == 0 {
		return
	}
	fmt.Fprintf(out, "%d cannot be sent back, and stay:\n", p.Refused)
	for _, r := range p.Refusals {
		fmt.Fprintf(out, "  %s  %s: %s\n", r.DeadLetter, clean.Text(r.ID), clean.Text(r.Reason))
	}
	if n := p.Refused - len(p.Refusals); n > 0 {
		fmt.Fprintf(out, "  and %d more\n", n)
	}
}

// DryRun writes what Run would do.
func (s *Settling) DryRun(ctx context.Context, out io.Writer, directory inspect.Directory) error {
	_, verb := s.words()
	var p deadletter.Progress
	for l, err := range directory.Letters(ctx, s.Pipeline, s.Filter, false) {
		if err != nil {
			return err
		}
		p.Read++
		if refusal := l.Refusal(); refusal != "" && !s.Drop {
			if p.Refused++; len(p.Refusals) < refusalsShown {
				p.Refusals = append(p.Refusals, deadletter.Refusal{DeadLetter: l.Place().String(), ID: l.ID, Reason: refusal})
			}
			continue
		}
		if p.Settled++; p.Settled == s.Limit {
			break
		}
	}
	fmt.Fprintf(out, "would %s %d of %d that are selected\n", verb, p.Settled, p.Read)
	printRefusals(out, &p)
	return nil
}

const refusalsShown = 20
