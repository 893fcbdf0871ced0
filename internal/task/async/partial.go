package async

import (
	"context"
	"strings"

	"github.com/afterbay/afterbay/model"
)

// Part is the text that a model has produced so far for a queued event. Its attempt is Entry.Shown.
type Part struct {
	Task
	Text  string
	First bool // first part of its attempt: the transaction that writes the part also stores the entry
}

// listen passes on the partial text of a call with one event. Each part has all text so far, and
// parts come no more often than the score allows.
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

// Parts returns the partial texts of events that are queued here and in a call. No part follows the
// result of its call. The first part of a call starts an attempt, which counts once the part is
// durable.
func (d *Dispatcher) Parts() (list []Part) {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	for c, part := range d.calls.parts {
		delete(d.calls.parts, c)
		if !d.calls.inFlight[c] || !d.owns(&part.Task) { // its lease has expired
			continue
		}
		if part.First = !part.waiting.showing; part.First {
			part.waiting.showing = true
			part.waiting.Shown++
			part.Entry.Shown = part.waiting.Shown // also if the entry was stored for a retry
		}
		list = append(list, part)
	}
	return list
}

// Again returns head with the values of the previous entry that do not change. If an answer that
// was shown counts, its attempt continues.
func (t *Task) Again(head Head) Head {
	before := &t.Entry.Head
	head.Since, head.Class, head.Tenant, head.Shown = before.Since, before.Class, before.Tenant, before.Shown
	if t.Answered && t.waiting.showing {
		head.Shown--
	}
	return head
}
