package feature

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/afterbay/afterbay/internal/event/hash"
)

// A sketch of a pane has two parts; a feature needs one or both:
//
//   - bins, for percentiles: the number of entries in each bin of values. It is a DDSketch
//     (Masson, Rim, Lee 2019). A bin is the exponent and the highest 6 bits of the mantissa
//     of a float64. So no logarithm is computed, and each value of a bin is within 2^-7 of its
//     middle.
//   - members, for distinct: the hashes of the different values, and beyond a bound the
//     registers of a HyperLogLog (Flajolet and others 2007).
//
// Both are integers, and a function of the entries of the pane in any order. Running sums of
// sketches cover all entries of a window while panes are added and dropped.

// item is an entry as sketches see it.
type item struct {
	bin  int32
	hash uint64
}

const (
	binShift  = 52 - 6  // bits of a float64 below its bin
	binOffset = 1 << 17 // makes bins of negative numbers positive
	binBits   = 46      // bits of the number of entries in the word of a bin
	mostBins  = 1024    // most bins of a pane

	mostCounted = 1 << (binBits - 1) // most entries in a loaded bin: some years of additions fit on top
)

// binOf returns the bin of a number. It is 0 for numbers nearer to zero than 2^-1022, and negative
// for negative numbers.
func binOf(v float64) int32 {
	bin := int32(math.Float64bits(math.Abs(v)) >> binShift)
	switch {
	case bin < 1<<octaveBits:
		return 0
	case v < 0:
		return -bin
	}
	return bin
}

// middle returns the number that represents a bin: its middle. If values are units of a decimal, it
// is the middle whole number.
func (u *unit) middle(bin int32) float64 {
	if bin == 0 {
		return 0
	}
	v := math.Float64frombits(uint64(max(bin, -bin))<<binShift | 1<<(binShift-1))
	if !u.float {
		v = math.Floor(v) / u.scale
	}
	return math.Copysign(v, float64(bin))
}

// bins holds the bins of a pane: words with a bin and its number of entries, the lowest bin first.
// Beyond mostBins the lowest bin merges with the next. The result is the same for every order of
// additions: the highest bins remain, and the lowest of them has all entries that fit no other bin.
type bins struct {
	words     []uint64
	collapsed bool
}

func binWord(bin int32, n uint64) uint64 { return uint64(bin+binOffset)<<binBits | n }
func binIn(word uint64) int32            { return int32(word>>binBits) - binOffset }
func countIn(word uint64) uint64         { return word & (1<<binBits - 1) }

// add adds an entry, and applies each change to sum.
func (b *bins) add(bin int32, sum *binSum) {
	at, there := slices.BinarySearchFunc(b.words, bin, func(word uint64, bin int32) int { return int(binIn(word) - bin) })
	switch below := at == 0 && len(b.words) == mostBins; {
	case there:
	case below:
		b.collapsed = true
	default:
		b.words = slices.Insert(b.words, at, binWord(bin, 0))
	}
	b.words[at]++
	sum.add(binIn(b.words[at]), 1)
	if len(b.words) > mostBins {
		lowest := b.words[0]
		b.words = slices.Delete(b.words, 0, 1)
		b.words[0] += countIn(lowest)
		b.collapsed = true
		sum.add(binIn(lowest), -int64(countIn(lowest)))
		sum.add(binIn(b.words[0]), int64(countIn(lowest)))
	}
}

// binSum counts the entries of each bin over several panes.
type binSum struct {
	n       int64
	octaves []octave // octaves with entries, the lowest first
}

// octave holds the bins of the numbers with one exponent and sign.
type octave struct {
	at int32 // bin >> octaveBits
	n  int64
	of [1 << octaveBits]int64
}

const octaveBits = 6

// add adds n entries to a bin, or removes them if n is negative.
func (s *binSum) add(bin int32, n int64) {
	if s == nil {
		return
	}
	at := sort.Search(len(s.octaves), func(k int) bool { return s.octaves[k].at >= bin>>octaveBits })
	if at == len(s.octaves) || s.octaves[at].at != bin>>octaveBits {
		s.octaves = slices.Insert(s.octaves, at, octave{at: bin >> octaveBits})
	}
	o := &s.octaves[at]
	s.n, o.n = s.n+n, o.n+n
	if o.of[bin&(1<<octaveBits-1)] += n; o.n == 0 {
		s.octaves = slices.Delete(s.octaves, at, at+1)
	}
}

