package fraud

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// lineMax is larger than the size of any line, in bytes.
const lineMax = 256

// Patterns in labels.csv.
const (
	honest = iota
	burst
	terminal
	takeover
)

var patterns = [...]string{"", "burst", "terminal", "takeover"}

// generator generates events in the order of their arrival.
type generator struct {
	*rand.Rand
	options   Options
	world     *world
	start     int64 // ms
	made      int
	newest    int64 // event time, ms
	campaigns campaigns
	stats     Stats
	payment   payment
	malformed bool // whether the last event was malformed
}

// payment is one event.
type payment struct {
	number, time, cents int64
	customer, terminal  int32
	country             uint8
	channel, device     uint8
	pattern             uint8
}

func newGenerator(o Options) *generator {
	return &generator{
		Rand: rand.New(rand.NewPCG(o.Seed, 0x7061796d656e7473)), options: o,
		world: newWorld(o.Seed, o.Customers, o.Terminals), start: o.Start.UnixMilli(),
	}
}

// one returns true with probability 1/n.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// append appends the next event as JSON.
func (g *generator) append(dst []byte) []byte {
	now := g.start + int64(g.made)*1000/int64(g.options.Rate)
	g.payment = payment{number: int64(g.made), time: now}
	g.made++
	g.stats.Events++
	g.plan(now)
	if len(g.campaigns) > 0 && g.campaigns[0].due <= now {
		g.strike(now)
	} else {
		g.habit(now)
	}
	p := &g.payment
	p.country = g.world.country(p.terminal)
	p.time -= g.delay()
	g.malformed = p.pattern == honest && g.one(2000)
	if g.malformed {
		return g.appendMalformed(dst)
	}
	switch behind := g.newest - p.time; {
	case behind > Lateness.Milliseconds():
		g.stats.Late++
	case behind > 0:
		g.stats.OutOfOrder++
	}
	g.newest = max(g.newest, p.time)
	return p.append(dst)
}

// delay returns the time between an event and its arrival, in ms.
func (g *generator) delay() int64 {
	switch n := g.IntN(2000); {
	case n == 0:
		return 8_000 + g.Int64N(52_000)
	case n < 400:
		return g.Int64N(3_000)
	}
	return 0
}

// habit generates a payment that follows a customer's habits.
func (g *generator) habit(now int64) {
	p := &g.payment
	p.customer = g.world.active.pick(g.Rand)
	for try := 0; try < 100 && g.world.customers[p.customer].quiet > now; try++ { // with few customers, all of them may be silent
		p.customer = g.world.active.pick(g.Rand)
	}
	c := &g.world.customers[p.customer]
	p.channel = c.channel
	n := g.IntN(100)
	if n >= 70 {
		p.channel = uint8(g.IntN(3)) // an exception; a swipe only occurs by habit
	}
	switch {
	case p.channel == online && n%10 == 0:
		p.terminal = int32(g.IntN(g.world.terminals)) // a shop abroad
	case n%20 == 1:
		p.terminal = g.world.terminal(g.Rand, c.second)
	case n%5 == 2:
		p.terminal = g.world.terminal(g.Rand, c.home)
	default:
		p.terminal = c.shops[n&3]
	}
	if p.channel == online {
		p.device = c.device
		if g.one(30) {
			p.device = uint8(1 + g.IntN(3))
		}
	}
	p.cents = g.amount(c)
}

// amount returns a usual amount of a customer, in cents. The distribution is skewed around the
// customer's level, with occasional much larger amounts.
func (g *generator) amount(c *customer) int64 {
	u := g.Uint64()
	a, b := int64(u&1023), int64(u>>10&1023)
	cents := int64(c.level) * (200 + a) * (200 + b) / (700 * 700)
	if u>>20&63 == 0 {
		cents *= 2 + int64(u>>26&7)
	}
	return max(cents, 50)
}

// campaign is a fraud in progress: a sequence of payments of one pattern.
type campaign struct {
	due, end int64 // times of the next payment and of the end, in ms
	left     int   // remaining payments
	cents    int64 // amount of the next payment of a burst
	customer int32
	terminal int32
	channel  uint8
	device   uint8
	pattern  uint8
}

