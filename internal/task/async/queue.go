package async

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"

	"github.com/afterbay/afterbay/internal/control"
)

// Waiting is an event in a queue.
type Waiting struct {
	Head
	Offset int64

	faults    int             // failed attempts since it was restored, whatever their cause
	outlier   control.Outlier // for the endpoint of its operator
	key       string
	step      uint64 // transaction that makes it durable
	durable   bool
	place     int // index in the heap of its operator; -1 if it is in no heap
	ready     bool
	scheduled bool // it is due, and in the fair queue of its operator
	dropped   bool // given up by a command
	looked    bool // the journal had no answer while the endpoint was down
	showing   bool // partial answers of its newest call were written
}

// Queue decides which queued event of a partition is next. An event is ready if it waits for no
// call; otherwise it may be called for when it is due. In both cases it must be durable. In an
// ordered queue it must also be the first of its key. The zero value is not usable: see NewQueue.
type Queue struct {
	ordered bool
	all     map[int64]*Waiting
	clients map[string]*Waiting // events of clients, by header.ClientEvent
	stages  map[int]*lane
	keys    map[string][]*Waiting // if ordered: events of each key, in log order
	pending []*Waiting            // not durable yet, by transaction
	ready   []*Waiting
	tenants *Tenants // nil counts no tenants
}

// NewQueue returns an empty queue. An ordered queue keeps the events of a key in log order.
func NewQueue(ordered bool) *Queue {
	return &Queue{ordered: ordered, all: map[int64]*Waiting{}, clients: map[string]*Waiting{}, stages: map[int]*lane{}, keys: map[string][]*Waiting{}}
}

// Len returns how many events are queued.
func (q *Queue) Len() int { return len(q.all) }

// Get returns the event at an offset, or nil if it is not queued.
func (q *Queue) Get(offset int64) *Waiting { return q.all[offset] }

// Holds reports whether an event of the key is queued. The queue must be ordered.
func (q *Queue) Holds(key string) bool { return len(q.keys[key]) > 0 }

// Behind yields the events of the key that wait for an earlier one, in log order. The queue must be
// ordered.
func (q *Queue) Behind(key string) iter.Seq[*Waiting] {
	return func(yield func(*Waiting) bool) {
		for _, w := range q.keys[key] {
			if w.Behind && !yield(w) {
				return
			}
		}
	}
}

// Before reports whether an earlier event of the key than the one at offset is queued.
func (q *Queue) Before(key string, offset int64) bool {
	line := q.keys[key]
	return len(line) > 0 && line[0].Offset != offset
}

// Add adds an event, or queues it again. It becomes durable with transaction step. In an ordered
// queue, the events of a key must be added in log order.
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
		head.Class = min(head.Class, w.Class) // hurry may have raised its class
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

// Failed records that an earlier call for a queued event failed inside the loop.
func (q *Queue) Failed(offset int64, o control.Outlier) {
	w := q.all[offset]
	w.faults, w.outlier = 1, o
}

// hurry raises the class of the first event of a key to that of a later one, which waits for it.
func (q *Queue) hurry(first *Waiting, class control.Class) {
	if class >= first.Class {
		return
	}
	if first.Class = class; first.scheduled {
		q.takeOut(first)
		q.offer(first)
	}
}

// Settle records that the transactions up to step are durable.
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

// offer makes an event available if it is the next of its key.
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

// takeOut removes an event from the heap or list that offers it.
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

// Ready takes the events that wait for no call. They stay queued.
func (q *Queue) Ready() []*Waiting {
	taken := q.ready
	for _, w := range taken {
		w.ready = false
	}
	q.ready = nil
	return taken
}

// HasReady reports whether an event waits for no call.
func (q *Queue) HasReady() bool { return len(q.ready) > 0 }

// Stages returns the operators with waiting events, in order.
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

// Untried reports whether an event of the operator has failed at most once, that is, not yet as a
// probe.
func (q *Queue) Untried(stage int) bool {
	for _, w := range q.all {
		if w.Stage == stage && !w.Behind && w.faults < 2 {
			return true
		}
	}
	return false
}

// Due returns when the first event of an operator may be called for. ok is false if no event waits.
func (q *Queue) Due(stage int) (at int64, ok bool) {
	if l := q.stages[stage]; l != nil && len(*l) > 0 {
		return (*l)[0].Due, true
	}
	return 0, false
}

// Take takes the first event of an operator. It stays queued.
func (q *Queue) Take(stage int) *Waiting { return heap.Pop(q.stages[stage]).(*Waiting) }

// Retry puts back an event that was taken, so that it is due at a later time.
func (q *Queue) Retry(w *Waiting, due int64) {
	w.Due = due
	q.offer(w)
}

// TakeSince takes the events of an operator that were queued at or before a time.
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

// Remove removes the event at an offset from the queue, and offers the next one of its key.
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

// empty removes all events.
func (q *Queue) empty() {
	for _, w := range q.all {
		q.tenants.add(w.Tenant, -1)
	}
	clear(q.all)
}

// Restore adds an event that is durable. Events must be added in log order.
func (q *Queue) Restore(offset int64, key []byte, head Head) {
	q.Add(offset, key, head, 0)
	q.Settle(0)
}

// lane is a heap of the events that wait for the calls of an operator, by due time, failures and
// offset.
type lane []*Waiting

// Len implements heap.Interface.
func (l lane) Len() int { return len(l) }

// Less implements heap.Interface. Several events may be due at once, for example all events of an
// endpoint at a probe. Then the event with the fewest failures comes first, because an event that
// always fails reveals nothing about the endpoint.
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