// merge adds the entries of a pane, or removes them if sign is -1.
func (s *binSum) merge(b *bins, sign int64) {
	for _, word := range b.words {
		s.add(binIn(word), sign*int64(countIn(word)))
	}
}

// percentile returns the bin of the least value that at least p per cent of the values do not
// exceed. The sum must have entries.
func (s *binSum) percentile(p int64) int32 {
	rank := (s.n*p + 99) / 100
	for k := range s.octaves {
		o := &s.octaves[k]
		if rank > o.n {
			rank -= o.n
			continue
		}
		for bin, n := range o.of {
			if rank -= n; rank <= 0 {
				return o.at<<octaveBits + int32(bin)
			}
		}
	}
	return 0
}

const (
	mostHashes    = 512 // most hashes of a pane: as many bytes as registers
	registerBits  = 12
	registerCount = 1 << registerBits
	tailBits      = hash.Bits - registerBits // bits of a hash below its register number
	mostRank      = tailBits + 1
)

// members holds the different values of a pane: up to mostHashes hashes, the least first, or else
// registers. A register has the greatest rank of its hashes.
type members struct {
	hashes    []uint64
	registers []uint8 // nil until there are too many hashes
}

// register returns the register of a hash and its rank: the number of leading zeros of its tail,
// plus 1.
func register(hash uint64) (at int, rank uint8) {
	tail := hash << (64 - tailBits)
	return int(hash >> tailBits), uint8(min(bits.LeadingZeros64(tail), tailBits) + 1)
}

// add adds an entry, and applies each change to sum.
func (m *members) add(hash uint64, sum *memberSum) {
	if m.registers != nil {
		at, rank := register(hash)
		m.registers[at] = max(m.registers[at], rank)
		sum.raise(at, rank)
		return
	}
	at, there := slices.BinarySearch(m.hashes, hash)
	if there {
		return
	}
	if len(m.hashes) < mostHashes {
		m.hashes = slices.Insert(m.hashes, at, hash)
		sum.add(hash)
		return
	}
	if sum != nil {
		sum.leave(m)
	}
	m.registers = make([]uint8, registerCount)
	for _, hash := range append(m.hashes, hash) {
		at, rank := register(hash)
		m.registers[at] = max(m.registers[at], rank)
	}
	m.hashes = nil
	if sum != nil {
		sum.enter(m)
	}
}

// memberSum holds the different values of several panes. It is exact while no pane has registers:
// it counts the panes of each hash.
type memberSum struct {
	panes     map[uint64]int32 // for panes with hashes: the number of panes that have each hash
	estimated int              // panes with registers
	registers []uint8          // the greatest ranks of all panes, if known
	known     bool             // false after a pane left
	ranks     [mostRank + 1]int32
}

func (s *memberSum) add(hash uint64) {
	if s == nil {
		return
	}
	if s.panes == nil {
		s.panes = map[uint64]int32{}
	}
	s.panes[hash]++
	s.raise(register(hash))
}

// raise makes a register at least rank.
func (s *memberSum) raise(at int, rank uint8) {
	if s == nil || !s.known || s.registers[at] >= rank {
		return
	}
	s.ranks[s.registers[at]]--
	s.ranks[rank]++
	s.registers[at] = rank
}

// enter adds the values of a pane.
func (s *memberSum) enter(m *members) {
	for _, hash := range m.hashes {
		s.add(hash)
	}
	if m.registers != nil {
		s.estimated++
		for at, rank := range m.registers {
			s.raise(at, rank)
		}
	}
}

// leave removes a pane. The registers are then unknown: see learn.
func (s *memberSum) leave(m *members) {
	for _, hash := range m.hashes {
		if s.panes[hash]--; s.panes[hash] == 0 {
			delete(s.panes, hash)
		}
	}
	if m.registers != nil {
		s.estimated--
	}
	if s.known = false; s.estimated == 0 {
		s.registers = nil
	}
}

// learn computes the registers from panes, which must be all panes of the sum.
func (s *memberSum) learn(panes []pane) {
	if s.registers == nil {
		s.registers = make([]uint8, registerCount)
	}
	clear(s.registers)
	s.ranks = [mostRank + 1]int32{registerCount}
	s.known = true
	for k := range panes {
		for at, rank := range panes[k].members.registers {
			s.raise(at, rank)
		}
	}
	for hash := range s.panes {
		s.raise(register(hash))
	}
}

