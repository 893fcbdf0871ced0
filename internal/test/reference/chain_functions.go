package reference

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// call is one call of a function: of an event, or of a timer. What it changes
// counts only where it returns no error.
type call struct {
	id, key   string
	at        int64 // of the event or timer
	watermark int64
	offset    int64
	timerName string // of a timer
	after     int64  // of a timer
	values    map[string]string
	timers    map[string]Timer
	outputs   []written
}

type written struct {
	topic, key, id string
	value          []byte
}

func (c *call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.values[name], 10, 64) // 0 where there is none
	return n
}

func (c *call) set(name string, n int64) { c.values[name] = strconv.FormatInt(n, 10) }
func (c *call) write(o written)          { c.outputs = append(c.outputs, o) }

func (c *call) timer(name string, at int64) {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(c.id)))
	after := c.offset
	if c.timerName != "" && (at > c.at || at == c.at && name > c.timerName) {
		after = c.after // it is behind the one that sets it, and may be due at the same position
	}
	c.timers[name] = Timer{at, after, sum[:16]}
}

func copied[V any](m map[string]V) map[string]V {
	out := map[string]V{}
	for name, v := range m {
		out[name] = v
	}
	return out
}

// memory returns the state of a function for a key.
func (s *stage) memory(function, key string) *Memory {
	of := [2]string{function, key}
	if s.memories[of] == nil {
		s.memories[of] = &Memory{Function: function, Key: key}
	}
	return s.memories[of]
}

// run calls a function with state per key for the record m. Its outputs have the position of m.
func (s *stage) run(f func(*call) error, m *Message, kept *Memory, id string, at int64) error {
	c := &call{
		id: id, key: kept.Key, at: at, watermark: s.watermark, offset: m.Offset,
		values: copied(kept.Values), timers: copied(kept.Timers),
	}
	if err := f(c); err != nil {
		return err
	}
	kept.Values, kept.Timers = c.values, c.timers
	s.wait(kept)
	for _, o := range c.outputs {
		if o.id == "" {
			o.id = s.output(id, o.topic, named[kept.Function])
		}
		record, key := *m, []byte(nil)
		record.Key = []byte(kept.Key)
		if o.key != "" {
			key = []byte(o.key)
		}
		s.write(&record, o.topic, key, at, o.id, o.value)
	}
	return nil
}

// event calls a function for an event.
func (s *stage) event(function string, a *arrival, f func(*call) error) error {
	return s.run(f, &a.Message, s.memory(function, string(a.Key)), s.id(&a.Message), a.at)
}

// due is a timer that is due.
type due struct {
	memory *Memory
	name   string
	at     int64
}

func (d due) before(o due) bool {
	switch {
	case d.at != o.at:
		return d.at < o.at
	case d.memory.Key != o.memory.Key:
		return d.memory.Key < o.memory.Key
	case d.memory.Function != o.memory.Function:
		return d.memory.Function < o.memory.Function
	}
	return d.name < o.name
}

// fire calls every timer that is due at the position of m, in the order of time, key, function and
// name. Timers that a call sets are included.
func (s *stage) fire(m *Message) {
	if s.watermark == never || s.watermark < s.soonest {
		return
	}
	var queue []due
	look := func(kept *Memory) {
		for name, t := range kept.Timers {
			if t.After < m.Offset && t.At <= s.watermark {
				queue = append(queue, due{kept, name, t.At})
			}
		}
	}
	for _, kept := range s.memories {
		look(kept)
	}
	sort.Slice(queue, func(i, j int) bool { return queue[i].before(queue[j]) })
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		if t, ok := d.memory.Timers[d.name]; !ok || t.At != d.at {
			continue // it was taken back, or is in the queue for another time
		}
		s.fireOne(m, d)
		n := len(queue)
		if look(d.memory); len(queue) > n {
			sort.Slice(queue, func(i, j int) bool { return queue[i].before(queue[j]) })
		}
	}
	s.soonest = math.MaxInt64
	for _, kept := range s.memories {
		s.wait(kept)
	}
}

// wait notes when the first of the timers is due.
func (s *stage) wait(kept *Memory) {
	for _, t := range kept.Timers {
		s.soonest = min(s.soonest, t.At)
	}
}

// named are the names of the calls of functions, as they end ids.
var named = map[string]string{"strikes": "#strikes", "devices": "#devices"}

