package eventtime

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// start is 2026-01-01T09:00:00Z.
const start = 1_767_258_000 * Second

// journal writes events into partitions, by key as a producer does.
type journal struct {
	partitions int
	events     []Event
	next       map[source]int64
}

func (j *journal) add(key string, e Event) {
	h := fnv.New32a()
	h.Write([]byte(key))
	e.Partition = int(h.Sum32() % uint32(j.partitions))
	if j.next == nil {
		j.next = map[source]int64{}
	}
	s := source{e.Topic, e.Partition}
	e.Offset = j.next[s]
	j.next[s]++
	j.events = append(j.events, e)
}

// Payments returns payments of 2,000 cards at 200 merchants in the order of their times,
// 0.2 s apart in the mean, over partitions by card. Features by merchant meet events of
// all partitions.
func Payments(seed uint64, n, partitions int) []Event {
	random, j, at := rand.New(rand.NewPCG(seed, 1)), journal{partitions: partitions}, int64(start)
	for i := range n {
		at += random.Int64N(397) * Millisecond
		card, merchant := fmt.Sprintf("c%d", random.IntN(2000)), fmt.Sprintf("m%d", random.IntN(200))
		j.add(card, Event{Topic: "payments", Time: at, ID: fmt.Sprintf("t%d", i),
			Text: map[string]string{"card": card, "merchant": merchant}, Number: map[string]float64{"amount": float64(1 + random.IntN(499))}})
	}
	return j.events
}

// Disordered moves the times of events back by less than most, at random. Offsets stay.
func Disordered(seed uint64, events []Event, most int64) []Event {
	random := rand.New(rand.NewPCG(seed, 2))
	events = slices.Clone(events)
	for i := range events {
		events[i].Time -= random.Int64N(most/Millisecond) * Millisecond
	}
	return events
}

// Tiers returns a row of a customer, an event, another row, and an event: each event must
// see the row of its time.
func Tiers() []Event {
	var events []Event
	for i, e := range []Event{
		{Topic: "tiers", ID: "silver", Text: map[string]string{"customer": "ann", "tier": "silver"}},
		{Topic: "orders", ID: "o1", Text: map[string]string{"customer": "ann"}},
		{Topic: "tiers", ID: "gold", Text: map[string]string{"customer": "ann", "tier": "gold"}},
		{Topic: "orders", ID: "o2", Text: map[string]string{"customer": "ann"}},
	} {
		e.Time, e.Offset = start+int64(i)*Second, int64(i/2)
		events = append(events, e)
	}
	return events
}

// Journey returns payments of one card in the countries, a second apart.
func Journey(countries ...string) []Event {
	var events []Event
	for i, country := range countries {
		events = append(events, Event{Topic: "payments", Offset: int64(i), Time: start + int64(i)*Second, ID: fmt.Sprintf("t%d", i), Text: map[string]string{"card": "c0", "country": country}})
	}
	return events
}

// Readings returns what one sensor read, a second apart. The standard deviation of equal
// readings is 0: the mean of squares less the square of the mean may be below.
func Readings(values ...float64) []Event {
	var events []Event
	for i, v := range values {
		events = append(events, Event{Topic: "readings", Offset: int64(i), Time: start + int64(i)*Second, ID: fmt.Sprintf("r%d", i),
			Text: map[string]string{"sensor": "s"}, Number: map[string]float64{"value": v}})
	}
	return events
}

// Ads returns impressions of 500 users in the order of their times, on average a second apart.
// Every tenth has a click up to 20 minutes later, about half of them within 10 minutes. Both have
// the text imp, the impression's id.
func Ads(seed uint64, n, partitions int) []Event {
	random, at := rand.New(rand.NewPCG(seed, 3)), int64(start)
	var all []Event
	for i := range n {
		at += random.Int64N(2000) * Millisecond
		id := fmt.Sprintf("i%d", i)
		text := map[string]string{"user": fmt.Sprintf("u%d", random.IntN(500)), "imp": id}
		all = append(all, Event{Topic: "impressions", Time: at, ID: id, Text: text, Number: map[string]float64{"bid": float64(1+random.IntN(99)) / 100}})
		if random.IntN(10) == 0 {
			after := random.Int64N(20*60*1000) * Millisecond
			all = append(all, Event{Topic: "clicks", Time: at + after, ID: fmt.Sprintf("k%d", i), Text: text, Number: map[string]float64{"price": float64(random.IntN(1000)) / 100}})
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return int(a.Time - b.Time) })
	j := journal{partitions: partitions}
	for _, e := range all {
		j.add(e.Text["user"], e)
	}
	return j.events
}

// Visits returns clicks in one partition, in the order given.
func Visits(clicks ...Visit) []Event {
	var events []Event
	for i, c := range clicks {
		events = append(events, Event{Topic: "clicks", Offset: int64(i), Time: start + c.Minute*Minute, ID: fmt.Sprintf("v%d", i), Text: map[string]string{"user": c.User}})
	}
	return events
}

// Visit is a click of a user, so many minutes after the start.
type Visit struct {
	User   string
	Minute int64
}

// Rates returns rows of a table of currencies, and trades that find the rate of their time,
// all in the order of their appends. A row is valid from up to a lag before its append on,
// or up to that after it. Some end the row of a currency. Times are often the same.
func Rates(seed uint64, rows, trades int, lag int64) []Event {
	random, at := rand.New(rand.NewPCG(seed, 4)), int64(start)
	j := journal{partitions: 3}
	for i := range rows + trades {
		at += random.Int64N(3) * Second
		currency := fmt.Sprintf("c%d", random.IntN(8))
		e := Event{Topic: "trades", Time: at, Appended: at, ID: fmt.Sprintf("t%d", i), Text: map[string]string{"currency": currency}}
		if random.IntN(rows+trades) < rows {
			e.Topic, e.ID, e.Number = "rates", fmt.Sprintf("r%d", i), map[string]float64{"rate": float64(i)}
			e.Time += random.Int64N(2*lag/Second)*Second - lag
			if random.IntN(10) == 0 {
				e.Deleted, e.Time, e.Number = true, at, nil
			}
		}
		j.add(currency, e)
	}
	return j.events
}
