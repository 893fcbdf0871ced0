package control

import (
	"container/list"
	"errors"
	"fmt"
	"time"
)

// Class is the urgency of work.
type Class int

// The values of Class. Their default weights are 8, 4 and 1.
const (
	HighClass Class = iota - 1
	NormalClass
	LowClass
)

const classCount = 3

// place returns the class as an index, limited to the valid range.
func (c Class) place() int { return int(min(max(c, HighClass), LowClass) - HighClass) }

// String returns the name of the class in pipeline files.
func (c Class) String() string { return [...]string{"high", "normal", "low"}[c.place()] }

// Errors of FairQueue.Push.
var (
	ErrQueueFull  = errors.New("the queue is full")
	ErrTenantFull = errors.New("the queue is full for this tenant")
)

// FairOptions configures the limits and the shares of a FairQueue.
type FairOptions struct {
	// Weights are the shares of the high, normal and low class while all have work. If all are 0,
	// they are 8, 4 and 1. A weight must not exceed the one before it.
	Weights [classCount]int
	// Age is the wait after which the weight of a class doubles; 0 is 10 s. After twice Age it
	// triples, and so on, up to the weight of the high class.
	Age time.Duration
	// Max is the maximum number of waiting entries; 0 is 10,000.
	Max int
	// TenantMax is the maximum number of waiting entries of one tenant; 0 is Max.
	TenantMax int
}

// Resolved returns the options with defaults for those that are 0. The error joins all errors in
// the options.
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

// Entry is waiting work.
type Entry[T any] struct {
	Class  Class
	Tenant string // owner of the work; "" counts as a tenant too
	Key    string // entries of a key leave in order of arrival; "" has no order
	Cost   int    // for example rows, the same unit in all entries; less than 1 counts as 1
	Value  T
}

// FairQueue is a queue of work that waits for its turn, for example at an endpoint. One goroutine
// owns it.
//
//  1. Classes take turns by weight. While all have work, 8 of 13 units of cost are high,
//     4 normal and 1 low. A class that waits gains weight by Age, at most up to the
//     weight of the high class. So under lasting overload low work gets a third, and
//     cannot displace high work.
//  2. Within a class, tenants with work take turns by deficit round robin. However much
//     work one tenant has, it gets one turn between two turns of another. A turn is the
//     largest cost seen since the queue was last empty, so one entry if all costs are
//     equal. A tenant without work is removed, together with its unused share.
//  3. Entries of a key leave in order of arrival. So a later entry of a higher class
//     raises the earlier ones to its class. Any other later entry joins the class and
//     tenant of the earlier ones.
//
// Push and Take take constant time, except for rule 3, which moves an entry at most twice.
//
// The dispatcher of queued work pushes work that is due, and takes work while its endpoint admits
// calls. If Push refuses work, the work stays in the async queue, and the dispatcher pushes it
// again when there is room. Because entries leave in order, an endpoint with one call at a time
// keeps the order of a key. With more concurrent calls, `ordered` keeps later work of a key in the
// async queue until the call has ended, and pushes it then.
type FairQueue[T any] struct {
	options FairOptions
	classes [classCount]classQueue[T]
	current int // the class with the current turn
	quantum int // cost of a turn
	count   int
	keys    map[string]chain[T]
	tenants map[string]int // waiting entries by tenant
	taken   [classCount]uint64
}

// classQueue holds the tenants of a class that have work. The tenant with the current turn is
// first.
type classQueue[T any] struct {
	ring    list.List // of *tenantQueue[T]
	tenants map[string]*tenantQueue[T]
	count   int // number of entries
	turn    bool
	deficit int
}

type tenantQueue[T any] struct {
	name    string
	class   int
	element *list.Element
	entries list.List // of *waiting[T]
	turn    bool      // it has received the cost of one turn
	deficit int
}

type waiting[T any] struct {
	Entry[T]
	since   time.Time
	queue   *tenantQueue[T]
	element *list.Element
	behind  *waiting[T] // next entry of the same key
}

// chain links the entries of a key, which are all in one queue.
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

// Push adds an entry. If the error is ErrQueueFull or ErrTenantFull, the entry is not in the queue.
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

// Take removes and returns the next entry; ok is false if the queue is empty.
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

// next returns the next entry of the class. The loop ends, because one turn is enough for every
// cost.
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

// weight returns the weight of a class with a next entry that has waited this long.
func (f *FairQueue[T]) weight(class int, waited time.Duration) int {
	weight, most := f.options.Weights[class], f.options.Weights[0]
	aged := float64(weight) * (1 + max(waited.Seconds(), 0)/f.options.Age.Seconds())
	return int(min(aged, float64(most)))
}

func (f *FairQueue[T]) remove(w *waiting[T]) {
	f.withdraw(w)
	if w.Key != "" { // w is the first entry of its key: they are in one queue, in order
		if w.behind == nil {
			delete(f.keys, w.Key)
		} else {
			f.keys[w.Key] = chain[T]{w.behind, f.keys[w.Key].last}
		}
	}
	if f.tenants[w.queue.name]--; f.tenants[w.queue.name] == 0 {
		delete(f.tenants, w.queue.name)
	}
	if f.count--; f.count == 0 { // otherwise the unused share of large costs would give several turns of small ones
		f.quantum = 0
		for i := range f.classes {
			f.classes[i].turn, f.classes[i].deficit = false, 0
		}
	}
}

// DeleteFunc removes an entry if gone returns true for it. It does not change turns. It visits all
// entries.
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
			w.Key = "" // the chain of its key continues without it
		}
		f.remove(w)
	}
}

// Len returns the number of waiting entries.
func (f *FairQueue[T]) Len() int { return f.count }

// Tenant returns the number of waiting entries of a tenant.
func (f *FairQueue[T]) Tenant(name string) int { return f.tenants[name] }

// FairStats counts entries by class: high, normal and low.
type FairStats struct {
	Waiting [classCount]int
	Taken   [classCount]uint64
}

// Stats returns the numbers of waiting and taken entries. An entry counts for its current class,
// even if it was moved there because of its key.
func (f *FairQueue[T]) Stats() FairStats {
	stats := FairStats{Taken: f.taken}
	for i := range f.classes {
		stats.Waiting[i] = f.classes[i].count
	}
	return stats
}