func (s *stage) fireOne(m *Message, d due) {
	s.made.Fired++
	kept, after := d.memory, d.memory.Timers[d.name].After
	id := strings.Join([]string{kept.Function, watermarkText(d.at), d.name, kept.Timers[d.name].SetBy, kept.Key}, "~")
	kept.Timers = copied(kept.Timers)
	delete(kept.Timers, d.name)
	seen := s.watermark
	s.watermark = d.at
	defer func() { s.watermark = seen }()
	call := func(c *call) error {
		c.timerName, c.after = d.name, after
		return s.onTimer[kept.Function+"."+d.name](c)
	}
	if err := s.run(call, m, kept, id, d.at); err != nil {
		letter := Message{
			Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Key: []byte(kept.Key), Value: []byte(d.name),
			Headers: []Header{{"afterbay-id", id}},
		}
		s.dead(&letter, "timer", d.at, true)
	}
}

var (
	errRefused = errors.New("refused")
	errPanic   = errors.New("panic")
)

// session counts the events of a key that come within 30 s of each other. What
// it found it says when none came any more, what it has every minute. It fails
// on some amounts, after it has changed everything.
func session(spent float64, kind, sessions, milestones string, out map[string]any) func(*call) error {
	return func(c *call) error {
		n := c.number("n") + 1
		before, _ := strconv.ParseFloat(c.values["spent"], 64)
		total := before + spent
		c.set("n", n)
		c.values["spent"] = strconv.FormatFloat(total, 'g', -1, 64)
		if n == 1 {
			c.values["kind"] = kind
			c.set("from", c.at)
			c.timer("tick", c.at+60*second)
		} else {
			out["first_kind"] = c.values["kind"]
		}
		c.timer("end", c.at+30*second)
		if n%5 == 0 {
			c.timer("soon", c.at-second) // due already
		}
		if kind == "refund" {
			delete(c.timers, "tick")
		}
		if n%10 == 0 {
			c.write(written{topic: milestones, key: kind, value: object("n", n, "spent", total, "watermark", c.watermark)})
			c.write(written{topic: sessions, id: fmt.Sprintf("milestone:%s:%d", c.key, n), value: object("n", n)})
		}
		switch cents := int64(math.Abs(spent)*100 + 0.5); {
		case cents%97 == 1:
			return errRefused
		case cents%89 == 1:
			return errPanic
		}
		out["session_n"], out["session_spent"] = n, total
		return nil
	}
}

// sessionTimers are the timers of session.
func (s *stage) sessionTimers(sessions string) {
	s.onTimer["session.end"] = func(c *call) error {
		c.write(written{topic: sessions, value: object(
			"n", c.number("n"), "kind", c.values["kind"], "from", c.number("from"), "ticks", c.number("ticks"),
			"soons", c.number("soons"), "at", c.at, "watermark", c.watermark)})
		c.values = map[string]string{}
		delete(c.timers, "tick")
		delete(c.timers, "soon")
		return nil
	}
	s.onTimer["session.tick"] = func(c *call) error {
		ticks := c.number("ticks") + 1
		c.set("ticks", ticks)
		c.timer("tick", c.at+60*second)
		c.write(written{topic: sessions, key: fmt.Sprintf("tick-%d", ticks%3), value: object("ticks", ticks, "n", c.number("n"))})
		if ticks%4 == 3 {
			return errRefused
		}
		return nil
	}
	s.onTimer["session.soon"] = func(c *call) error {
		c.set("soons", c.number("soons")+1)
		return nil
	}
}

// strikes counts a key's blocked events, and forgives one every two minutes.
func strikes(score float64, action string, out map[string]any) func(*call) error {
	return func(c *call) error {
		if action == "block" {
			c.set("n", c.number("n")+1)
			c.values["worst"] = strconv.FormatFloat(score, 'g', -1, 64)
			c.timer("forgive", c.at+120*second)
		}
		out["strikes"] = c.number("n")
		return nil
	}
}

func (s *stage) strikesTimers(sessions string) {
	s.onTimer["strikes.forgive"] = func(c *call) error {
		n := c.number("n") - 1
		c.write(written{topic: sessions, value: object("forgiven", c.values["worst"], "left", n)})
		if n == 0 {
			c.values = map[string]string{}
			return nil
		}
		c.set("n", n)
		c.timer("forgive", c.at+120*second)
		return nil
	}
}

// devices counts the places that a key logs in from, and forgets one after ten
// minutes.
func devices(place string, out map[string]any) func(*call) error {
	return func(c *call) error {
		c.set(place, c.at)
		c.timer(place, c.at+600*second)
		out["devices"] = int64(len(c.values))
		return nil
	}
}

// devicesTimers are those of every place.
func (s *stage) devicesTimers(places []string, sessions string) {
	for _, place := range places {
		s.onTimer["devices."+place] = func(c *call) error {
			delete(c.values, place)
			c.write(written{topic: sessions, value: object("forgotten", place, "left", int64(len(c.values)))})
			return nil
		}
	}
}
