// Package support generates messages that customers of a shop send to its support: chats,
// screenshots, and telephone calls in chunks. Like a real stream, it also has events out of order,
// late, duplicated, cut and missing. The contents of the messages are available separately, as the
// ground truth for answers. The same seed gives the same result on all machines that draw and speak
// in the same way.
package support

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options configure the generator.
type Options struct {
	Seed       uint64
	Complaints int // each has a chat, a screenshot and a call of one customer; 1 to 100,000; 0 is 50
	Chats      int // additional chats about nothing in particular; up to 1,000,000
	Faults     int // contacts with each kind of Faults; up to 10,000

	// Objects is a folder for screenshots and chunks of calls. Events then contain URLs of the
	// files. With "", events contain the content itself, in base64.
	Objects string

	// Speak returns a WAV file with 16 bits and a header of 44 bytes. nil uses the function Speak
	// of this package.
	Speak func(ctx context.Context, text string, pitch int) ([]byte, error)
}

// Validate returns all errors in the options.
func (o Options) Validate() error {
	var errs []error
	for _, n := range []struct {
		what     string
		is, most int
	}{{"complaints", o.Complaints, 100_000}, {"chats", o.Chats, 1_000_000}, {"faults", o.Faults, 10_000}} {
		if n.is < 0 || n.is > n.most {
			errs = append(errs, fmt.Errorf("%d %s: use 0 to %d", n.is, n.what, n.most))
		}
	}
	return errors.Join(errs...)
}

// Faults are the possible faults of a contact.
var Faults = []string{
	"malformed",     // a chat with a cut line
	"late",          // a chat more than 35 s late
	"broken image",  // only its beginning is an image
	"cut image",     // its second half is missing
	"silent call",   // a call without speech
	"cut call",      // its WAV file ends too early
	"missing chunk", // one chunk of a call never arrives
	"missing end",   // the last chunk of a call never arrives
	"late chunk",    // one chunk of a call arrives more than 35 s late
}

// Contact is the ground truth about a message of a customer.
type Contact struct {
	ID        string `json:"id"`   // id of its event, or the call of its chunks
	Kind      string `json:"kind"` // chat, image or call
	Customer  string `json:"customer"`
	Complaint int    `json:"complaint,omitempty"` // number of its complaint, from 1; 0 if it has none
	Query     string `json:"query,omitempty"`     // query that must find it among the messages of its customer
	Text      string `json:"text"`                // the text that was written, shown or said
	Chunks    int    `json:"chunks,omitempty"`    // chunks of a call, including missing ones
	Fault     string `json:"fault,omitempty"`     // one of Faults; "" if it has none
}

// Lateness is how far an event may be out of order, in milliseconds, unless it is late.
const Lateness = 5_000

const (
	start      = 1_760_000_000_000 // ms
	apart      = 1_000             // ms between contacts
	chunkBytes = 32 << 10
	repeats    = 20 // one event in 20 arrives twice
)

// event is an event of the stream.
type event struct {
	Kind     string `json:"kind"`
	ID       string `json:"contact"`
	Customer string `json:"customer"`
	Time     int64  `json:"ts"`
	Text     string `json:"text,omitempty"`
	Image    []byte `json:"image,omitempty"`
	Call     string `json:"call,omitempty"`
	Part     *int   `json:"part,omitempty"`
	End      bool   `json:"end,omitempty"`
	Sound    []byte `json:"sound,omitempty"`
	URL      string `json:"url,omitempty"` // of an image or sound
}

// Generator generates events in the order of their arrival.
type Generator struct {
	o       Options
	rng     *rand.Rand
	painter *painter
	plans   []plan // future contacts, by time
	made    int
	coming  arrivals
}

// plan is a contact that is not generated yet.
type plan struct {
	Contact
	about *complaint // nil for small talk
	at    int64
}

// arrival is a line with its arrival time.
type arrival struct {
	at   int64
	line []byte
}

// NewGenerator returns a generator. The options must be valid. It returns an error if it cannot
// prepare the fonts of the screenshots.
func NewGenerator(o Options) (*Generator, error) {
	o.Complaints = cmp.Or(o.Complaints, 50)
	if o.Speak == nil {
		o.Speak = Speak
	}
	painter, err := newPainter()
	g := &Generator{o: o, rng: rand.New(rand.NewPCG(o.Seed, 9)), painter: painter}
	var order []int
	for n := range o.Complaints {
		if n%perCustomer == 0 {
			order = g.rng.Perm(len(complaints))
		}
		about := &complaints[order[n%perCustomer]]
		for _, kind := range []string{"chat", "image", "call"} {
			g.plan(kind, n/perCustomer, n+1, about, "")
		}
	}
	customers := (o.Complaints + perCustomer - 1) / perCustomer
	for range o.Chats {
		g.plan("chat", g.rng.IntN(customers), 0, nil, "")
	}
	for range o.Faults {
		for _, fault := range Faults {
			_, kind, _ := strings.Cut(fault, " ")
			kind = map[string]string{"": "chat", "image": "image"}[kind]
			g.plan(cmp.Or(kind, "call"), g.rng.IntN(customers), 0, &complaints[g.rng.IntN(len(complaints))], fault)
		}
	}
	g.rng.Shuffle(len(g.plans), func(i, j int) { g.plans[i], g.plans[j] = g.plans[j], g.plans[i] })
	for i := range g.plans {
		g.plans[i].at = start + int64(i)*apart
	}
	return g, err
}

