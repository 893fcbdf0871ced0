package task_test

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/udf"
)

// wish is what a function does of timers, by the hash of a text.
type wish struct {
	set, stop string
	in        int64 // seconds until the timer that is set
	fails     bool
}

// wishOf returns what is done at an event, or at a timer of a name and time in seconds. A
// timer may set another one for before its own time, and itself again.
func wishOf(parts ...any) (w wish) {
	h := fnv.New32a()
	fmt.Fprint(h, parts...)
	n := h.Sum32()
	names := []string{"x", "y", "z"}
	switch n % 8 {
	case 0, 1, 2, 3:
		w.set, w.in = names[n/8%3], int64(n/64%20)-3
	case 4:
		w.stop = names[n/8%3]
	case 5:
		w.fails = true
	}
	return w
}

var errWish = errors.New("refused")

// ticking puts a function that sets timers as wishOf says, and writes what is called.
func (l *loop) ticking() *operator.Call {
	do := func(c *udf.Context, w wish) error {
		if w.set != "" {
			c.SetTimer(w.set, c.Time.Add(time.Duration(w.in)*time.Second))
		}
		if w.stop != "" {
			c.StopTimer(w.stop)
		}
		if w.fails {
			return errWish
		}
		return nil
	}
	l.plan.Calls = []*operator.Call{{
		Name: "ticks", ID: l.plan.Meta.ID, Topics: []string{"out"},
		Function: &udf.Function{
			Version: 1, Keyed: true,
			Event: func(c *udf.Context) error {
				if err := do(c, wishOf(c.Key, c.Offset)); err != nil {
					return err
				}
				c.Emit(udf.Output{Topic: "out", Value: fmt.Appendf(nil, "event %d", c.Offset)})
				return nil
			},
			Timer: func(c *udf.Context) error {
				if !c.Watermark.Equal(c.Time) {
					return errors.New("a timer knows another time than its own")
				}
				c.Emit(udf.Output{Topic: "out", Value: fmt.Appendf(nil, "timer %s %s of %d before %d", c.Key, c.Timer, c.Time.UnixMicro(), c.Offset)})
				return do(c, wishOf(c.Key, c.Timer, c.Time.UnixMicro()))
			},
		},
	}}
	return l.plan.Calls[0]
}

// closing puts groups for events with an even v, and the function that ticks for the others,
// behind a model or not.
func (l *loop) closing(behind bool) {
	slot := l.slot("\x00case", value.Type{Kind: value.Int})
	route := &operator.Route{Slot: slot, Names: []string{"group", "tick"}, When: []*expression.Program{l.program("v % 2 == 0"), nil}, Then: []operator.Then{operator.GoOn, operator.GoOn}}
	grouped, ticked := &operator.Guard{Slot: slot, Name: "group"}, &operator.Guard{Slot: slot, Case: 1, Name: "tick"}
	l.counting()
	l.put(route)
	call := l.ticking()
	if !behind {
		l.put(call)
		l.plan.Stages[len(l.plan.Stages)-1].Guard = ticked
	}
	l.collect()
	l.plan.Stages[len(l.plan.Stages)-1].Guard = grouped
	if behind {
		l.put(l.score(&stub{}, "v"), call)
		l.plan.Stages[len(l.plan.Stages)-1].Guard = ticked
	}
	l.put(l.emit(0, "g.key", "g.count"))
	l.plan.Stages[len(l.plan.Stages)-1].Guard = grouped
}

// naiveDue is what closing leaves, computed one thing at a time from lists: of each the text,
// the time in microseconds and the position.
type naiveDue struct {
	groups map[string][]*naiveGroup         // by w, those that are open
	timers map[string]map[string]naiveTimer // by key and name
	made   []string
}

type naiveGroup struct {
	count int
	last  int64
}

type naiveTimer struct{ at, after int64 }

// come does what is due before an event by a watermark, first things first.
func (n *naiveDue) come(offset, watermark int64) {
	const never = int64(1) << 62
	for {
		at, kind, key, name := never, 0, "", ""
		earlier := func(t int64, k int, of, called string) bool {
			return cmp.Or(cmp.Compare(t, at), cmp.Compare(k, kind), cmp.Compare(of, key), cmp.Compare(called, name)) < 0
		}
		for of, list := range n.groups {
			if len(list) > 0 && list[0].last+10e6 <= watermark && earlier(list[0].last+10e6, 0, of, "") {
				at, kind, key, name = list[0].last+10e6, 0, of, ""
			}
		}
		for of, timers := range n.timers {
			for called, t := range timers {
				if t.at <= watermark && t.after < offset && earlier(t.at, 1, of, called) {
					at, kind, key, name = t.at, 1, of, called
				}
			}
		}
		switch {
		case at == never:
			return
		case kind == 0:
			n.say("%s at %d in/0@%d", fmt.Sprintf(`{"g.key":%q,"g.count":%d}`, key, n.groups[key][0].count), at, offset)
			n.groups[key] = n.groups[key][1:]
		default:
			after := n.timers[key][name].after
			delete(n.timers[key], name)
			w := wishOf(key, name, at)
			if w.fails {
				n.say("%s at %d in/0@%d", "dead "+name, at, offset)
				continue
			}
			n.say("%s at %d in/0@%d", fmt.Sprintf("timer %s %s of %d before %d", key, name, at, offset), at, offset)
			n.wish(key, w, at, after, offset, name)
		}
	}
}

