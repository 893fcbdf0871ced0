package feature

import "math"

// moments holds the sums that variance, stddev and slope are computed from.
//
// With decimals they are exact: integers modulo 2^128. They are in range if the sum of squares is
// (see fits). For floats they are a mean and sums of products about the means, which avoids
// cancellation. Two moments of floats are merged by the formula of Chan, Golub and LeVeque (1979),
// in the same order as sums. The entries of a block form one part; in a pane each entry is a part.
//
// Times are integers in both cases. A window has less than 2^37 entries, so the sum of squares of
// times about their mean is in range.
type moments struct {
	n, sum int64 // as in total
	vv     wide  // squares of values; for floats the bits of the mean and of the squares about the mean
	t, tt  wide  // times, and their squares
	tv     wide  // products; for floats lo has the bits of the products about the means
}

func bitsOf(v float64) uint64     { return math.Float64bits(v) }
func floatOf(bits uint64) float64 { return math.Float64frombits(bits) }

// addMoments adds one entry.
func (u *unit) addMoments(m *moments, t, value int64) {
	if u.float {
		one := moments{n: 1, sum: ordered(value), vv: wide{hi: uint64(ordered(value))}}
		if u.slopes {
			one.t, one.tt = wideOf(t), mul(t, t)
		}
		u.mergeMoments(m, &one)
		return
	}
	m.n++
	m.sum += value
	m.vv = m.vv.add(mul(value, value))
	if u.slopes {
		m.t, m.tt, m.tv = m.t.add(wideOf(t)), m.tt.add(mul(t, t)), m.tv.add(mul(t, value))
	}
}

// mergeMoments adds the entries of o, which come after those of m.
func (u *unit) mergeMoments(m, o *moments) {
	switch {
	case o.n == 0:
		return
	case m.n == 0:
		*m = *o
		return
	case !u.float:
		m.sum += o.sum
		m.vv, m.tv = m.vv.add(o.vv), m.tv.add(o.tv)
	default:
		part := float64(o.n) / (float64(m.n) + float64(o.n))
		share := float64(m.n) * part
		apart := floatOf(o.vv.hi) - floatOf(m.vv.hi)
		m.vv.lo = bitsOf(floatOf(m.vv.lo) + floatOf(o.vv.lo) + float64(float64(apart*apart)*share))
		m.vv.hi = bitsOf(floatOf(m.vv.hi) + float64(apart*part))
		if u.slopes {
			p, left := m.t.over(m.n)
			q, right := o.t.over(o.n)
			later := float64(q-p) + (float64(right)/float64(o.n) - float64(left)/float64(m.n))
			m.tv.lo = bitsOf(floatOf(m.tv.lo) + floatOf(o.tv.lo) + float64(float64(apart*later)*share))
		}
		m.sum = addFloat(m.sum, o.sum)
	}
	m.n += o.n
	m.t, m.tt = m.t.add(o.t), m.tt.add(o.tt)
}

// leave removes the entries of o from m. Their values are integers.
func (m *moments) leave(o *moments) {
	m.n, m.sum = m.n-o.n, m.sum-o.sum
	m.vv, m.t, m.tt, m.tv = m.vv.sub(o.vv), m.t.sub(o.t), m.tt.sub(o.tt), m.tv.sub(o.tv)
}

// since shifts the times of m so that they count from c.
func (u *unit) since(m *moments, c int64) {
	m.tt = m.tt.sub(m.t.times(c)).sub(m.t.times(c)).add(mul(c, c).times(m.n))
	m.t = m.t.sub(mul(m.n, c))
	if !u.float {
		m.tv = m.tv.sub(mul(m.sum, c))
	}
}

// aboutMeans returns the sum of products about the means of n entries. products is the sum about
// the nearest integers to the means; a and b are the total distances of the values from these
// integers.
func aboutMeans(products wide, a, b, n int64) float64 {
	return products.float() - float64(a)*float64(b)/float64(n)
}

