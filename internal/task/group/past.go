package group

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
)

// past is a group that ended and is still known. An event of its time is late, or was in it
// already.
type past struct {
	key      string // key of its entry in the state
	of       *series
	reason   Reason
	from, to int64    // from its first event to the earliest time of the next event outside it
	until    int64    // watermark at which it expires
	hashes   []uint64 // hashes of its ids, sorted
}

// has reports whether a time is within the group.
func (p *past) has(t int64) bool { return p.from <= t && t < p.to }

func (p *past) knows(id string) bool {
	_, known := slices.BinarySearch(p.hashes, hash(id))
	return known
}

func hash(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// pastOf returns the past of a group that ends at a time.
func pastOf(q *series, g *group, e *Ended, at int64) *past {
	keep := g.spec.Idle
	if keep == 0 {
		keep = g.spec.Within
	}
	p := &past{
		key: string(statekey.AppendEnded(nil, q.name, g.members[0].offset)), of: q, reason: e.Reason,
		from: g.first(), to: g.over(), until: at + keep.Microseconds(),
	}
	if !g.spec.Stores() {
		return p
	}
	for _, m := range e.members {
		p.hashes = append(p.hashes, hash(m.id))
	}
	slices.Sort(p.hashes)
	return p
}

// know adds an ended group. If there are more ended groups than groups may be open, it removes
// those that expire soonest.
func (s *Set) know(p *past) {
	p.of.past = append(p.of.past, p)
	s.past[p.key] = p
	s.queue(p.until, p.key)
	s.over.Push(due.Entry{At: p.until, Key: p.key})
	most := 0
	for _, g := range s.plan.Groups {
		most += g.Open
	}
	for len(s.past) > most {
		e := s.over.Pop()
		if p := s.past[e.Key]; p != nil && p.until == e.At {
			s.forget(p)
		}
	}
	if s.over.Len() <= 2*most {
		return
	}
	s.over.Reset()
	for key, p := range s.past {
		s.over.Push(due.Entry{At: p.until, Key: key})
	}
}

// learn adds an ended group, and marks it to be stored.
func (s *Set) learn(p *past) {
	s.told = append(s.told, p.key)
	s.know(p)
}

// forget removes an ended group.
func (s *Set) forget(p *past) {
	delete(s.past, p.key)
	s.told = append(s.told, p.key)
	p.of.past = slices.DeleteFunc(p.of.past, func(o *past) bool { return o == p })
	s.drop(p.of)
}

// append appends the stored form of a past.
func (p *past) append(dst []byte) []byte {
	dst = append(dst, pastVersion, byte(p.reason))
	for _, n := range []int64{p.from, p.to, p.until} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, h := range p.hashes {
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst
}

const pastVersion = 1

// parse parses the output of append.
func (p *past) parse(data []byte) bool {
	r := packed.Reader{Rest: data}
	if r.Byte() != pastVersion {
		return false
	}
	p.reason, p.from, p.to, p.until = Reason(r.Byte()), r.Signed(), r.Signed(), r.Signed()
	return p.rest(&r)
}

func (p *past) rest(r *packed.Reader) bool {
	for len(r.Rest) > 0 {
		p.hashes = append(p.hashes, r.Word())
	}
	return !r.Bad && p.reason < reasonsCount
}

// parseFirst parses version 1 of an ended group: a flag, the reason, the expiry time and the ids.
// As in that version, every event until the expiry counts as within the group.
func (p *past) parseFirst(r *packed.Reader) bool {
	p.reason, p.from = Reason(r.Byte()), math.MinInt64
	p.until = r.Signed()
	p.to = p.until
	return p.rest(r)
}
