package reference

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
)

// Event is one event that a log is to place by its key.
type Event struct {
	Appended   int64  // microseconds since 1970, never falling
	Key, Value []byte // Key is nil where the event has no customer
}

// Generate returns n events of about n/5 customers, the most frequent of which
// has a tenth of them (Zipf, exponent 1). A third are out of order by up to 3 s,
// some are later than the lateness or than every window, a hundredth are
// wrong in some way. Time leaps by hours and by a month, so that windows and
// keys end. One seed always gives the same events.
func Generate(seed uint64, n int) []Event {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), now: 1_760_000_000_000}
	sum := 0.0
	for i := range max(n/5, 10) {
		sum += 1 / float64(i+1)
		g.cumulative = append(g.cumulative, sum)
	}
	events := make([]Event, n)
	for i := range events {
		switch {
		case i == n*6/10:
			g.now += 3 * 3600_000
		case i == n*9/10:
			g.now += 31 * 24 * 3600_000
		case i > n*9/10:
			g.now += g.Int64N(2000)
		default:
			g.now += g.Int64N(400)
		}
		e := &events[i]
		e.Appended = g.now*1000 + int64(i%1000)
		e.Key, e.Value = g.event(i, n)
	}
	return events
}

type generator struct {
	*rand.Rand
	now        int64 // milliseconds
	cumulative []float64
}

// one reports true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func (g *generator) event(i, n int) (key, value []byte) {
	u := g.Float64() * g.cumulative[len(g.cumulative)-1]
	customer := "c" + strconv.Itoa(sort.SearchFloat64s(g.cumulative, u))
	tx := "t" + strconv.Itoa(i)
	if g.one(20) {
		tx += [...]string{`<&>`, `\"`, `\\`, `\u0001\n`, `é`, `\ud83d\ude00`, `\ud800`, "\u2028", `\/`, "\x7f"}[g.IntN(10)]
	}
	members := []string{
		`"tx":"` + tx + `"`,
		`"customer":"` + customer + `"`,
		`"amount":` + g.amount(),
		`"country":"` + [...]string{"US", "US", "US", "GB", "DE", "BR", "NG", "FR", "", `\u0055S`, "us"}[g.IntN(11)] + `"`,
		`"ts":` + strconv.FormatInt(g.now-g.delay(i, n), 10),
	}
	key = []byte(customer)
	if g.one(5) {
		members = append(members, `"note":[{"tx":1,"a":[null,true,-1.5e-7]},"]}"]`)
		g.Shuffle(len(members), func(a, b int) { members[a], members[b] = members[b], members[a] })
	}
	text := "{" + strings.Join(members, ",") + "}"
	if g.one(10) {
		text = " " + strings.ReplaceAll(text, `":`, "\"\t:\n ") + "\r\n"
	}
	if !g.one(100) {
		return key, []byte(text)
	}
	return g.wrong(key, text)
}

// delay is how long before it arrives an event happened.
func (g *generator) delay(i, n int) int64 {
	switch {
	case i == n/2:
		return -20 * 60_000 // pulls its partition's watermark ahead of the others
	case g.one(500):
		return 20*60_000 + g.Int64N(60*60_000)
	case g.one(100):
		return 5_000 + g.Int64N(120_000)
	case g.one(3):
		return g.Int64N(1 + g.Int64N(3_000))
	}
	return 0
}

func (g *generator) amount() string {
	cents := 50 + g.Int64N(1+g.Int64N(40_000))
	switch g.IntN(50) {
	case 0:
		cents = -cents
	case 1:
		return "0"
	case 2:
		return fmt.Sprintf("%d.5e1", cents/100)
	case 3:
		if g.one(20) {
			return "1e300"
		}
	}
	return fmt.Sprintf("%g", float64(cents)/100)
}

// wrong makes an event one that cannot be decoded, or that is refused later.
func (g *generator) wrong(key []byte, text string) ([]byte, []byte) {
	text = strings.NewReplacer("\t", "", "\n", "", "\r", "", " ", "").Replace(text)
	swap := func(old, other string) []byte {
		if !strings.Contains(text, old) {
			panic("no " + old + " in " + text)
		}
		return []byte(strings.Replace(text, old, other, 1))
	}
	switch g.IntN(16) {
	case 0:
		return nil, swap(`"customer":`, `"Customer":`)
	case 1:
		return key, swap(`"ts":`, `"Ts":`)
	case 2:
		return key, swap(`"ts":1`, `"ts":9`) // the year 2274
	case 3:
		return key, swap(`"ts":`, fmt.Sprintf(`"ts":%d,"at":`, g.now+3600_000+g.Int64N(1000)))
	case 4:
		return key, swap(`"ts":1`, `"ts":100000000000`) // beyond int64
	case 5:
		return key, swap(`"ts":1`, `"ts":0.1`)
	case 6:
		return key, swap(`"amount":`, `"amount":"12.50","sum":`)
	case 7:
		return key, swap(`"amount":`, `"amount":null,"sum":`)
	case 8:
		return key, swap(`"amount":`, `"amount":0`) // a number that begins with 0
	case 9:
		return key, swap(`"tx":"`, `"tx":"`+"\xff")
	case 10:
		return key, swap(`"tx":"`, `"tx":"twice","tx":"`)
	case 11:
		return key, []byte(text[:g.IntN(len(text))])
	case 12:
		return key, []byte(text + "{}")
	case 13:
		return key, swap(`"country":"`, `"country":"`+"\n")
	case 14:
		return append(key, '0'), []byte(text) // written with another key
	default:
		return key, swap(`,"`, `,,"`)
	}
}
