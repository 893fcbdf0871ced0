// Command generate writes the events of the examples about order and time as NDJSON files, one
// for each topic. Lines are in the order of arrival: messages, impressions and clicks are out
// of order by their times. One seed always gives the same bytes.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	hours = 12

	messageDelay = 20 * time.Second // at most, from the time of an event to its arrival
	adDelay      = 2 * time.Second  // like messageDelay, for payments

	merchants = 30
)

var (
	start  = time.Date(2026, 1, 5, 6, 0, 0, 0, time.UTC)
	queues = []string{"cars", "passports", "permits", "taxes", "waste"}
	tiers  = []string{"free", "silver", "gold"}
)

// event is a line and its arrival time.
type event struct {
	arrives time.Time
	line    string
}

func main() {
	out := flag.String("out", "events", "folder to write the files to")
	visits := flag.Int("visits", 4000, "visits of customers, and payments; there are ten times as many impressions of ads, and a quarter as many people")
	seed := flag.Uint64("seed", 1, "one seed always gives the same lines")
	flag.Parse()
	if err := run(*out, *seed, *visits); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(out string, seed uint64, visits int) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	g := generator{rand.New(rand.NewPCG(seed, 0)), max(1, visits/4)}
	topics := map[string][]event{"messages": g.messages(visits), "orders": g.orders(visits / 2), "plans": g.plans()}
	topics["impressions"], topics["clicks"] = g.ads(visits * 10)
	topics["payments"], topics["merchants"] = g.payments(visits), g.merchants()
	for topic, events := range topics {
		if err := write(filepath.Join(out, topic+".ndjson"), events); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, events []event) (err error) {
	slices.SortStableFunc(events, func(a, b event) int { return a.arrives.Compare(b.arrives) })
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriter(file)
	for _, e := range events {
		fmt.Fprintln(w, e.line)
	}
	return w.Flush()
}

type generator struct {
	*rand.Rand
	people int // customers and users
}

// at returns a time of the day, in milliseconds.
func (g generator) at() time.Time { return start.Add(g.within(hours * time.Hour)) }

// within returns a duration below most, in milliseconds.
func (g generator) within(most time.Duration) time.Duration {
	return time.Duration(g.Int64N(most.Milliseconds())) * time.Millisecond
}

// late returns the arrival time of an event: one in five is late, by at most the given duration.
func (g generator) late(at time.Time, most time.Duration) time.Time {
	if g.IntN(5) > 0 {
		return at
	}
	return at.Add(g.within(most))
}

// messages returns visits: some messages of a customer to a queue, some minutes apart.
func (g generator) messages(visits int) (all []event) {
	for range visits {
		customer, queue, at := g.IntN(g.people), queues[g.IntN(len(queues))], g.at()
		for range 1 + g.IntN(10) {
			mood := float64(g.IntN(201)-100) / 100
			all = append(all, event{g.late(at, messageDelay), fmt.Sprintf(`{"customer":"c%03d","queue":%q,"mood":%v,"at":%q}`, customer, queue, mood, at.Format(time.RFC3339Nano))})
			at = at.Add(g.within(12 * time.Minute))
		}
	}
	return all
}

func (g generator) orders(n int) (all []event) {
	for range n {
		at := g.at()
		all = append(all, event{at, fmt.Sprintf(`{"customer":"c%03d","total":%d.%02d,"at":%q}`, g.IntN(g.people), g.IntN(200), g.IntN(100), at.Format(time.RFC3339Nano))})
	}
	return all
}

// plans returns rows: the plan that a customer has from a time on.
func (g generator) plans() (all []event) {
	for customer := range g.people {
		for range g.IntN(4) {
			at := g.at()
			all = append(all, event{at, fmt.Sprintf(`{"customer":"c%03d","tier":%q,"since":%q}`, customer, tiers[g.IntN(len(tiers))], at.Format(time.RFC3339Nano))})
		}
	}
	return all
}

// ads returns impressions, and for about one in eight a click within a quarter of an hour.
func (g generator) ads(n int) (impressions, clicks []event) {
	for i := range n {
		at, user := g.at(), g.IntN(g.people)
		impressions = append(impressions, event{g.late(at, adDelay), fmt.Sprintf(`{"id":"i%06d","user":"u%03d","ad":"a%02d","bid":%v,"ts":%d}`, i, user, g.IntN(40), float64(1+g.IntN(100))/100, at.UnixMilli())})
		if g.IntN(8) > 0 {
			continue
		}
		price := ""
		if g.IntN(3) == 0 {
			price = fmt.Sprintf(`,"price":%d.%02d`, g.IntN(90), g.IntN(100))
		}
		at = at.Add(time.Second + g.within(15*time.Minute))
		clicks = append(clicks, event{g.late(at, adDelay), fmt.Sprintf(`{"user":"u%03d","imp":"i%06d"%s,"ts":%d}`, user, i, price, at.UnixMilli())})
	}
	return impressions, clicks
}

// payments returns n payments. One in ten begins a fraud: a device pays at a merchant with some
// cards, within minutes.
func (g generator) payments(n int) (all []event) {
	for len(all) < n {
		at, merchant, device, times := g.at(), g.IntN(merchants), "", 1
		if g.IntN(3) > 0 {
			device = fmt.Sprintf(`,"device":"d%04d"`, g.IntN(2*g.people))
		}
		if g.IntN(10) == 0 {
			times = 3 + g.IntN(8)
		}
		for ; times > 0 && len(all) < n; times-- {
			line := fmt.Sprintf(`{"tx":"t%06d","card":"c%03d","merchant":"m%02d"%s,"amount":%d.%02d,"ts":%d}`, len(all), g.IntN(g.people), merchant, device, 1+g.IntN(300), g.IntN(100), at.UnixMilli())
			all = append(all, event{g.late(at, adDelay), line})
			at = at.Add(g.within(time.Minute))
		}
	}
	return all
}

// merchants returns rows: the properties of a merchant from a time on.
func (g generator) merchants() (all []event) {
	for merchant := range merchants {
		for range g.IntN(5) {
			at := g.at()
			all = append(all, event{at, fmt.Sprintf(`{"merchant":"m%02d","risk":%d,"since":%d}`, merchant, g.IntN(45), at.UnixMilli())})
		}
	}
	return all
}
