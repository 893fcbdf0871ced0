// Package moderation generates the posts of the moderation example: ordinary texts, insults, users
// that insult repeatedly, and floods of one text. Like a real stream, it also has posts out of
// order, late or malformed. The same seed gives the same bytes on every machine.
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

// Files holds pipeline.yaml, the manifest of the model, and the files that the manifest names.
//
//go:embed pipeline.yaml profanity.yaml profanity.json golden.csv
var Files embed.FS

// Options configure the generator.
type Options struct {
	Seed  uint64
	Users int // 1 to 1,000,000; 0 is 100,000
	Rate  int // posts per second of event time, 1 to 100,000; 0 is 100
}

// Validate returns all errors in the options.
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

// Stats counts the generated posts.
type Stats struct {
	Posts     int // lines
	Insults   int // posts with an insult
	Flooding  int // posts that belong to floods
	Late      int // more than 5 seconds behind an earlier post
	Malformed int // lines that are not valid posts
}

const (
	start    = 1_760_000_000_000 // ms
	lateness = 5_000             // ms, as in pipeline.yaml
	hostile  = 100               // one user in 100 insults in every second post
	floods   = 4                 // most floods at the same time
)

// LineBytesMax is larger than the size of any line, in bytes.
const LineBytesMax = 1024

const talk = `the a and to of in is it that this for on with was my we you they are not have just one more from about what when
your our so but or if me all can will there time people good day work really today know think going make back still great much
after first last even new over down never always here same week morning night home team game book music movie photo food coffee
dinner weather train city friend family phone update release code test build server question answer price market school teacher
story page world report project idea plan meeting thanks please agree maybe someone nothing everything better love like want need
found read saw heard bought made wrote played watched finished started waiting looking learning trying`

// insults are mild insults. The model recognises their words.
var insults = [...]string{
	"you are an idiot", "shut up, moron", "what a pathetic loser", "you stupid liar", "this is stupid crap", "go to hell",
	"you ignorant fool", "nobody likes you, you jerk", "dumb scum like you", "these idiots again",
}

// asides are other parts of posts, escaped for a JSON string.
var asides = [...]string{
	"https://example.com/p?id=42&ref=a", "@everyone", "#monday", "très bien, merci", "schöne Grüße", "mañana",
	"спасибо большое", "ありがとう", "\U0001F44D", "\U0001F389\U0001F389", `\"quoted\"`, `\n`, `caf\u00e9`, "3.14", "10,000 km", "don't",
}

// flood is a text that one user posts again and again.
type flood struct {
	due  int64 // ms
	left int
	user int
	text []byte
}

// Generator generates posts in the order of their arrival.
type Generator struct {
	random *rand.Rand
	users  uint64
	rate   int64
	words  []string
	floods []flood
	newest int64 // ms
	stats  Stats
}

// NewGenerator returns a generator. It panics if the options are not valid.
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

// Stats returns the counts of the posts generated so far.
func (g *Generator) Stats() Stats { return g.stats }

// one returns true with probability 1/n.
func (g *Generator) one(n int) bool { return g.random.IntN(n) == 0 }

// Append appends the next post to dst, as JSON without a newline. It returns dst and the user's
// name, which is a part of dst.
func (g *Generator) Append(dst []byte) (line, user []byte) {
	from := len(dst)
	at := start + int64(g.stats.Posts)*1000/g.rate
	// The product of two draws: the busiest users post about ten times as often as others.
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
	if g.one(2000) { // half a line, with a complete user
		g.stats.Malformed++
		dst = dst[:from+(len(dst)-from)/2]
	}
	return dst, dst[name : name+7 : name+7]
}

// created returns the creation time of a post that arrives at a time, both in ms.
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

// appendText appends the text of a post.
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

// begin sometimes starts a flood of a text.
func (g *Generator) begin(at int64, text []byte) {
	if len(g.floods) < floods && g.one(5_000) {
		g.floods = append(g.floods, flood{at, 20 + g.random.IntN(60), int(g.random.Uint64N(g.users)), append([]byte{}, text...)})
	}
}

// flooding returns a flood with a post due at a time, or nil.
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

// appendPadded appends n, padded with zeros to at least width digits.
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
