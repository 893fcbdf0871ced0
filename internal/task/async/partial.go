package async

import (
	"context"
	"strings"

	"github.com/afterbay/afterbay/model"
)

// Part is what a model has said so far of an event that is queued. Its attempt is
// Entry.Shown.
type Part struct {
	Task
	Text  string
	First bool // of its attempt: the entry is to be stored by the step that writes the part
}

// listen has the words of a call of one event handed over as they come: all that
// there are, and no more often than its score says.
func (d *calls) listen(ctx context.Context, c *call) context.Context {
	if c.how.Partial == nil {
		return ctx
	}
	part, last := Part{Task: c.tasks[0]}, d.clock.Now()
	var said strings.Builder
	call := model.CallOf(ctx)
	call.Part = func(_ int, text string) {
		said.WriteString(text)
		now := d.clock.Now()
		if now.Sub(last) < c.how.Partial.Every {
			return
		}
		last, part.Text = now, said.String()
		d.mu.Lock()
		d.parts[c] = part
		d.mu.Unlock()
		d.wake()
	}
	return model.WithCall(ctx, call)
}

// Parts returns what is said so far of events that are queued here and called for.
// None comes behind what its call brought. The first part of a call is that of an
// attempt of its own, which counts from when the part is durable.
func (d *Dispatcher) Parts() (list []Part) {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	for c, part := range d.calls.parts {
		delete(d.calls.parts, c)
		if !d.calls.inFlight[c] || !d.owns(&part.Task) { // its lease is over
			continue
		}
		if part.First = !part.waiting.showing; part.First {
			part.waiting.showing = true
			part.waiting.Shown++
			part.Entry.Shown = part.waiting.Shown // also where it is stored to be called for again
		}
		list = append(list, part)
	}
	return list
}

// Again returns head, of where an event goes on that was queued before, with what
// stays as it was. Where an answer that was shown counts, its attempt goes on.
func (t *Task) Again(head Head) Head {
	before := &t.Entry.Head
	head.Since, head.Class, head.Tenant, head.Shown = before.Since, before.Class, before.Tenant, before.Shown
	if t.Answered && t.waiting.showing {
		head.Shown--
	}
	return head
}
