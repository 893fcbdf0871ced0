package feature

// last is a feature of the newest values by arrival. Once it has the most that it keeps, they are a
// ring.
type last struct {
	unit
	place
	extremes bool // max or min is read
}

func newLast(spec *Spec, r *reading, in *layout) last {
	room := place{stride: 1, least: 1, most: spec.Last}
	return last{unit: r.unit, place: in.queue(room, 0), extremes: r.any(Max, Min)}
}

// add adds a value. If the ring is full, the value replaces the oldest one.
func (l *last) add(c *Cell, value int64) {
	e, begin := extent(c.words[l.at]), extent(c.words[l.at+1]).from()
	if e.to()-begin < l.most {
		l.push(c)[0] = value
		return
	}
	at := e.from()
	c.words[at] = value
	if at++; at == e.to() {
		at = begin
	}
	c.words[l.at] = int64(extentOf(at, e.to()))
}

// values returns the newest values, in two parts. Those of the first part are older.
func (l *last) values(words []int64) (first, second []int64) {
	e := extent(words[l.at])
	return words[e.from():e.to()], words[extent(words[l.at+1]).from():e.from()]
}

// total returns the total of the values in the order of their arrival.
func (l *last) total(words []int64) total {
	first, second := l.values(words)
	t := nothing
	t.n, t.sum = int64(len(first)+len(second)), l.foldParts(first, second)
	if l.extremes {
		for _, v := range first {
			t.max, t.min = max(t.max, v), min(t.min, v)
		}
		for _, v := range second {
			t.max, t.min = max(t.max, v), min(t.min, v)
		}
	}
	return t
}
