package async

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"

	"github.com/afterbay/afterbay/internal/control"
)

// Waiting is a queued event of a queue.
type Waiting struct {
	Head
	Offset int64

	faults    int             // failed attempts since it was restored, by any fault
	outlier   control.Outlier // of the endpoint of its stage
	key       string
	step      uint64 // that makes it durable
	durable   bool
	place     int // in the heap of its stage; -1 where it is in none
	ready     bool
	scheduled bool // it is due, and in the fair queue of its stage
	dropped   bool // given up by an order
	looked    bool // the journal had no answer while the endpoint was down
	showing   bool // parts of the answer of its newest call were written
}

// Queue says which queued event of a partition is next. An event is ready where
// it waits for nothing, and otherwise it may be called for when it is due; both
// only once it is durable, and where the queue is ordered once it is the first
// of its key. The zero value is not usable: see NewQueue.
type Queue struct {
	ordered bool
	all     map[int64]*Waiting
	clients map[string]*Waiting // events of clients, by header.ClientEvent
	stages  map[int]*lane
	keys    map[string][]*Waiting // where ordered, in the order of the log
	pending []*Waiting            // not durable yet, by step
	ready   []*Waiting
	tenants *Tenants // nil counts none
}

// NewQueue returns an empty queue. An ordered one keeps the events of a key in
// the order of the log.
func NewQueue(ordered bool) *Queue {
	return &Queue{ordered: ordered, all: map[int64]*Waiting{}, clients: map[string]*Waiting{}, stages: map[int]*lane{}, keys: map[string][]*Waiting{}}
}

// Len returns how many events are queued.
func (q *Queue) Len() int { return len(q.all) }

// Get returns the event at an offset, nil where it is not queued.
func (q *Queue) Get(offset int64) *Waiting { return q.all[offset] }

// Holds reports whether an event of the key is queued, in an ordered queue.
func (q *Queue) Holds(key string) bool { return len(q.keys[key]) > 0 }

// Behind yields the events of the key that wait for an earlier one of it, in the order of
// the log, in an ordered queue.
func (q *Queue) Behind(key string) iter.Seq[*Waiting] {
	return func(yield func(*Waiting) bool) {
		for _, w := range q.keys[key] {
			if w.Behind && !yield(w) {
				return
			}
		}
	}
}

// Before reports whether another event of the key goes before that at offset.
func (q *Queue) Before(key string, offset int64) bool {
	line := q.keys[key]
	return len(line) > 0 && line[0].Offset != offset
}

// Add adds an event, or queues it again, as it will be durable with a transaction. In an
// ordered queue those of a key are added in the order of the log.
func (q *Queue) Add(offset int64, key []byte, head Head, step uint64) {
	w := q.all[offset]
	if w == nil {
		w = &Waiting{Offset: offset, place: -1}
		q.all[offset] = w
		q.tenants.add(head.Tenant, 1)
		if q.ordered {
			w.key = string(key)
			q.keys[w.key] = append(q.keys[w.key], w)
			q.hurry(q.keys[w.key][0], head.Class)
		}
		w.outlier = control.NewOutlier(head.Attempts)
	} else {
		head.Class = min(head.Class, w.Class) // it may have been hurried
		if w.Stage != head.Stage {
			w.outlier = control.NewOutlier(head.Attempts)
		}
	}
	q.takeOut(w)
	w.Head, w.step, w.durable, w.dropped = head, step, false, false
	if w.Client != "" {
		q.clients[w.Client] = w
	}
	q.pending = append(q.pending, w)
}

// Failed records that an earlier call for a queued event, in its place, failed.
func (q *Queue) Failed(offset int64, o control.Outlier) {
	w := q.all[offset]
	w.faults, w.outlier = 1, o
}

// hurry gives the first event of a key the class of a later one, which waits for it.
func (q *Queue) hurry(first *Waiting, class control.Class) {
	if class >= first.Class {
		return
	}
	if first.Class = class; first.scheduled {
		q.takeOut(first)
		q.offer(first)
	}
}

// Settle notes that the steps up to one are durable.
func (q *Queue) Settle(step uint64) {
	n := 0
	for ; n < len(q.pending) && q.pending[n].step <= step; n++ {
		if w := q.pending[n]; q.all[w.Offset] == w && w.step <= step && !w.durable {
			w.durable = true
			q.offer(w)
		}
	}
	q.pending = slices.Delete(q.pending, 0, n)
}

// offer puts an event where it is found, if it is the next of its key.
func (q *Queue) offer(w *Waiting) {
	switch {
	case q.ordered && q.keys[w.key][0] != w:
	case w.Behind:
		w.ready = true
		q.ready = append(q.ready, w)
	default:
		l := q.stages[w.Stage]
		if l == nil {
			l = &lane{}
			q.stages[w.Stage] = l
		}
		heap.Push(l, w)
	}
}

