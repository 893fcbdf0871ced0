package feature

import (
	"errors"
	"math"
	"math/big"
	"math/rand"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// refMoments are moments of floats, or nothing.
type refMoments struct {
	n, mean, squares float64
	times            *big.Int // their sum
	timed            float64  // products of deviations of time and value
}

// nearest returns the integer nearest to the mean of integers, and what all are beyond it.
func nearest(all []int64) (q, rest *big.Int) { return over(sumInts(all), int64(len(all))) }

func sumInts(all []int64) *big.Int {
	sum, part := new(big.Int), new(big.Int)
	for some := range slices.Chunk(all, 64) { // which an int64 holds
		n := int64(0)
		for _, v := range some {
			n += v
		}
		sum.Add(sum, part.SetInt64(n))
	}
	return sum
}

// over returns the integer nearest to sum/count, and what is left.
func over(sum *big.Int, count int64) (q, rest *big.Int) {
	n := big.NewInt(count)
	q, rest = new(big.Int).QuoRem(sum, n, new(big.Int))
	if twice := new(big.Int).Abs(rest); twice.Lsh(twice, 1).Cmp(n) > 0 {
		q.Add(q, big.NewInt(int64(rest.Sign())))
		rest.Sub(rest, new(big.Int).Mul(n, big.NewInt(int64(rest.Sign()))))
	}
	return q, rest
}

func float(n *big.Int) float64 { f, _ := new(big.Float).SetInt(n).Float64(); return f }

// products returns the sum of products about the means of integers.
func products(a, b []int64) float64 {
	p, late := nearest(a)
	q, more := nearest(b)
	sum, x, y := new(big.Int), new(big.Int), new(big.Int)
	for k := range a {
		x.SetInt64(a[k] - p.Int64())
		sum.Add(sum, x.Mul(x, y.SetInt64(b[k]-q.Int64())))
	}
	return float(sum) - float64(float(late)*float(more))/float64(len(a))
}

func timesOf(in []refEntry) (out []int64) {
	for _, e := range in {
		out = append(out, e.t)
	}
	return out
}

func unitsOf(in []refEntry) (out []int64) {
	for _, e := range in {
		out = append(out, int64(e.v))
	}
	return out
}

func (r *reference) variance(in []refEntry, groups [][][]refEntry) float64 {
	n := float64(len(in))
	if r.spec.Decimals >= 0 {
		return products(unitsOf(in), unitsOf(in)) / n / math.Pow10(2*r.spec.Decimals)
	}
	return math.Max(0, mergeAll(groups).squares) / n
}

func (r *reference) slope(in []refEntry, groups [][][]refEntry) (float64, bool) {
	times := products(timesOf(in), timesOf(in))
	if times == 0 {
		return 0, false
	}
	if r.spec.Decimals >= 0 {
		return products(timesOf(in), unitsOf(in)) / math.Pow10(r.spec.Decimals) / times * 1e6, true
	}
	return mergeAll(groups).timed / times * 1e6, true
}

func mergeAll(groups [][][]refEntry) (out refMoments) {
	for _, group := range groups {
		var of refMoments
		for _, part := range group {
			of = merged(of, momentsOf(part))
		}
		out = merged(out, of)
	}
	return out
}

// momentsOf returns the moments of a part, in two passes.
func momentsOf(part []refEntry) (m refMoments) {
	if len(part) == 0 {
		return m
	}
	m.n = float64(len(part))
	beyond := 0.0
	for _, e := range part {
		beyond += e.v - part[0].v
	}
	mean := part[0].v + beyond/m.n
	time, late := nearest(timesOf(part))
	off := 0.0
	for _, e := range part {
		d := e.v - mean
		off += d
		m.squares += float64(d * d)
		m.timed += float64(float64(e.t-time.Int64()) * d)
	}
	m.mean = mean + off/m.n
	m.squares -= float64(off*off) / m.n
	m.timed -= float64(float(late)*off) / m.n
	m.times = sumInts(timesOf(part))
	return m
}

func merged(a, b refMoments) refMoments {
	if a.n == 0 || b.n == 0 {
		if a.n == 0 {
			return b
		}
		return a
	}
	part := b.n / (a.n + b.n)
	apart, later := b.mean-a.mean, between(a, b)
	out := refMoments{n: a.n + b.n, mean: a.mean + float64(apart*part)}
	out.squares = a.squares + b.squares + float64(float64(apart*apart)*float64(a.n*part))
	out.timed = a.timed + b.timed + float64(float64(apart*later)*float64(a.n*part))
	out.times = new(big.Int).Add(a.times, b.times)
	return out
}

// between returns how much later the mean time of b is: that of the nearest integers, and
// of what is left.
func between(a, b refMoments) float64 {
	p, left := over(a.times, int64(a.n))
	q, right := over(b.times, int64(b.n))
	return float(new(big.Int).Sub(q, p)) + (float(right)/b.n - float(left)/a.n)
}

// TestMomentsAreAccurate compares with rational numbers. Values are far from zero compared
// with how much they differ, where squares less a squared sum would have no digit left.
func TestMomentsAreAccurate(t *testing.T) {
	worst := map[bool]float64{}
	seeds.Run(t, 40, func(t *testing.T, random *rand.Rand) {
		decimals := random.Intn(4) - 1
		spec := Spec{Name: "f", Windows: windowsOf(t, "600s", "600s/10s"), Aggregates: []Aggregate{Variance, Stddev, Slope}, Decimals: decimals}
		spec.Windows[1].Name = "panes"
		s := setOf(t, spec)
		c, level, spread := s.NewCell(), math.Pow(10, float64(random.Intn(9))), math.Pow(10, float64(random.Intn(3)))
		var entries []refEntry
		u := unitOf(decimals)
		at := int64(1_700_000_000_000_000)
		for n := range 1 + random.Intn(2000) {
			at += int64(random.Intn(500_000))
			word, err := u.word(level + spread*random.NormFloat64() + float64(n)/1000)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, refEntry{t: at, v: u.near(word), n: n})
			if err := s.Add(c, 0, at, u.number(word)); err != nil {
				t.Fatal(err)
			}
		}
		out, newest := make([]float64, 6), entries[len(entries)-1].t
		if err := s.Read(c, 0, newest, out); err != nil {
			t.Fatal(err)
		}
		for k, w := range spec.Windows {
			from := newest - w.Size.Microseconds()
			if w.Pane > 0 {
				from = newest - newest%w.Pane.Microseconds() - w.Size.Microseconds() + w.Pane.Microseconds() - 1
			}
			in := filter(entries, func(e refEntry) bool { return e.t > from })
			variance, slope := exactly(in, &u)
			for a, want := range []float64{variance, math.Sqrt(variance), slope} {
				off := math.Abs(out[3*k+a]-want) / math.Max(math.Abs(want), 1e-9)
				worst[decimals < 0] = math.Max(worst[decimals < 0], off)
				if limit := map[bool]float64{true: 1e-6, false: 1e-13}[decimals < 0]; !(off <= limit) {
					t.Errorf("%v of %s of %d entries near %v +- %v with %d decimals is %v, want %v", spec.Aggregates[a], w.Name, len(in), level, spread, decimals, out[3*k+a], want)
				}
			}
		}
	})
	t.Logf("worst relative error: %.1g with decimals, %.1g of floats", worst[false], worst[true])
}

