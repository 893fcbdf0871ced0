package control

import (
	"container/list"
	"errors"
	"fmt"
	"time"
)

// Class says how urgent work is.
type Class int

// The classes, of weights 8, 4 and 1 unless options say others.
const (
	HighClass Class = iota - 1
	NormalClass
	LowClass
)

const classCount = 3

// place returns the class as an index; those beyond the ends are the ends.
func (c Class) place() int { return int(min(max(c, HighClass), LowClass) - HighClass) }

// String returns the class as a pipeline file names it.
func (c Class) String() string { return [...]string{"high", "normal", "low"}[c.place()] }

// Refusals of FairQueue.Push.
var (
	ErrQueueFull  = errors.New("the queue is full")
	ErrTenantFull = errors.New("the queue is full for this tenant")
)

// FairOptions bound a FairQueue and share it out.
type FairOptions struct {
	// Weights are the shares of the high, normal and low class while all have work:
	// 8, 4 and 1 where all are 0. None may weigh more than one before it.
	Weights [classCount]int
	// Age is the wait after which a class counts twice its weight, after twice as
	// long three times, up to the weight of the high one: 10 s where it is 0.
	Age time.Duration
	// Max is how many entries wait at most: 10,000 where it is 0.
	Max int
	// TenantMax is how many of a tenant do: Max where it is 0.
	TenantMax int
}

// Resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
func (o FairOptions) Resolved() (FairOptions, error) {
	if o.Weights == [classCount]int{} {
		o.Weights = [classCount]int{8, 4, 1}
	}
	if o.Age == 0 {
		o.Age = 10 * time.Second
	}
	if o.Max == 0 {
		o.Max = 10_000
	}
	if o.TenantMax == 0 {
		o.TenantMax = o.Max
	}
	var wrong complaints
	w := o.Weights
	wrong.check(w[2] < 1, "weights %v: a class of less than 1 would never be served", w)
	wrong.check(w[0] < w[1] || w[1] < w[2] || w[0] > weightMax, "weights %v: want them to fall, from at most %d", w, weightMax)
	wrong.check(o.Age < 0, "an age of %v is negative", o.Age)
	wrong.check(o.Max < 0, "a queue of %d holds nothing", o.Max)
	wrong.check(o.TenantMax < 0 || o.TenantMax > o.Max, "%d of a tenant in a queue of %d: want 1 up to that", o.TenantMax, o.Max)
	return o, errors.Join(wrong...)
}

const weightMax = 1_000

// Entry is work that waits.
type Entry[T any] struct {
	Class  Class
	Tenant string // whose work it is; "" is a tenant too
	Key    string // entries of a key leave in the order they came; "" has no order
	Cost   int    // such as rows, the same in all entries; less than 1 is 1
	Value  T
}

// FairQueue is work that waits for its turn, such as that of an endpoint. One
// goroutine owns it.
//
//  1. Classes take turns by weight: while all have work, of each 13 units of cost 8
//     are high, 4 normal, 1 low. A class that waits gains weight by Age, up to that
//     of the high one and no further: under lasting overload low work gets a third,
//     and cannot push high work aside.
//  2. Within a class, tenants with work take turns by deficit round robin: however
//     much one brings, between two turns of another it has one. A turn is the
//     largest cost seen since the queue was last empty, one entry where costs are
//     equal. A tenant without work is forgotten, and with it what it did not use.
//  3. Entries of a key leave in the order they came. So a later one of a higher
//     class takes those before it along into its class, and else a later one joins
//     the class and tenant of those before it.
//
// Push and Take take constant time, but for 3, which moves an entry at most twice.
//
// The dispatcher of queued work pushes what is due and takes while its endpoint
// admits calls; where Push refuses, the work stays queued and is offered again once
// there is room. That entries leave in order keeps a key's order at an endpoint
// with one call at a time; with more, `ordered` keeps later work of a key queued
// until the call has ended, and pushes it then.
type FairQueue[T any] struct {
	options FairOptions
	classes [classCount]classQueue[T]
	current int // the class whose turn it is
	quantum int // cost of a turn
	count   int
	keys    map[string]chain[T]
	tenants map[string]int // entries that wait
	taken   [classCount]uint64
}

// classQueue is the tenants of a class that have work; whose turn it is is first.
type classQueue[T any] struct {
	ring    list.List // of *tenantQueue[T]
	tenants map[string]*tenantQueue[T]
	count   int // entries
	turn    bool
	deficit int
}

type tenantQueue[T any] struct {
	name    string
	class   int
	element *list.Element
	entries list.List // of *waiting[T]
	turn    bool      // it got the cost of one
	deficit int
}

type waiting[T any] struct {
	Entry[T]
	since   time.Time
	queue   *tenantQueue[T]
	element *list.Element
	behind  *waiting[T] // of the same key
}

// chain is the entries of a key, which are all in one queue.
type chain[T any] struct{ first, last *waiting[T] }

// NewFairQueue returns an empty queue.
func NewFairQueue[T any](options FairOptions) (*FairQueue[T], error) {
	o, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of a fair queue: %w", err)
	}
	f := &FairQueue[T]{options: o, keys: make(map[string]chain[T]), tenants: make(map[string]int)}
	for i := range f.classes {
		f.classes[i].tenants = make(map[string]*tenantQueue[T])
	}
	return f, nil
}