// takeOut takes an event out of what it is found in.
func (q *Queue) takeOut(w *Waiting) {
	if w.place >= 0 {
		heap.Remove(q.stages[w.Stage], w.place)
	}
	w.scheduled = false
	if w.ready {
		w.ready = false
		q.ready = slices.DeleteFunc(q.ready, func(o *Waiting) bool { return o == w })
	}
}

// Ready takes the events that wait for nothing. They stay queued.
func (q *Queue) Ready() []*Waiting {
	taken := q.ready
	for _, w := range taken {
		w.ready = false
	}
	q.ready = nil
	return taken
}

// HasReady reports whether an event waits for nothing.
func (q *Queue) HasReady() bool { return len(q.ready) > 0 }

// Stages returns the stages that events wait for the calls of, in order.
func (q *Queue) Stages() []int {
	var list []int
	for stage, l := range q.stages {
		if len(*l) > 0 {
			list = append(list, stage)
		}
	}
	slices.Sort(list)
	return list
}

// Untried reports whether an event of the stage has failed once at most: not yet as a
// probe.
func (q *Queue) Untried(stage int) bool {
	for _, w := range q.all {
		if w.Stage == stage && !w.Behind && w.faults < 2 {
			return true
		}
	}
	return false
}

// Due returns when the first event of a stage may be called for; ok is false
// where none waits.
func (q *Queue) Due(stage int) (at int64, ok bool) {
	if l := q.stages[stage]; l != nil && len(*l) > 0 {
		return (*l)[0].Due, true
	}
	return 0, false
}

// Take takes the first event of a stage. It stays queued.
func (q *Queue) Take(stage int) *Waiting { return heap.Pop(q.stages[stage]).(*Waiting) }

// Retry puts back an event that was taken, to be taken again at a time.
func (q *Queue) Retry(w *Waiting, due int64) {
	w.Due = due
	q.offer(w)
}

// TakeSince takes the events of a stage that were queued at a time or before.
func (q *Queue) TakeSince(stage int, at int64) []*Waiting {
	var old []*Waiting
	for _, w := range q.all {
		if (w.place >= 0 || w.scheduled) && w.Stage == stage && w.Since <= at {
			old = append(old, w)
		}
	}
	for _, w := range old {
		q.takeOut(w)
	}
	slices.SortFunc(old, func(a, b *Waiting) int { return int(a.Offset - b.Offset) })
	return old
}

// Remove ends the waiting of the event at an offset. The next one of its key is offered.
func (q *Queue) Remove(offset int64) {
	w := q.all[offset]
	if w == nil {
		return
	}
	q.takeOut(w)
	delete(q.all, offset)
	if q.clients[w.Client] == w {
		delete(q.clients, w.Client)
	}
	q.tenants.add(w.Tenant, -1)
	if !q.ordered {
		return
	}
	line := q.keys[w.key]
	first := line[0] == w
	if line = slices.DeleteFunc(line, func(o *Waiting) bool { return o == w }); len(line) == 0 {
		delete(q.keys, w.key)
		return
	}
	if q.keys[w.key] = line; first {
		for _, later := range line[1:] {
			q.hurry(line[0], later.Class)
		}
		if line[0].durable {
			q.offer(line[0])
		}
	}
}

// empty forgets all events.
func (q *Queue) empty() {
	for _, w := range q.all {
		q.tenants.add(w.Tenant, -1)
	}
	clear(q.all)
}

// Restore adds an event that is durable, in the order of the log.
func (q *Queue) Restore(offset int64, key []byte, head Head) {
	q.Add(offset, key, head, 0)
	q.Settle(0)
}

// lane is a heap of the events that wait for the calls of a stage, by (due,
// offset).
type lane []*Waiting

// Len implements heap.Interface.
func (l lane) Len() int { return len(l) }

// Less implements heap.Interface. Of events that are due at once, such as
// all events of an endpoint at a probe, the one that failed least comes first: a probe
// by an event that fails everywhere tells nothing about the endpoint.
func (l lane) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].Due, l[j].Due), cmp.Compare(l[i].faults, l[j].faults), cmp.Compare(l[i].Offset, l[j].Offset)) < 0
}

// Swap implements heap.Interface.
func (l lane) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push implements heap.Interface.
func (l *lane) Push(w any) {
	w.(*Waiting).place = len(*l)
	*l = append(*l, w.(*Waiting))
}

// Pop implements heap.Interface.
func (l *lane) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	(*l)[last] = nil
	*l, w.place = (*l)[:last], -1
	return w
}