// exactly returns the variance and the slope a second, 0 where there is none.
func exactly(in []refEntry, u *unit) (variance, slope float64) {
	n, v, t, vv, tt, tv := new(big.Rat).SetInt64(int64(len(in))), new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat)
	for _, e := range in {
		x, at := new(big.Rat).SetFloat64(e.v), big.NewRat(e.t, 1_000_000)
		if !u.float {
			x.Quo(x, new(big.Rat).SetFloat64(u.scale))
		}
		v.Add(v, x)
		t.Add(t, at)
		vv.Add(vv, new(big.Rat).Mul(x, x))
		tt.Add(tt, new(big.Rat).Mul(at, at))
		tv.Add(tv, new(big.Rat).Mul(at, x))
	}
	about := func(ab, a, b *big.Rat) *big.Rat {
		both := new(big.Rat).Mul(a, b)
		return new(big.Rat).Sub(ab, both.Quo(both, n))
	}
	variance, _ = new(big.Rat).Quo(about(vv, v, v), n).Float64()
	if times := about(tt, t, t); times.Sign() > 0 {
		slope, _ = new(big.Rat).Quo(about(tv, t, v), times).Float64()
	}
	return variance, slope
}

// TestMomentsOfFewEntries are of one entry, of one time, and of equal values.
func TestMomentsOfFewEntries(t *testing.T) {
	for _, decimals := range []int{-1, 2} {
		s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Variance, Stddev, Slope}, Decimals: decimals, Empty: -1})
		c, out := s.NewCell(), make([]float64, 3)
		read := func(want ...float64) {
			t.Helper()
			if err := s.Read(c, 0, 1_000_000, out); err != nil || !sameBits(out, want) {
				t.Errorf("decimals %d: %v, %v, want %v", decimals, out, err, want)
			}
		}
		read(-1, -1, -1)
		add := func(at int64, v float64) {
			t.Helper()
			if err := s.Add(c, 0, at, v); err != nil {
				t.Fatal(err)
			}
		}
		add(0, 0.1)
		read(0, 0, -1)
		for range 9 {
			add(0, 0.1)
		}
		read(0, 0, -1)
		add(1_000_000, 0.1)
		read(0, 0, 0)
	}
}