func (g *Generator) plan(kind string, customer, about int, what *complaint, fault string) {
	c := Contact{ID: fmt.Sprintf("%s-%06d", kind, len(g.plans)), Kind: kind, Customer: fmt.Sprintf("c%05d", customer), Complaint: about, Fault: fault}
	if about > 0 {
		c.Query = what.query
	}
	g.plans = append(g.plans, plan{Contact: c, about: what})
}

// Next returns the next event as a line of JSON, without a newline. After the last event it returns
// io.EOF.
func (g *Generator) Next(ctx context.Context) ([]byte, error) {
	for g.made < len(g.plans) && (len(g.coming) == 0 || g.coming[0].at > g.plans[g.made].at) {
		if err := g.make(ctx, &g.plans[g.made]); err != nil {
			return nil, err
		}
		g.made++
	}
	if len(g.coming) == 0 {
		return nil, io.EOF
	}
	return heap.Pop(&g.coming).(arrival).line, nil
}

// Truth returns the contacts with all their events generated, by time. After io.EOF these are all
// contacts.
func (g *Generator) Truth() []Contact {
	list := make([]Contact, 0, g.made)
	for i := range g.plans[:g.made] {
		list = append(list, g.plans[i].Contact)
	}
	return list
}

func (g *Generator) make(ctx context.Context, p *plan) error {
	switch p.Kind {
	case "chat":
		if p.Text = one(g.rng, talk); p.about != nil {
			p.Text = one(g.rng, p.about.chats)
		}
		return g.send(p, &event{Kind: "chat", ID: p.ID, Time: p.at, Text: p.Text}, p.Fault)
	case "image":
		p.Text = strings.Join(p.about.screen, "\n")
		content, err := g.painter.screenshot(p.about.screen, g.rng.IntN(len(themes)))
		switch p.Fault {
		case "broken image":
			for i := 60; i < len(content); i++ {
				content[i] = byte(g.rng.Uint32())
			}
		case "cut image":
			content = content[:len(content)/2]
		}
		e := &event{Kind: "image", ID: p.ID, Time: p.at, Image: content}
		return errors.Join(err, g.keep(e, &e.Image, p.ID+".png"), g.send(p, e, ""))
	}
	return g.call(ctx, p)
}

// call generates the chunks of a call. The time of each chunk is when it was heard.
func (g *Generator) call(ctx context.Context, p *plan) error {
	number := make([]string, 4)
	for i := range number {
		number[i] = one(g.rng, digits)
	}
	sentences := []string{one(g.rng, greetings), p.about.said, "my order number is " + strings.Join(number, " "), one(g.rng, wishes), one(g.rng, thanks)}
	p.Text = strings.Join(sentences, " ")
	spoken := "" // text with pauses
	for _, s := range sentences {
		spoken += strings.ToUpper(s[:1]) + s[1:] + ". "
	}
	wav, err := g.o.Speak(ctx, spoken, 45+g.rng.IntN(11))
	if err != nil {
		return err
	}
	head := slices.Clone(wav[:wavHead])
	switch p.Fault {
	case "silent call":
		wav, p.Text = mute(wav), ""
	case "cut call":
		wav = wav[:len(wav)*2/3]
	}
	parts := slices.Collect(slices.Chunk(wav, chunkBytes))
	p.Chunks = len(parts)
	hurt := len(parts) / 2
	if p.Fault == "missing end" {
		hurt = len(parts) - 1
	}
	for i, part := range parts {
		fault := ""
		if i == hurt && strings.HasPrefix(p.Fault, "missing") {
			continue
		} else if i == hurt && p.Fault == "late chunk" {
			fault = "late"
		}
		heard := p.at + int64(1000*seconds(head, i*chunkBytes))
		e := &event{Kind: "audio", ID: fmt.Sprintf("%s-%d", p.ID, i), Time: heard, Call: p.ID, Part: &i, End: i == len(parts)-1, Sound: part}
		if err := errors.Join(g.keep(e, &e.Sound, fmt.Sprintf("%s-%d.part", p.ID, i)), g.send(p, e, fault)); err != nil {
			return err
		}
	}
	return nil
}

// keep moves the content of an event to a file, if there is a folder for it.
func (g *Generator) keep(e *event, content *[]byte, name string) error {
	if g.o.Objects == "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(g.o.Objects, name))
	if err != nil {
		return err
	}
	e.URL = (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
	err = os.WriteFile(path, *content, 0o644)
	*content = nil
	return err
}

// send schedules the arrival of an event; some events arrive twice.
func (g *Generator) send(p *plan, e *event, fault string) error {
	e.Customer = p.Customer
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	times := 1
	if g.rng.IntN(repeats) == 0 && fault == "" {
		times = 2
	}
	for range times {
		a := arrival{e.Time + g.rng.Int64N(Lateness), line}
		switch fault {
		case "malformed":
			a.line = line[:len(line)-1-g.rng.IntN(len(line)/2)]
		case "late":
			a.at += 40_000
		}
		heap.Push(&g.coming, a)
	}
	return nil
}

func one(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

// arrivals is a heap of lines by arrival time.
type arrivals []arrival

// Len implements heap.Interface.
func (a arrivals) Len() int { return len(a) }

// Less implements heap.Interface.
func (a arrivals) Less(i, j int) bool { return a[i].at < a[j].at }

// Swap implements heap.Interface.
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *arrivals) Push(x any) { *a = append(*a, x.(arrival)) }

// Pop implements heap.Interface.
func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