// variance returns the population variance, the mean of the squares about the mean. m has at least
// one entry.
func (u *unit) variance(m *moments) float64 {
	n := float64(m.n)
	if u.float {
		return max(0, floatOf(m.vv.lo)) / n
	}
	q, rest := wideOf(m.sum).over(m.n)
	squares := m.vv.sub(mul(m.sum, q)).sub(mul(rest, q)) // sum of (v-q)^2 = vv - q*sum - q*(sum-n*q)
	return aboutMeans(squares, rest, rest, m.n) / n / (u.scale * u.scale)
}

// slope returns the change of the value per second, by least squares. ok is false if all entries
// have the same time.
func (u *unit) slope(m *moments) (perSecond float64, ok bool) {
	about := *m
	p, late := m.t.over(m.n)
	u.since(&about, p)
	times := aboutMeans(about.tt, late, late, m.n)
	if !(times > 0) {
		return 0, false
	}
	if u.float {
		return floatOf(m.tv.lo) / times * 1e6, true
	}
	q, rest := wideOf(m.sum).over(m.n)
	products := about.tv.sub(mul(late, q))
	return aboutMeans(products, late, rest, m.n) / u.scale / times * 1e6, true
}

// square returns the sum of the squares of the values.
func (u *unit) square(m *moments) float64 {
	if u.float {
		mean := floatOf(m.vv.hi)
		return floatOf(m.vv.lo) + float64(m.n)*float64(mean*mean)
	}
	return m.vv.unsigned()
}

// scanMoments returns the moments of the entries in (lo, t]. For floats it makes two passes.
func (e *entries) scanMoments(words []int64, lo, t int64) (m moments) {
	if !e.float {
		for k := 1; k < len(words); k += 2 {
			if at := words[k-1]; at > lo && at <= t {
				e.addMoments(&m, at, words[k])
			}
		}
		return m
	}
	var about deviations
	for k := 1; k < len(words); k += 2 {
		if at := words[k-1]; at > lo && at <= t {
			about.first(&m, words[k])
			if e.slopes {
				m.t, m.tt = m.t.add(wideOf(at)), m.tt.add(mul(at, at))
			}
		}
	}
	about.turn(&m)
	for k := 1; k < len(words); k += 2 {
		if at := words[k-1]; at > lo && at <= t {
			about.second(at, words[k])
		}
	}
	about.finish(&m)
	return m
}

// deviations sums the deviations of floats from their mean. The first pass finds the mean relative
// to the first value, so equal values have no deviation.
type deviations struct {
	from, mean   float64
	sum          float64 // sum of the differences to from, then to mean
	time, late   int64   // the nearest integer to the mean of times, and the total difference of the times to it
	squares, tvs float64
}

func (d *deviations) first(m *moments, value int64) {
	v := wordFloat(value)
	if m.n == 0 {
		d.from = v
	}
	m.n++
	m.sum = addFloat(m.sum, ordered(value))
	d.sum += v - d.from
}

func (d *deviations) turn(m *moments) {
	if m.n > 0 {
		d.mean = d.from + d.sum/float64(m.n)
		d.time, d.late = m.t.over(m.n)
	}
	d.sum = 0
}

func (d *deviations) second(t, value int64) {
	v := wordFloat(value) - d.mean
	d.sum += v
	d.squares += float64(v * v)
	d.tvs += float64(float64(t-d.time) * v)
}

// finish corrects the sums by the rounding errors of the means.
func (d *deviations) finish(m *moments) {
	if n := float64(m.n); n > 0 {
		m.vv.hi = bitsOf(d.mean + d.sum/n)
		m.vv.lo = bitsOf(d.squares - float64(d.sum*d.sum)/n)
		m.tv.lo = bitsOf(d.tvs - float64(float64(d.late)*d.sum)/n)
	}
}

// moments returns the moments of the newest values.
func (l *last) moments(words []int64) (m moments) {
	first, second := l.values(words)
	var about deviations
	for _, part := range [2][]int64{first, second} {
		for _, v := range part {
			if l.float {
				about.first(&m, v)
			} else {
				l.addMoments(&m, 0, v)
			}
		}
	}
	if !l.float {
		return m
	}
	about.turn(&m)
	for _, part := range [2][]int64{first, second} {
		for _, v := range part {
			about.second(0, v)
		}
	}
	about.finish(&m)
	return m
}
