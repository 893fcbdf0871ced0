package simulate

import "math"

const (
	twisterWords = 624
	twisterShift = 397
)

// random is the Mersenne Twister (MT19937), with the seeding and output of CPython's random.Random.
// A simulation can therefore be compared number by number with one in Python.
type random struct {
	words [twisterWords]uint32
	at    int
}

// newRandom is CPython's random.Random(seed).
func newRandom(seed uint64) *random {
	key := []uint32{uint32(seed)}
	if high := uint32(seed >> 32); high != 0 {
		key = append(key, high)
	}
	return keyedRandom(key)
}

// keyedRandom is init_by_array of the reference implementation.
func keyedRandom(key []uint32) *random {
	r := &random{at: twisterWords}
	w := &r.words
	w[0] = 19650218
	for i := 1; i < twisterWords; i++ {
		w[i] = 1812433253*(w[i-1]^w[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	next := func() {
		if i++; i == twisterWords {
			w[0], i = w[twisterWords-1], 1
		}
	}
	for range max(twisterWords, len(key)) {
		w[i] = (w[i] ^ (w[i-1]^w[i-1]>>30)*1664525) + key[j] + uint32(j)
		next()
		j = (j + 1) % len(key)
	}
	for range twisterWords - 1 {
		w[i] = (w[i] ^ (w[i-1]^w[i-1]>>30)*1566083941) - uint32(i)
		next()
	}
	w[0] = 1 << 31
	return r
}

// uint32 returns the next word.
func (r *random) uint32() uint32 {
	if r.at == twisterWords {
		r.turn()
	}
	y := r.words[r.at]
	r.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (r *random) turn() {
	w := &r.words
	for i := range w {
		y := w[i]&(1<<31) | w[(i+1)%twisterWords]&(1<<31-1)
		next := w[(i+twisterShift)%twisterWords] ^ y>>1
		if y&1 != 0 {
			next ^= 0x9908b0df
		}
		w[i] = next
	}
	r.at = 0
}

// float returns a number in [0, 1) in steps of 2^-53, as random.random() does.
func (r *random) float() float64 {
	a, b := r.uint32()>>5, r.uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// exponential returns an exponentially distributed number with mean 1.
func (r *random) exponential() float64 { return -math.Log(1 - r.float()) }

// poisson returns a Poisson-distributed number. The mean is at most poissonMax. It always uses one
// random number, so that simulations with different later stages have the same arrivals.
func (r *random) poisson(mean float64) int {
	u := r.float()
	share := math.Exp(-mean)
	n := 0
	for sum := share; u >= sum; sum += share {
		n++
		share *= mean / float64(n)
		if float64(n) > mean && sum+share == sum {
			break // the sum cannot get closer to 1
		}
	}
	return n
}

// poissonMax is a mean with e^-mean far above the smallest float64.
const poissonMax = 500