// plan sometimes starts a fraud.
func (g *generator) plan(now int64) {
	n := g.IntN(16_000)
	if n >= 13 {
		return
	}
	c := &campaign{due: now + g.Int64N(120_000), end: now + 24*3600_000, customer: g.world.active.pick(g.Rand)}
	switch {
	case n < 8:
		c.pattern, c.left, c.cents = burst, 6+g.IntN(13), 100+g.Int64N(500)
		c.channel, c.device = uint8(2+g.IntN(2)), uint8(1+g.IntN(3))
		c.terminal = int32(g.IntN(g.world.terminals))
	case n < 9:
		c.pattern, c.left, c.channel = terminal, 15+g.IntN(30), swipe
		c.terminal, c.end = int32(g.IntN(g.world.terminals)), now+2*3600_000
	default:
		c.pattern, c.left, c.channel = takeover, 4+g.IntN(7), online
		c.customer = int32(g.IntN(g.options.Customers))
		victim := &g.world.customers[c.customer]
		c.due = now + 3600_000 + g.Int64N(2*3600_000)
		victim.quiet = c.due
		c.device = 1 + (victim.device+uint8(g.IntN(2)))%3
		c.terminal = int32(g.IntN(g.world.terminals))
		for g.world.country(c.terminal) == victim.home {
			c.terminal = int32(g.IntN(g.world.terminals))
		}
	}
	heap.Push(&g.campaigns, c)
}

// strike generates the payment of the fraud that is due first.
func (g *generator) strike(now int64) {
	c, p := g.campaigns[0], &g.payment
	p.pattern, p.channel, p.terminal, p.customer = c.pattern, c.channel, c.terminal, c.customer
	if p.channel == online {
		p.device = c.device
	}
	wait := int64(0)
	switch c.pattern {
	case burst:
		g.stats.Burst++
		p.cents = c.cents
		c.cents = min(c.cents*(120+g.Int64N(60))/100, 300_000)
		wait = 2_000 + g.Int64N(20_000)
		if g.one(3) {
			c.terminal = int32(g.IntN(g.world.terminals))
		}
	case terminal:
		g.stats.Terminal++
		p.customer = g.world.active.pick(g.Rand)
		p.cents = g.amount(&g.world.customers[p.customer]) * (3 + g.Int64N(5))
		wait = 20_000 + g.Int64N(200_000)
	case takeover:
		g.stats.Takeover++
		p.cents = int64(g.world.customers[c.customer].level) * (4 + g.Int64N(12)) * (80 + g.Int64N(40)) / 100
		wait = 60_000 + g.Int64N(900_000)
	}
	c.left--
	if c.due = now + wait; c.left == 0 || c.due > c.end {
		heap.Pop(&g.campaigns)
		return
	}
	heap.Fix(&g.campaigns, 0)
}

// campaigns is a heap of frauds, with the one that is due first at the top.
type campaigns []*campaign

func (c campaigns) Len() int           { return len(c) }
func (c campaigns) Less(i, j int) bool { return c[i].due < c[j].due }
func (c campaigns) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *campaigns) Push(x any)        { *c = append(*c, x.(*campaign)) }
func (c *campaigns) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// appendMalformed appends a payment that no pipeline can read.
func (g *generator) appendMalformed(dst []byte) []byte {
	p, m := &g.payment, &g.stats.Malformed
	from := len(dst)
	switch g.IntN(6) {
	case 0:
		m.Truncated++
		dst = p.append(dst)
		return dst[:from+1+g.IntN(len(dst)-from-1)]
	case 1:
		m.WrongType++
		dst = append(p.appendCustomer(p.appendTx(dst)), `,"amount":"`...)
		dst = append(appendCents(dst, p.cents), '"')
		return p.appendTime(p.appendPlace(dst), "ts", p.time)
	case 2:
		m.NoCustomer++
		return p.appendTime(p.appendPlace(p.appendAmount(p.appendTx(dst))), "ts", p.time)
	}
	dst = p.appendPlace(p.appendAmount(p.appendCustomer(p.appendTx(dst))))
	switch g.IntN(3) {
	case 0:
		m.NoTime++
		return p.appendTime(dst, "sent", p.time)
	case 1:
		m.Future++
		return p.appendTime(dst, "ts", p.time+(100*365*24*time.Hour).Milliseconds())
	default:
		m.NotUTF8++
		dst = append(dst[:len(dst)-1], 0xff, '"') // invalid UTF-8 in the channel or device
		return p.appendTime(dst, "ts", p.time)
	}
}