func (n *naiveDue) say(format string, args ...any) {
	n.made = append(n.made, fmt.Sprintf(format, args...))
}

// wish does what an event, or the timer called by, wants at a time.
func (n *naiveDue) wish(key string, w wish, at, after, offset int64, by string) {
	if n.timers[key] == nil {
		n.timers[key] = map[string]naiveTimer{}
	}
	if w.set != "" {
		t := at + w.in*1e6
		if by != "" && (t < at || t == at && w.set <= by) {
			after = offset
		}
		n.timers[key][w.set] = naiveTimer{t, after}
	}
	if w.stop != "" {
		delete(n.timers[key], w.stop)
	}
}

// event takes an event of a key at a time in seconds.
func (n *naiveDue) event(e at, offset, watermark int64) {
	n.come(offset, watermark)
	t := int64(e.t) * 1e6
	if e.v%2 == 0 {
		list := n.groups[e.w]
		if len(list) == 0 || t >= list[len(list)-1].last+10e6 {
			list = append(list, &naiveGroup{})
		}
		g := list[len(list)-1]
		g.count, g.last = g.count+1, t
		n.groups[e.w] = list
		return
	}
	w := wishOf(e.key, offset)
	if w.fails {
		n.say("dead event %d", offset)
		return
	}
	n.say("%s at %d in/0@%d", fmt.Sprintf("event %d", offset), t, offset)
	n.wish(e.key, w, t, offset, offset, "")
}

// made is what a run left in the topics of outputs and dead letters.
func (l *loop) made() (list []string) {
	l.Helper()
	for _, r := range l.records("out") {
		list = append(list, fmt.Sprintf("%s at %d %s", r.Value, r.Time.UnixMicro(), header.Get(&r, header.Position)))
	}
	for _, r := range l.records("dead") {
		text := fmt.Sprintf("dead %s at %d %s", r.Value, r.Time.UnixMicro(), header.Get(&r, header.Position))
		if header.Get(&r, header.Stage) != "timer" {
			text = fmt.Sprintf("dead event %d", offsetOf(header.Get(&r, header.Position)))
		} else if at := r.Time.UTC().Format(time.RFC3339Nano); header.Get(&r, header.Watermark) != at {
			l.Errorf("the watermark of the dead letter of a timer is %s, and its time %s", header.Get(&r, header.Watermark), at)
		}
		list = append(list, text)
	}
	return list
}

func offsetOf(position string) (offset int) {
	_, _ = fmt.Sscanf(position[strings.IndexByte(position, '@')+1:], "%d", &offset)
	return offset
}