// TestSquaresAreInRange holds that squares beyond the largest number are refused, whether
// the cell was restored or not, and that all others are right.
func TestSquaresAreInRange(t *testing.T) {
	refused := 0
	all := seeds.Run(t, 20, func(t *testing.T, random *rand.Rand) {
		decimals := random.Intn(2) - 1
		s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "60s/20s", "50s"), Aggregates: []Aggregate{Variance, Slope}, Decimals: decimals, Max: 64})
		twins := newTwins(s)
		for n := range int64(400) {
			v := (1 << 53) * (2*random.Float64() - 1)
			if decimals < 0 && random.Intn(3) == 0 {
				v = random.NormFloat64() * math.Pow(2, 490+float64(random.Intn(14)))
			}
			taken := 0
			for _, w := range twins {
				err := s.Add(w.cell, 0, n*400_000, v)
				if err != nil && !errors.Is(err, ErrSum) {
					t.Fatal(err)
				}
				if err == nil {
					taken++
				}
				w.afterEvent(t, s, random)
			}
			if taken != 0 && taken != len(twins) {
				t.Fatalf("%d of %d take %v", taken, len(twins), v)
			}
			if taken == 0 {
				refused++
			}
			var first []float64
			for k, w := range twins {
				out := make([]float64, 4)
				err := s.Read(w.cell, 0, n*400_000, out)
				if k == 0 {
					first = out
				}
				if err != nil || !sameBits(out, first) || !(out[0]-out[0] == 0 && out[1]-out[1] == 0 && out[2]-out[2] == 0) {
					t.Fatalf("twin %d reads %v, %v, twin 0 %v", k, out, err, first)
				}
			}
		}
		compareStates(t, s, twins)
	})
	if all && refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestWideIntegers compares with big integers.
func TestWideIntegers(t *testing.T) {
	seeds.Run(t, 5, func(t *testing.T, random *rand.Rand) {
		whole := func() int64 { return int64(random.Uint64()) >> random.Intn(64) }
		bigOf := func(w wide) *big.Int {
			n := new(big.Int).SetUint64(uint64(int64(w.hi)))
			n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(w.lo))
			if int64(w.hi) < 0 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
			}
			return n
		}
		for range 2000 {
			a, b, n := whole(), whole(), 1+whole()&(1<<52-1)
			p := mul(a, b)
			if got, want := bigOf(p), new(big.Int).Mul(big.NewInt(a), big.NewInt(b)); got.Cmp(want) != 0 {
				t.Fatalf("%d * %d is %v, want %v", a, b, got, want)
			}
			if got, want := p.float(), float(bigOf(p)); got != want {
				t.Fatalf("%d * %d is %v, want %v", a, b, got, want)
			}
			sum := mul(a>>2, n).add(wideOf(b >> 12))
			q, rest := sum.over(n)
			if got := new(big.Int).Add(new(big.Int).Mul(big.NewInt(q), big.NewInt(n)), big.NewInt(rest)); got.Cmp(bigOf(sum)) != 0 || rest > n/2 || rest < -n/2 {
				t.Fatalf("%v over %d is %d, rest %d", bigOf(sum), n, q, rest)
			}
			if got, want := bigOf(wideOf(a).times(b)), new(big.Int).Mul(big.NewInt(a), big.NewInt(b)); got.Cmp(want) != 0 {
				t.Fatalf("%d times %d is %v, want %v", a, b, got, want)
			}
		}
	})
}