// estimate returns the approximate number of different values seen by registers of these ranks. It
// is algorithm 6 of Otmar Ertl: New cardinality estimation algorithms for HyperLogLog sketches
// (2017). Its standard error is 1.04/64, 1.63 %. It is finite: there are 2^53 hashes. No operation
// may be fused.
func estimate(ranks *[mostRank + 1]int32) float64 {
	const m = registerCount
	z := float64(m * tau(1-float64(ranks[mostRank])/m))
	for k := mostRank - 1; k >= 1; k-- {
		z = (z + float64(ranks[k])) / 2
	}
	z += float64(m * sigma(float64(ranks[0])/m))
	return min(math.Round(m/(2*math.Ln2)*m/z), 1<<hash.Bits)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := -1.0; z != before; {
		x *= x
		before = z
		z += float64(x * y)
		y += y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := -1.0; z != before; {
		x = math.Sqrt(x)
		before = z
		y /= 2
		z -= float64(float64((1-x)*(1-x)) * y)
	}
	return z / 3
}

// append appends a sketch: bins with their numbers of entries, then hashes. Instead of hashes it
// may append a number above mostHashes and registers of 6 bits. Bins and hashes are encoded as
// differences to the previous one.
func (p *pane) append(b []byte, f *sketchForm) []byte {
	if f.bins {
		b = append(b, 0)
		if p.bins.collapsed {
			b[len(b)-1] = 1
		}
		b = binary.AppendUvarint(b, uint64(len(p.bins.words)))
		before := uint64(0)
		for _, word := range p.bins.words {
			b = binary.AppendUvarint(b, word>>binBits-before)
			b = binary.AppendUvarint(b, countIn(word))
			before = word >> binBits
		}
	}
	if !f.members {
		return b
	}
	if p.members.registers != nil {
		b = binary.AppendUvarint(b, mostHashes+1)
		for k := 0; k < registerCount; k += 4 {
			r := p.members.registers[k : k+4]
			four := uint32(r[0]) | uint32(r[1])<<6 | uint32(r[2])<<12 | uint32(r[3])<<18
			b = append(b, byte(four), byte(four>>8), byte(four>>16))
		}
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(p.members.hashes)))
	before := uint64(0)
	for _, hash := range p.members.hashes {
		b = binary.AppendUvarint(b, hash-before)
		before = hash
	}
	return b
}

// load loads the sketch of a pane with this number of entries.
func (p *pane) load(f *sketchForm, entries int64, r *reader) {
	if f.bins {
		p.loadBins(uint64(entries), r)
	}
	if !f.members {
		return
	}
	n := r.upTo(mostHashes + 1)
	if n == mostHashes+1 {
		p.loadRegisters(r)
		return
	}
	if n > uint64(entries) || n == 0 {
		r.fail("number of values out of range")
		return
	}
	before := uint64(0)
	for k := range n {
		d := r.upTo(1<<hash.Bits - 1 - before)
		if k > 0 && d == 0 {
			r.fail("values out of order")
			return
		}
		before += d
		p.members.hashes = append(p.members.hashes, before)
	}
}

func (p *pane) loadBins(entries uint64, r *reader) {
	p.bins.collapsed = r.upTo(1) == 1
	n := r.upTo(mostBins)
	if p.bins.collapsed && n < mostBins {
		r.fail("too few bins")
	}
	before := uint64(0)
	for k := range n {
		d := r.upTo(2*binOffset - 1 - before)
		before += d
		word := before<<binBits | r.upTo(min(entries, mostCounted))
		if k > 0 && d == 0 || countIn(word) == 0 || before == 0 {
			r.fail("bins out of order")
			return
		}
		entries -= countIn(word)
		p.bins.words = append(p.bins.words, word)
	}
	if entries != 0 {
		r.fail("bins of another number of entries")
	}
}

func (p *pane) loadRegisters(r *reader) {
	if len(r.rest) < registerCount/4*3 {
		r.fail("cut short")
		return
	}
	p.members.registers = make([]uint8, registerCount)
	for k := range p.members.registers {
		at := k / 4 * 3
		four := uint32(r.rest[at]) | uint32(r.rest[at+1])<<8 | uint32(r.rest[at+2])<<16
		rank := uint8(four >> (k % 4 * 6) & (1<<6 - 1))
		if rank > mostRank {
			r.fail("register out of range")
			return
		}
		p.members.registers[k] = rank
	}
	r.rest = r.rest[registerCount/4*3:]
}