// TestWhatIsDueComesInOneOrder has random events of few keys, groups and a function whose
// timers set timers, in chunks of many sizes and transactions of others: what is left is, byte
// for byte, what a queue of lists leaves that takes one thing at a time.
func TestWhatIsDueComesInOneOrder(t *testing.T) {
	for round := range 6 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		behind := round%2 == 1
		var events []at
		for i, now := 0, 100; i < 150; i++ {
			if now += rng.IntN(4); rng.IntN(20) == 0 {
				now += rng.IntN(200)
			}
			key := fmt.Sprint("k", rng.IntN(3))
			e := at{key: key, t: now - rng.IntN(3)*rng.IntN(8), v: rng.IntN(100)}
			if e.w = fmt.Sprint("w", rng.IntN(4)); e.v%2 == 0 {
				e.key, e.t = "k", now // the groups of one key, whose times go on
			}
			events = append(events, e)
		}
		events = append(events, at{key: "last", t: 100_000, v: 0, w: "last"})
		var whole string
		for _, chunk := range []int{1000, 1, 7, 64} {
			name := fmt.Sprintf("%d: seed %d, chunks of %d", round, seed, chunk)
			inLoop(t, func(l *loop) {
				l.options.ChunkEvents, l.options.StepEvents, l.log.most = chunk, 1+rng.IntN(100), 1+rng.IntN(100)
				l.plan.Time.Late, l.plan.Time.Lateness = operator.LateInclude, 2*time.Second
				l.closing(behind)
				for _, g := range l.plan.Groups.Groups {
					g.End = nil
				}
				cut := rng.IntN(len(events))
				l.run(events[:cut]...)
				l.run(events[cut:]...)
				if text := l.everything(); whole == "" {
					whole = text
				} else if text != whole {
					t.Fatalf("%s: other bytes\n%s\nfor\n%s", name, text, whole)
				}
				var got, want [2][]string
				n := &naiveDue{groups: map[string][]*naiveGroup{}, timers: map[string]map[string]naiveTimer{}}
				newest := 0
				for i, e := range events {
					newest = max(newest, e.t)
					n.event(e, int64(i), int64(newest-2)*1e6)
				}
				for into, list := range map[*[2][]string][]string{&got: l.made(), &want: n.made} {
					for _, text := range list {
						dead := 0
						if strings.HasPrefix(text, "dead") {
							dead = 1
						}
						into[dead] = append(into[dead], text)
					}
				}
				for i := range got {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("%s: %s", name, firstDifference(got[i], want[i]))
					}
				}
			})
		}
	}
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("output %d is %s, want %s; before it %q", i, g, w, want[max(0, i-3):i])
		}
	}
	return ""
}

// TestTimeInManyStepsIsTimeInOne moves the time of an idle partition on in steps of different
// lengths: groups end and timers fire in the same order, at the same place.
func TestTimeInManyStepsIsTimeInOne(t *testing.T) {
	var whole string
	for _, idle := range []time.Duration{300 * time.Second, time.Second, 7 * time.Second} {
		inLoop(t, func(l *loop) {
			l.plan.Time.Idle = idle
			l.closing(false)
			var events []at
			for i := range 40 {
				events = append(events, at{key: fmt.Sprint("k", i%3), t: 100 + i/3, v: i, w: fmt.Sprint("w", i%4)})
			}
			l.send(events...)
			l.start()
			l.pass(601 * time.Second)
			l.end()
			l.run(at{key: "last", t: 100_000, v: 0, w: "last"})
			if text := l.everything(); whole == "" {
				whole = text
			} else if text != whole {
				t.Errorf("in steps of %v\n%s\nfor\n%s", idle, text, whole)
			}
		})
	}
	if n := strings.Count(whole, " timer "); n < 5 {
		t.Errorf("%d timers fired in\n%s", n, whole)
	}
}

// TestAStormOfTimersTakesManyTransactions has a timer that sets itself again each second, and
// an event a day later. No transaction has all of them, and the answer is always the same.
func TestAStormOfTimersTakesManyTransactions(t *testing.T) {
	var whole string
	for _, chunk := range []int{64, 1, 7} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.plan.Calls = []*operator.Call{{
				Name: "beats", ID: l.plan.Meta.ID, Topics: []string{"out"},
				Function: &udf.Function{
					Version: 1, Keyed: true,
					Event: func(c *udf.Context) error {
						c.SetTimer("beat", c.Time.Add(time.Second))
						return nil
					},
					Timer: func(c *udf.Context) error {
						c.SetTimer("beat", c.Time.Add(time.Second))
						c.Emit(udf.Output{Topic: "out", Value: fmt.Appendf(nil, "%s %d", c.Key, c.Time.Unix())})
						return nil
					},
				},
			}}
			l.put(l.plan.Calls[0])
			l.send(at{key: "a", t: 1}, at{key: "b", t: 2}, at{key: "b", t: 503}, at{key: "a", t: 503}, at{key: "c", t: 1_000})
			l.start()
			l.pass(time.Minute)
			l.end()
			out := l.records("out")
			if text := fmt.Sprint(out); whole == "" {
				whole = text
			} else if text != whole {
				t.Errorf("chunks of %d make other outputs", chunk)
			}
			for i := 1; i < len(out); i++ {
				if out[i].Time.Before(out[i-1].Time) {
					t.Fatalf("output %d, of %v, is before that of %v", i, out[i].Time, out[i-1].Time)
				}
			}
			if want := 2 * 998; len(out) < want-2 || len(out) > want+2 {
				t.Errorf("chunks of %d: %d outputs, want about %d", chunk, len(out), want)
			}
			for _, tx := range l.log.done() {
				if most := 4 * 5 * chunk; len(tx.Outputs) > most {
					t.Fatalf("chunks of %d: a transaction has %d outputs, more than %d", chunk, len(tx.Outputs), most)
				}
			}
		})
	}
}
