package async

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Order is what a person wants done with parked events.
type Order struct {
	Drop      bool  `json:"drop"`      // they are given up; else they are called for at once
	Partition int32 `json:"partition"` // -1 is all
	Offset    int64 `json:"offset"`    // of one event; -1 is all
}

// Orders hands orders to the desks of a process. The zero value has none. It is
// safe for concurrent use.
type Orders struct {
	mu    sync.Mutex
	desks map[*Desk]bool
}

var errDropped = errors.New("was dropped while it was queued")

// given is an order that a desk has yet to carry out.
type given struct {
	Order
	events chan int // of capacity 1: how many it was about
}

func (o *Orders) join(d *Desk, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.desks == nil {
		o.desks = map[*Desk]bool{}
	}
	if o.desks[d] = true; !on {
		delete(o.desks, d)
	}
}

// Give has an order carried out, and returns how many events it was about. Events
// that are not durable yet, or that wait behind others and are to be called for,
// are left out.
func (o *Orders) Give(ctx context.Context, order Order) (events int, err error) {
	o.mu.Lock()
	var replies []chan int
	for d := range o.desks {
		g := given{order, make(chan int, 1)}
		replies = append(replies, g.events)
		d.calls.mu.Lock()
		d.orders = append(d.orders, g)
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

// takeOrders carries out what was ordered, and returns the events to give up.
func (d *Desk) takeOrders() (list []Task, err error) {
	d.calls.mu.Lock()
	orders := d.orders
	d.orders = nil
	d.calls.mu.Unlock()
	for _, g := range orders {
		n := 0
		for _, p := range d.partitions {
			if g.Partition >= 0 && g.Partition != p.ID.Index {
				continue
			}
			for _, w := range p.all {
				if g.Offset >= 0 && g.Offset != w.Offset || !w.durable || w.dropped || !g.Drop && w.place < 0 && !w.turn {
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

// drop takes an event out of what waits, to be gone on with at once.
func (d *Desk) drop(p *Partition, w *Waiting) (Task, error) {
	p.takeOut(w)
	w.dropped = true
	return d.load(p, w)
}

// takeCancels adds the events that their clients gave up. A cancel of an event that is
// not parked here has no effect.
func (d *Desk) takeCancels(list *[]Task) error {
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

// abandon ends the calls that no event waits for, after events were dropped.
func (d *Desk) abandon(dropped bool) {
	for c := range d.calls.flying {
		if dropped && !slices.ContainsFunc(c.tasks, func(t Task) bool { return d.owns(&t) }) {
			c.cancel()
		}
	}
}

// refuseOrders answers the orders that were not carried out.
func (d *Desk) refuseOrders() {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	for _, g := range d.orders {
		g.events <- 0
	}
	d.orders = nil
}
