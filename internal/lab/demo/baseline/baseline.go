// Package baseline is the workload for comparing stream processors: its pipeline, its model, and a
// generator of its events. For each user, 200 trees of depth 6 score three windows of four
// aggregates in panes, the seconds since the newest event, and the mean of the last ten scores.
package baseline

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Files holds pipeline.yaml and its model.
//
//go:embed pipeline.yaml model.ubj
var Files embed.FS

// Options configure the generator.
type Options struct {
	Seed  uint64
	Users int     // 1 to 100,000,000; 0 is 100,000
	Zipf  float64 // exponent, 0 to 10: the user of rank k has a share proportional to k^-Zipf; 0 gives equal shares
}

// Validate returns all errors in the options.
func (o Options) Validate() error {
	var errs []error
	if o.Users < 0 || o.Users > 100_000_000 {
		errs = append(errs, fmt.Errorf("%d users: use 1 to 100,000,000", o.Users))
	}
	if !(o.Zipf >= 0 && o.Zipf <= 10) {
		errs = append(errs, fmt.Errorf("exponent %v of Zipf's law: use 0 to 10", o.Zipf))
	}
	return errors.Join(errs...)
}

const (
	usersDefault = 100_000
	start        = 1_760_000_000_000 // ms
	gap          = 20                // ms of event time between events
	textCount    = 1 << 10
	textBytes    = 100
)

// LineBytesMax is larger than the size of any event, in bytes.
const LineBytesMax = 320

// Countries, channels and devices, with their shares of 20 or 100.
var (
	countries = deck([]string{"US", "GB", "DE", "FR", "BR", "IN", "NG", "PL", "JP", "ZA"}, []int{35, 10, 10, 8, 10, 10, 3, 6, 5, 3})
	channels  = deck([]string{"web", "app", "api", "partner"}, []int{8, 8, 3, 1})
	devices   = deck([]string{"ios", "android", "desktop", "other"}, []int{7, 7, 5, 1})
)

const words = "free offer click hello thanks buy now the and great product love this is not spam account verify please today weather game team game won price"

// deck returns a list that contains each name as many times as its share.
func deck(names []string, shares []int) []string {
	var cards []string
	for i, name := range names {
		for range shares[i] {
			cards = append(cards, name)
		}
	}
	return cards
}

// Generator generates events with the distributions of scripts/baseline.py: 50 per second of event
// time, up to about 3 s out of order, and about 250 bytes each. The same seed gives the same
// events.
type Generator struct {
	random *rand.Rand
	ranks  zipf
	users  uint64
	stride uint64 // distributes the ranks over the users, so that the busiest users are not adjacent
	made   int64
	texts  []string
}

// NewGenerator returns a generator. It panics if the options are not valid.
func NewGenerator(o Options) *Generator {
	if err := o.Validate(); err != nil {
		panic("baseline: " + err.Error())
	}
	if o.Users == 0 {
		o.Users = usersDefault
	}
	g := &Generator{random: rand.New(rand.NewPCG(o.Seed, 0x626173656c696e65)), ranks: newZipf(o.Users, o.Zipf), users: uint64(o.Users)}
	g.stride = 2_654_435_761 // a prime larger than any number of users, so that different ranks are different users
	for each := strings.Fields(words); len(g.texts) < textCount; {
		text := ""
		for range 40 {
			text += each[g.random.IntN(len(each))] + " "
		}
		g.texts = append(g.texts, text[:textBytes])
	}
	return g
}

// Append appends the next event to dst, as JSON without a newline. It returns dst and the event's
// key, which is a part of dst. It allocates only if dst has less than LineBytesMax bytes of free
// capacity.
func (g *Generator) Append(dst []byte) (line, key []byte) {
	r := g.random
	user := (uint64(g.ranks.pick(r))*g.stride + g.stride/2) % g.users
	ms := start + g.made*gap
	if r.IntN(10) < 3 {
		ms -= int64(r.ExpFloat64() * 250)
	}
	if r.IntN(100) == 0 {
		ms -= r.Int64N(3000)
	}
	cents := int64(math.Round(math.Exp(3.2+1.1*r.NormFloat64()) * 100))
	dst = appendPadded(append(dst, `{"event_id": "e`...), g.made, 9)
	dst = append(dst, `", "user_id": "`...)
	from := len(dst)
	dst = appendPadded(append(dst, 'u'), int64(user), 6)
	to := len(dst)
	dst = strconv.AppendInt(append(dst, `", "ts": `...), ms, 10)
	dst = strconv.AppendInt(append(dst, `, "amount": `...), cents/100, 10)
	dst = append(dst, '.', byte('0'+cents/10%10), byte('0'+cents%10))
	dst = append(append(dst, `, "country": "`...), countries[r.IntN(len(countries))]...)
	dst = append(append(dst, `", "channel": "`...), channels[r.IntN(len(channels))]...)
	dst = append(append(dst, `", "device": "`...), devices[r.IntN(len(devices))]...)
	dst = append(append(dst, `", "text": "`...), g.texts[r.IntN(len(g.texts))]...)
	g.made++
	dst = append(dst, `"}`...)
	return dst, dst[from:to:to]
}

// appendPadded appends n, padded with zeros to at least width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	for least := int64(10); width > 1; width-- {
		if n < least {
			dst = append(dst, "000000000"[:width-1]...)
			break
		}
		least *= 10
	}
	return strconv.AppendInt(dst, n, 10)
}
