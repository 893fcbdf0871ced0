// Package moderation generates the posts of the moderation example: what people
// write, insults among it, users who insult again and again, floods of one text,
// and the disorder of a real stream: posts out of order, late or malformed. One
// seed gives the same bytes on every machine.
package moderation

import (
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Files holds pipeline.yaml, the model's manifest, and what that names.
//
//go:embed pipeline.yaml profanity.yaml profanity.json golden.csv
var Files embed.FS

// Options say what to generate.
type Options struct {
	Seed  uint64
	Users int // 1 to 1,000,000; 0 is 100,000
	Rate  int // posts per second of event time, 1 to 100,000; 0 is 100
}

// Validate returns all that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if o.Users < 0 || o.Users > 1_000_000 {
		errs = append(errs, fmt.Errorf("%d users: use 1 to 1,000,000", o.Users))
	}
	if o.Rate < 0 || o.Rate > 100_000 {
		errs = append(errs, fmt.Errorf("%d posts per second: use 1 to 100,000", o.Rate))
	}
	return errors.Join(errs...)
}

// Stats counts what was generated.
type Stats struct {
	Posts     int // lines
	Insults   int // posts that hold an insult
	Flooding  int // posts of floods
	Late      int // more than 5 seconds behind a post before it
	Malformed int // lines that are no post
}

const (
	start    = 1_760_000_000_000 // ms
	lateness = 5_000             // ms, of pipeline.yaml
	hostile  = 100               // one user in so many insults in every second post
	floods   = 4                 // under way at once, at most
)

// LineBytesMax is more than any line has bytes.
const LineBytesMax = 1024

const talk = `the a and to of in is it that this for on with was my we you they are not have just one more from about what when
your our so but or if me all can will there time people good day work really today know think going make back still great much
after first last even new over down never always here same week morning night home team game book music movie photo food coffee
dinner weather train city friend family phone update release code test build server question answer price market school teacher
story page world report project idea plan meeting thanks please agree maybe someone nothing everything better love like want need
found read saw heard bought made wrote played watched finished started waiting looking learning trying`

// Insults, mild ones. The model knows them by their words.
var insults = [...]string{
	"you are an idiot", "shut up, moron", "what a pathetic loser", "you stupid liar", "this is stupid crap", "go to hell",
	"you ignorant fool", "nobody likes you, you jerk", "dumb scum like you", "these idiots again",
}

// What else posts hold, as JSON has it within quotes.
var asides = [...]string{
	"https://example.com/p?id=42&ref=a", "@everyone", "#monday", "très bien, merci", "schöne Grüße", "mañana",
	"спасибо большое", "ありがとう", "\U0001F44D", "\U0001F389\U0001F389", `\"quoted\"`, `\n`, `caf\u00e9`, "3.14", "10,000 km", "don't",
}

// flood is one text that a user posts again and again.
type flood struct {
	due  int64 // ms
	left int
	user int
	text []byte
}

// Generator makes the posts one by one, in the order of their arrival.
type Generator struct {
	random *rand.Rand
	users  uint64
	rate   int64
	words  []string
	floods []flood
	newest int64 // ms
	stats  Stats
}

// NewGenerator returns a generator. Options that do not Validate are a panic.
func NewGenerator(o Options) *Generator {
	if err := o.Validate(); err != nil {
		panic("moderation: " + err.Error())
	}
	g := &Generator{random: rand.New(rand.NewPCG(o.Seed, 0x6d6f64657261)), users: uint64(o.Users), rate: int64(o.Rate), words: strings.Fields(talk)}
	if o.Users == 0 {
		g.users = 100_000
	}
	if o.Rate == 0 {
		g.rate = 100
	}
	return g
}

// Stats counts what was generated so far.
func (g *Generator) Stats() Stats { return g.stats }

// one reports true once in n times.
func (g *Generator) one(n int) bool { return g.random.IntN(n) == 0 }

// Append appends the next post to dst, as JSON without a line's end. It returns
// dst and the user's name, which lies in it.
func (g *Generator) Append(dst []byte) (line, user []byte) {
	from := len(dst)
	at := start + int64(g.stats.Posts)*1000/g.rate
	// Two draws multiplied: the busiest post some ten times as often as others.
	who, said := int(g.random.Uint64N(g.users)*g.random.Uint64N(1<<20)>>20), []byte(nil)
	if f := g.flooding(at); f != nil {
		who, said = f.user, f.text
	}
	dst = appendPadded(append(dst, `{"post":"p`...), g.stats.Posts, 9)
	dst = append(dst, `","user":"`...)
	name := len(dst)
	dst = appendPadded(append(dst, 'u'), who, 6)
	dst = append(dst, `","text":"`...)
	if text := len(dst); said != nil {
		dst = append(dst, said...)
	} else {
		dst = g.appendText(dst, who%hostile == 0)
		g.begin(at, dst[text:])
	}
	dst = append(dst, `","created":"`...)
	dst = append(time.UnixMilli(g.created(at)).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z"), `"}`...)
	g.stats.Posts++
	if g.one(2000) { // half a line: its user is whole
		g.stats.Malformed++
		dst = dst[:from+(len(dst)-from)/2]
	}
	return dst, dst[name : name+7 : name+7]
}

// created returns when a post that comes at a time was made, both in ms.
func (g *Generator) created(at int64) int64 {
	switch n := g.random.IntN(2000); {
	case n == 0:
		at -= 8_000 + g.random.Int64N(52_000)
	case n < 400:
		at -= g.random.Int64N(3_000)
	}
	if g.newest-at > lateness {
		g.stats.Late++
	}
	g.newest = max(g.newest, at)
	return at
}

// appendText appends what somebody writes.
func (g *Generator) appendText(dst []byte, hostile bool) []byte {
	words, insult := 3+g.random.IntN(1+g.random.IntN(60)), -1
	if hostile && g.one(2) || g.one(500) {
		insult = g.random.IntN(words)
		g.stats.Insults++
	}
	for i := range words {
		if i > 0 {
			dst = append(dst, ' ')
		}
		switch {
		case i == insult:
			dst = append(dst, insults[g.random.IntN(len(insults))]...)
		case g.one(25):
			dst = append(dst, asides[g.random.IntN(len(asides))]...)
		default:
			dst = append(dst, g.words[g.random.IntN(len(g.words))]...)
		}
		if g.one(8) {
			dst = append(dst, ".,!?"[g.random.IntN(4)])
		}
	}
	return dst
}

// begin makes a flood of a text now and then.
func (g *Generator) begin(at int64, text []byte) {
	if len(g.floods) < floods && g.one(5_000) {
		g.floods = append(g.floods, flood{at, 20 + g.random.IntN(60), int(g.random.Uint64N(g.users)), append([]byte{}, text...)})
	}
}

// flooding returns a flood that has a post at a time, or nil.
func (g *Generator) flooding(at int64) *flood {
	for i := range g.floods {
		f := &g.floods[i]
		if f.due > at {
			continue
		}
		if f.left == 0 {
			g.floods[i] = g.floods[len(g.floods)-1]
			g.floods = g.floods[:len(g.floods)-1]
			return nil
		}
		f.left--
		f.due = at + 200 + g.random.Int64N(2_000)
		g.stats.Flooding++
		return f
	}
	return nil
}

// appendPadded appends n with zeros before it, of width digits or more.
func appendPadded(dst []byte, n, width int) []byte {
	for least := 10; width > 1; width-- {
		if n < least {
			dst = append(dst, "000000000"[:width-1]...)
			break
		}
		least *= 10
	}
	return strconv.AppendInt(dst, int64(n), 10)
}
