package embedded

import (
	"cmp"
	"container/list"
	"encoding/binary"
	"slices"
)

// producer is the highest number of an AppendOnce producer, and its last position in the log.
type producer struct {
	highest int64
	seq     uint64
	section int
}

func (p producer) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(p.highest))
	return binary.AppendUvarint(binary.AppendUvarint(b, p.seq), uint64(p.section))
}

// producers holds the most recent producers. The kept set depends only on the last position of each
// producer in the log, not on when the log forgot others. So redoing frames over newer cells gives
// the same set.
type producers struct {
	most   int
	byName map[string]*list.Element
	recent *list.List // of named, least recent first
}

type named struct {
	name string
	producer
}

func newProducers(most int) producers {
	return producers{most, map[string]*list.Element{}, list.New()}
}

func (ps *producers) highest(name string) int64 {
	if e := ps.byName[name]; e != nil {
		return e.Value.(*named).highest
	}
	return 0
}

// set makes the producer called name the most recent one.
func (ps *producers) set(name string, p producer) producer {
	e := ps.byName[name]
	if e == nil {
		e = ps.recent.PushBack(&named{name, p})
		ps.byName[name] = e
	}
	e.Value.(*named).producer = p
	ps.recent.MoveToBack(e)
	return p
}

// trim removes the least recent producers beyond the limit and returns their names.
func (ps *producers) trim() (forgotten []string) {
	for ps.recent.Len() > ps.most {
		e := ps.recent.Front()
		name := e.Value.(*named).name
		ps.recent.Remove(e)
		delete(ps.byName, name)
		forgotten = append(forgotten, name)
	}
	return forgotten
}

// load adds a producer in any order. The caller must call sort after the last one.
func (ps *producers) load(name string, r *reader) {
	ps.set(name, producer{int64(r.uvarint()), r.uvarint(), int(r.uvarint())})
}

// sort orders the producers after loading.
func (ps *producers) sort() {
	all := make([]*named, 0, ps.recent.Len())
	for e := ps.recent.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*named))
	}
	slices.SortFunc(all, func(a, b *named) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.section, b.section)) })
	for _, p := range all {
		ps.recent.MoveToBack(ps.byName[p.name])
	}
}
