package simulate

import "math"

const (
	twisterWords = 624
	twisterShift = 397
)

// random is the Mersenne Twister (MT19937) as CPython's random.Random seeds and
// reads it, so that a simulation can be compared with one in Python number by
// number.
type random struct {
	words [twisterWords]uint32
	at    int
}

// newRandom is random.Random(seed).
func newRandom(seed uint64) *random {
	key := []uint32{uint32(seed)}
	if high := uint32(seed >> 32); high != 0 {
		key = append(key, high)
	}
	return keyedRandom(key)
}

// keyedRandom is init_by_array of the twister's authors.
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

// float is a number of [0, 1) in steps of 2^-53: random.random().
func (r *random) float() float64 {
	a, b := r.uint32()>>5, r.uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// exponential is drawn with a mean of 1.
func (r *random) exponential() float64 { return -math.Log(1 - r.float()) }

// poisson is drawn with a mean of at most poissonMax, from one number, so that
// simulations that differ in what follows see the same arrivals.
func (r *random) poisson(mean float64) int {
	u := r.float()
	share := math.Exp(-mean)
	n := 0
	for sum := share; u >= sum; sum += share {
		n++
		share *= mean / float64(n)
		if float64(n) > mean && sum+share == sum {
			break // sum is as near to 1 as it gets
		}
	}
	return n
}

// poissonMax is a mean whose e^-mean is far from the smallest number.
const poissonMax = 500
