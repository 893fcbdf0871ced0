package async

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Command is an operator's command for queued events.
type Command struct {
	Drop      bool  `json:"drop"`      // give them up; otherwise call for them at once
	Partition int32 `json:"partition"` // -1 is all
	Offset    int64 `json:"offset"`    // offset of one event; -1 is all
}

// Commands passes commands to the dispatchers of a process. The zero value is empty. It is safe for
// concurrent use.
type Commands struct {
	mu          sync.Mutex
	dispatchers map[*Dispatcher]bool
}

var errDropped = errors.New("was dropped while it was queued")

// given is a command that a dispatcher has not run yet.
type given struct {
	Command
	events chan int // of capacity 1: number of events that the command applied to
}

func (o *Commands) join(d *Dispatcher, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dispatchers == nil {
		o.dispatchers = map[*Dispatcher]bool{}
	}
	if o.dispatchers[d] = true; !on {
		delete(o.dispatchers, d)
	}
}

// Give runs a command, and returns the number of events that it applied to. It skips events that
// are not durable yet. Without Drop it also skips events that wait behind others.
func (o *Commands) Give(ctx context.Context, command Command) (events int, err error) {
	o.mu.Lock()
	var replies []chan int
	for d := range o.dispatchers {
		g := given{command, make(chan int, 1)}
		replies = append(replies, g.events)
		d.calls.mu.Lock()
		d.commands = append(d.commands, g)
		d.calls.mu.Unlock()
		d.calls.wake()
	}
	o.mu.Unlock()
	for _, reply := range replies {
		select {
		case n := <-reply:
			events += n
		case <-ctx.Done():
			return events, ctx.Err()
		}
	}
	return events, nil
}

// takeCommands runs the commands, and returns the events to give up.
func (d *Dispatcher) takeCommands() (list []Task, err error) {
	d.calls.mu.Lock()
	commands := d.commands
	d.commands = nil
	d.calls.mu.Unlock()
	for _, g := range commands {
		n := 0
		for _, p := range d.partitions {
			if g.Partition >= 0 && g.Partition != p.ID.Index {
				continue
			}
			for _, w := range p.all {
				if g.Offset >= 0 && g.Offset != w.Offset || !w.durable || w.dropped || w.Over || !g.Drop && w.place < 0 && !w.scheduled {
					continue
				}
				n++
				if !g.Drop {
					p.takeOut(w)
					p.Retry(w, d.now.UnixMicro())
					continue
				}
				t, broken := d.drop(p, w)
				t.Err = errDropped
				list, err = append(list, t), errors.Join(err, broken)
			}
		}
		g.events <- n
	}
	return list, err
}

// drop removes a waiting event, so that it resumes at once.
func (d *Dispatcher) drop(p *Partition, w *Waiting) (Task, error) {
	p.takeOut(w)
	w.dropped = true
	return d.load(p, w)
}

// takeCancels adds the events that their clients cancelled. It ignores a cancel of an event that is
// not queued here.
func (d *Dispatcher) takeCancels(list *[]Task) error {
	for _, p := range d.partitions {
		early := p.cancels[:0]
		for _, client := range p.cancels {
			w := p.clients[client]
			switch {
			case w == nil || w.dropped:
			case !w.durable:
				early = append(early, client)
			default:
				t, err := d.drop(p, w)
				if err != nil {
					return err
				}
				t.Cancelled = true
				*list = append(*list, t)
			}
		}
		p.cancels = early
	}
	return nil
}

// abandon cancels the calls without waiting events, after events were dropped.
func (d *Dispatcher) abandon(dropped bool) {
	for c := range d.calls.inFlight {
		if dropped && !slices.ContainsFunc(c.tasks, func(t Task) bool { return d.owns(&t) }) {
			c.cancel()
		}
	}
}

// refuseCommands replies to the commands that did not run.
func (d *Dispatcher) refuseCommands() {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	for _, g := range d.commands {
		g.events <- 0
	}
	d.commands = nil
}