// Push adds an entry. The error is ErrQueueFull or ErrTenantFull, and the entry is
// then not in the queue.
func (f *FairQueue[T]) Push(now time.Time, entry Entry[T]) error {
	entry.Cost = max(entry.Cost, 1)
	class, tenant := entry.Class.place(), entry.Tenant
	before, follows := f.keys[entry.Key]
	if follows {
		tenant = before.first.queue.name
	}
	switch {
	case f.count >= f.options.Max:
		return ErrQueueFull
	case f.tenants[tenant] >= f.options.TenantMax:
		return ErrTenantFull
	}
	w := &waiting[T]{Entry: entry, since: now}
	f.quantum = max(f.quantum, entry.Cost)
	f.count++
	f.tenants[tenant]++
	if follows {
		for at := before.first; at != nil && class < at.queue.class; at = at.behind {
			f.withdraw(at)
			f.enqueue(at, class, tenant)
		}
		class = before.first.queue.class
		before.last.behind = w
	} else {
		before.first = w
	}
	if before.last = w; entry.Key != "" {
		f.keys[entry.Key] = before
	}
	f.enqueue(w, class, tenant)
	return nil
}

func (f *FairQueue[T]) enqueue(w *waiting[T], class int, tenant string) {
	c := &f.classes[class]
	q := c.tenants[tenant]
	if q == nil {
		q = &tenantQueue[T]{name: tenant, class: class}
		q.element = c.ring.PushBack(q)
		c.tenants[tenant] = q
	}
	w.queue, w.element = q, q.entries.PushBack(w)
	c.count++
}

func (f *FairQueue[T]) withdraw(w *waiting[T]) {
	q, c := w.queue, &f.classes[w.queue.class]
	q.entries.Remove(w.element)
	c.count--
	if q.entries.Len() == 0 {
		c.ring.Remove(q.element)
		delete(c.tenants, q.name)
	}
}

// Take removes the entry whose turn it is; ok is false where there is none.
func (f *FairQueue[T]) Take(now time.Time) (entry Entry[T], ok bool) {
	if f.count == 0 {
		return entry, false
	}
	for {
		c := &f.classes[f.current]
		if c.count == 0 {
			c.deficit = 0
		} else {
			w := c.next(f.quantum)
			if !c.turn {
				c.turn = true
				c.deficit += f.weight(f.current, now.Sub(w.since)) * f.quantum
			}
			if w.Cost <= c.deficit {
				c.deficit -= w.Cost
				w.queue.deficit -= w.Cost
				f.taken[w.queue.class]++
				f.remove(w)
				return w.Entry, true
			}
		}
		c.turn = false
		f.current = (f.current + 1) % classCount
	}
}

// next returns the entry of the class that is the next to leave. It ends: a turn
// pays for every cost there is.
func (c *classQueue[T]) next(quantum int) *waiting[T] {
	for {
		q := c.ring.Front().Value.(*tenantQueue[T])
		if !q.turn {
			q.turn = true
			q.deficit += quantum
		}
		if w := q.entries.Front().Value.(*waiting[T]); w.Cost <= q.deficit {
			return w
		}
		q.turn = false
		c.ring.MoveToBack(q.element)
	}
}

// weight returns the weight of a class whose next entry has waited for so long.
func (f *FairQueue[T]) weight(class int, waited time.Duration) int {
	weight, most := f.options.Weights[class], f.options.Weights[0]
	aged := float64(weight) * (1 + max(waited.Seconds(), 0)/f.options.Age.Seconds())
	return int(min(aged, float64(most)))
}

func (f *FairQueue[T]) remove(w *waiting[T]) {
	f.withdraw(w)
	if w.Key != "" { // w is the first of it: its entries are in one queue, in order
		if w.behind == nil {
			delete(f.keys, w.Key)
		} else {
			f.keys[w.Key] = chain[T]{w.behind, f.keys[w.Key].last}
		}
	}
	if f.tenants[w.queue.name]--; f.tenants[w.queue.name] == 0 {
		delete(f.tenants, w.queue.name)
	}
	if f.count--; f.count == 0 { // what large costs left would be turns of small ones
		f.quantum = 0
		for i := range f.classes {
			f.classes[i].turn, f.classes[i].deficit = false, 0
		}
	}
}

// DeleteFunc removes the entries that do not wait any more, as their owner says,
// without their turns. It looks at all entries.
func (f *FairQueue[T]) DeleteFunc(gone func(T) bool) {
	var list []*waiting[T]
	for i := range f.classes {
		for _, q := range f.classes[i].tenants {
			for at := q.entries.Front(); at != nil; at = at.Next() {
				if w := at.Value.(*waiting[T]); gone(w.Value) {
					list = append(list, w)
				}
			}
		}
	}
	for _, w := range list {
		if line, ok := f.keys[w.Key]; ok && line.first != w {
			before := line.first
			for before.behind != w {
				before = before.behind
			}
			if before.behind = w.behind; w.behind == nil {
				f.keys[w.Key] = chain[T]{line.first, before}
			}
			w.Key = "" // the line of its key goes on without it
		}
		f.remove(w)
	}
}

// Len returns how many entries wait.
func (f *FairQueue[T]) Len() int { return f.count }

// Tenant returns how many entries of a tenant wait.
func (f *FairQueue[T]) Tenant(name string) int { return f.tenants[name] }

// FairStats is what became of entries, by class: high, normal and low.
type FairStats struct {
	Waiting [classCount]int
	Taken   [classCount]uint64
}

// Stats returns how many entries wait and were taken. An entry counts for the class
// that it was moved to for the sake of its key.
func (f *FairQueue[T]) Stats() FairStats {
	stats := FairStats{Taken: f.taken}
	for i := range f.classes {
		stats.Waiting[i] = f.classes[i].count
	}
	return stats
}
