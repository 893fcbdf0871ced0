package feature

import "encoding/binary"

// momentWords returns how many words the moments of a pane need. The number and the sum of the
// entries are not among them: a pane has them anyway.
func (f *paneForm) momentWords() int {
	if f.slopes {
		return 8
	}
	return 2
}

// momentsIn returns the moments of a pane or a base of n entries.
func (f *paneForm) momentsIn(words []int64, n int64) moments {
	m := moments{n: n, sum: words[f.sumAt]}
	in := words[f.momentsAt:]
	m.vv = wide{uint64(in[0]), uint64(in[1])}
	if f.slopes {
		m.t, m.tt, m.tv = wide{uint64(in[2]), uint64(in[3])}, wide{uint64(in[4]), uint64(in[5])}, wide{uint64(in[6]), uint64(in[7])}
	}
	return m
}

// putMoments stores moments, except the number and the sum of the entries.
func (f *paneForm) putMoments(words []int64, m *moments) {
	in := words[f.momentsAt:]
	in[0], in[1] = int64(m.vv.hi), int64(m.vv.lo)
	if f.slopes {
		in[2], in[3], in[4], in[5] = int64(m.t.hi), int64(m.t.lo), int64(m.tt.hi), int64(m.tt.lo)
		in[6], in[7] = int64(m.tv.hi), int64(m.tv.lo)
	}
}

// foldInMoments adds an entry to the moments of a pane, before its number and sum change.
func (f *paneForm) foldInMoments(pane []int64, t, value int64) {
	m := f.momentsIn(pane, pane[0]>>paneBits)
	f.addMoments(&m, t, value)
	f.putMoments(pane, &m)
}

// mergePane adds the moments of a pane to those of a base.
func (f *paneForm) mergePane(base, pane []int64) {
	m, more := f.momentsIn(base, base[0]), f.momentsIn(pane, pane[0]>>paneBits)
	f.mergeMoments(&m, &more)
	f.putMoments(base, &m)
}

// foldMoments returns the merged moments of panes, in their order.
func (p *panes) foldMoments(live []int64) (m moments) {
	for ; len(live) > 0; live = live[p.stride:] {
		more := p.momentsIn(live, live[0]>>paneBits)
		p.mergeMoments(&m, &more)
	}
	return m
}

// appendMoments appends the encoded moments of the pane of index i.
func (p *panes) appendMoments(b []byte, pane []int64, i int64) []byte {
	m := p.momentsIn(pane, pane[0]>>paneBits)
	if p.float {
		b = appendBits(appendBits(b, int64(m.vv.hi)), int64(m.vv.lo))
	} else {
		b = appendWide(b, m.vv)
	}
	if !p.slopes {
		return b
	}
	p.since(&m, i*p.length)
	b = appendWide(appendWide(b, m.t), m.tt)
	if p.float {
		return appendBits(b, int64(m.tv.lo))
	}
	return appendWide(b, m.tv)
}

// appendWide appends an integer. Small integers take few bytes.
func appendWide(b []byte, w wide) []byte {
	m, sign := w, w.hi>>63
	if sign == 1 {
		m = wide{^w.hi, ^w.lo}
	}
	b = binary.AppendUvarint(b, m.hi<<1|sign)
	return binary.AppendUvarint(b, m.lo)
}

func (r *reader) wide() wide {
	hi, lo := r.uvarint(), r.uvarint()
	if hi&1 == 1 {
		return wide{^(hi >> 1), ^lo}
	}
	return wide{hi >> 1, lo}
}

// loadMoments loads the moments of the pane of index i. They follow its other words.
func (p *panes) loadMoments(pane []int64, i int64, r *reader) {
	m := moments{n: pane[0] >> paneBits, sum: pane[p.sumAt]}
	if p.float {
		m.vv = wide{uint64(r.finite()), uint64(r.finite())}
	} else if m.vv = r.wide(); m.vv.hi >= 1<<62 {
		r.fail("squares out of range")
	}
	if p.slopes {
		m.t, m.tt = r.wide(), r.wide()
		if after := mul(m.n, p.length).sub(m.t); int64(m.t.hi|after.hi) < 0 {
			r.fail("times out of range")
			return
		}
		if p.float {
			m.tv.lo = uint64(r.finite())
		} else {
			m.tv = r.wide()
		}
		p.since(&m, -i*p.length)
	}
	p.putMoments(pane, &m)
}
