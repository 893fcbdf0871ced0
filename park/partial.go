package park

import (
	"context"
	"strings"
	"time"

	"github.com/afterbay/afterbay/model"
)

// Part is what a model has said so far of an event that is parked.
type Part struct {
	Task
	Text string
}

// listen has the words of a call of one event handed over as they come: all that
// there are, and no more often than its score says.
func (d *calls) listen(ctx context.Context, c *call) context.Context {
	if c.score.Partial == nil {
		return ctx
	}
	part, last := Part{Task: c.tasks[0]}, time.Now()
	var said strings.Builder
	return model.WithParts(ctx, func(_ int, text string) {
		said.WriteString(text)
		now := time.Now()
		if now.Sub(last) < c.score.Partial.Every {
			return
		}
		last, part.Text = now, said.String()
		d.mu.Lock()
		d.parts[c] = part
		d.mu.Unlock()
		d.wake()
	})
}

// Parts returns what is said so far of events that are parked here and called for.
// None comes behind what its call brought.
func (d *Desk) Parts() (list []Part) {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	for c, part := range d.calls.parts {
		if delete(d.calls.parts, c); d.calls.flying[c] && d.owns(&part.Task) { // else its lease is over
			list = append(list, part)
		}
	}
	return list
}
