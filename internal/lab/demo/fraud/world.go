package fraud

import "math/rand/v2"

// countries have their shares of customers and terminals in percent.
var countries = [...]struct {
	code  string
	share int
}{{"US", 35}, {"GB", 15}, {"DE", 12}, {"FR", 10}, {"BR", 10}, {"IN", 8}, {"PL", 6}, {"NG", 4}}

// Payment channels. A terminal falls back to swipe if a chip fails.
const (
	chip = iota
	contactless
	online
	swipe
)

var channels = [...]string{"chip", "contactless", "online", "swipe"}

// devices are the devices of online payments. Other payments have none.
var devices = [...]string{"", "ios", "android", "desktop"}

// customer is the habits of one customer.
type customer struct {
	quiet   int64 // silent until this time, in ms
	level   int32 // usual amount, in cents
	home    uint8 // country
	second  uint8 // country of travels; for most customers it is home
	channel uint8 // channel of seven payments in ten
	device  uint8
	shops   [4]int32 // usual terminals
}

// world is everything that does not change with time, except customer.quiet.
type world struct {
	customers []customer
	active    alias
	terminals int
	first     [len(countries) + 1]int // first terminal of each country
}

// newWorld generates the customers of a seed.
func newWorld(seed uint64, customers, terminals int) *world {
	r := rand.New(rand.NewPCG(seed, 0x637573746f6d6572))
	w := &world{customers: make([]customer, customers), terminals: terminals, active: newAlias(customers)}
	share := 0
	for i, c := range countries {
		w.first[i] = terminals * share / 100
		share += c.share
	}
	w.first[len(countries)] = terminals
	for i := range w.customers {
		c := &w.customers[i]
		c.home = pickCountry(r)
		c.second = c.home
		if r.IntN(20) == 0 {
			c.second = pickCountry(r)
		}
		c.level = 500 + r.Int32N(1000+r.Int32N(7000))
		c.channel = uint8([...]int{chip, chip, contactless, contactless, contactless, online, online, swipe}[r.IntN(8)])
		c.device = uint8(1 + r.IntN(3))
		for k := range c.shops {
			c.shops[k] = w.terminal(r, c.home)
		}
	}
	return w
}

func pickCountry(r *rand.Rand) uint8 {
	n := r.IntN(100)
	for i, c := range countries {
		if n -= c.share; n < 0 {
			return uint8(i)
		}
	}
	return 0
}

// terminal returns a random terminal of a country.
func (w *world) terminal(r *rand.Rand, country uint8) int32 {
	from, to := w.first[country], w.first[country+1]
	return int32(from + r.IntN(to-from))
}

// country returns the country of a terminal.
func (w *world) country(terminal int32) uint8 {
	for i := range countries {
		if int(terminal) < w.first[i+1] {
			return uint8(i)
		}
	}
	return 0
}

// alias selects customers in constant time, customer i with a probability proportional to
// 1/(i+100). Some pay a hundred times as often as most, and the busiest one pays a few times an
// hour. It is Vose's alias method with integers.
type alias struct {
	total uint64
	keep  []uint64 // below this value, of total, select the column itself
	other []int32
}

func newAlias(n int) alias {
	a := alias{keep: make([]uint64, n), other: make([]int32, n)}
	for i := range a.keep {
		a.keep[i] = 1 << 34 / uint64(i+100)
		a.total += a.keep[i]
	}
	var small, large []int32
	for i := range a.keep {
		a.keep[i] *= uint64(n)
		if a.keep[i] < a.total {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.other[s] = l
		a.keep[l] -= a.total - a.keep[s]
		if a.keep[l] < a.total {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range large {
		a.keep[i] = a.total
	}
	return a
}

func (a *alias) pick(r *rand.Rand) int32 {
	i := r.Uint64N(uint64(len(a.keep)))
	if r.Uint64N(a.total) < a.keep[i] {
		return int32(i)
	}
	return a.other[i]
}
