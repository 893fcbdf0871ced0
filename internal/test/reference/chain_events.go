package reference

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"
)

// Places are the devices of logins; none stands for a login without one.
var Places = []string{"d0", "d1", "d2", "d3", "d4", "none"}

// GenerateChain returns n transactions and logins, a quarter of them logins, in
// the order of their appends, as Generate makes events: few customers and
// terminals with many, many with one, late ones, wrong ones, leaps of time. An
// eighth of the transactions come again, soon or much later, as they were or
// with the id alone.
func GenerateChain(seed uint64, n int) []Message {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), now: 1_760_000_000_000}
	sum := 0.0
	for i := range max(n/8, 10) {
		sum += 1 / float64(i+1)
		g.cumulative = append(g.cumulative, sum)
	}
	var sent []Message // transactions
	out := make([]Message, 0, n)
	for i := range n {
		switch i {
		case n * 6 / 10:
			g.now += 3 * 3600_000
		case n * 9 / 10:
			g.now += 31 * 24 * 3600_000
		default:
			g.now += 100 * g.Int64N(5) // so that times often are exactly at a bound
		}
		var m Message
		switch {
		case g.one(4):
			m.Topic = "logins"
			m.Key, m.Value = g.login(i, n)
		case len(sent) > 0 && g.one(20):
			m = sent[len(sent)-1-g.IntN(len(sent))]
		case len(sent) > 0 && g.one(12):
			m = sent[len(sent)-1-g.IntN(min(len(sent), 400))]
		default:
			m.Topic = "transactions"
			m.Key, m.Value = g.transaction(i, n)
			sent = append(sent, m)
		}
		m.Time = g.now*1000 + int64(i%1000)
		m.Headers = g.headers(i)
		out = append(out, m)
	}
	return out
}

// headers are those of the maker of an event, if any: a trace, or what one has
// that was a dead letter and comes again.
func (g *generator) headers(i int) []Header {
	switch {
	case g.one(50):
		return []Header{{"trace", strconv.Itoa(i)}}
	case g.one(50):
		return []Header{{"a", "1"}, {"afterbay-id", fmt.Sprintf("again:%d", i)}, {"afterbay-stage", "score"}, {"b", ""}}
	}
	return nil
}

func (g *generator) zipf(most int) int {
	return sort.SearchFloat64s(g.cumulative, g.Float64()*g.cumulative[most-1])
}

func (g *generator) transaction(i, n int) (key, value []byte) {
	terminal := "s" + strconv.Itoa(g.zipf(max(len(g.cumulative)/4, 5)))
	tx := "t" + strconv.Itoa(i)
	if i > 50 && g.one(50) {
		tx = "t" + strconv.Itoa(i-1-g.IntN(50))
	}
	amount := g.amount()
	if g.one(200) {
		amount = "1e300"
	}
	text := fmt.Sprintf(`{"tx":"%s","terminal":"%s","customer":"c%d","amount":%s,"country":"%s","ts":%d}`,
		tx, terminal, g.zipf(len(g.cumulative)), amount, [...]string{"US", "US", "GB", "DE", "NG", "FR", "", "us"}[g.IntN(8)], g.now-g.delay(i, n))
	if g.one(60) {
		return g.wrong([]byte(terminal), text)
	}
	return []byte(terminal), []byte(text)
}

func (g *generator) login(i, n int) (key, value []byte) {
	device, at := "null", time.UnixMilli(g.now-g.delay(i, n)).UTC().Format(time.RFC3339Nano)
	if place := Places[g.IntN(len(Places))]; place != "none" {
		device = `"` + place + `"`
	}
	key = []byte("login" + strconv.Itoa(i%17))
	text := fmt.Sprintf(`{"user":"c%d","at":"%s","device":%s,"ok":%t}`, g.zipf(len(g.cumulative)), at, device, !g.one(3))
	switch g.IntN(150) {
	case 0:
		return key, []byte(text[1:])
	case 1:
		return key, []byte(fmt.Sprintf(`{"user":"c1","at":"2999-01-01T00:00:00Z","ok":true,"i":%d}`, i))
	case 2:
		return nil, []byte(`{"user":"c1","at":"yesterday","ok":true}`)
	}
	return key, []byte(text)
}
