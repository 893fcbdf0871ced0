package order_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// question is an event of a partition that has to be answered, as the test wrote it.
type question struct {
	copied
	unawaited bool
	asked     []string // fields
}

// waits returns how many answers the event waits for in a topic.
func (q *question) waits(stages order.Stages) (n int) {
	for _, by := range q.asked {
		if slices.Contains(stages.By, by) {
			n++
		}
	}
	return n
}

// stagesWritten are the records of a partition, in their order, and what was asked.
type stagesWritten struct {
	list      []copied
	questions map[string]question // by text
	answers   map[int]string      // by index in list: the text of what is answered
	open      []order.Question
	given     []order.Question // answered: some are again
}

// TestEventsWaitForAnswers compares what killed readers release with a sort of the events,
// where each one has the answers of its stages. Answers come at any place behind their event. An
// unawaited event has its place with the last of them.
func TestEventsWaitForAnswers(t *testing.T) {
	var kept kept
	for seed := range seedsOf(300) {
		kept.withStages(t, seed, order.Stages{By: []string{"merchant", "device"}})
	}
	kept.mustBeEnough(t)
}

// TestAsksHaveATurnAfterTheirDelay does so for the topic of a stage with a delay: each ask is
// there twice, and the second time it has what its event says.
func TestAsksHaveATurnAfterTheirDelay(t *testing.T) {
	var kept kept
	for seed := range seedsOf(300) {
		kept.withStages(t, seed, order.Stages{Delay: time.Duration(1+rand.New(rand.NewPCG(seed, 6)).IntN(60)) * time.Microsecond})
	}
	kept.mustBeEnough(t)
}

// kept is how many keys members left in the state.
type kept struct{ runs, unplaced int }

func (k *kept) mustBeEnough(t *testing.T) {
	t.Helper()
	if k.runs < 50 || k.unplaced < 60 {
		t.Errorf("only %d runs of held events, and %d events without a place, were in the state", k.runs, k.unplaced)
	}
}

func (k *kept) withStages(t *testing.T, seed uint64, stages order.Stages) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	log := memory.New(memory.Options{})
	numbers, partitions := 1+r.IntN(5), int32(1+r.IntN(3))
	written := writeStaged(t, log, r, stages, numbers, partitions)
	var sources []int32
	for i := range numbers {
		sources = append(sources, order.Number(i/3, int32(i%3)))
	}
	var want [][]string
	events := 0
	for i := range written {
		want = append(want, written[i].sequence(stages, sources))
		events += len(want[len(want)-1])
	}
	o := order.Options{Stages: stages, Bytes: bounds[seed%3]}
	k.runs += read(t, log, o, sources, r, events, r.IntN(3)*r.IntN(20), func() { k.unplaced += len(inStateOf(t, log, statekey.Unplaced)) })
	if left := inStateOf(t, log, statekey.Unplaced); stages.Delay == 0 && len(left) > 0 { // with a delay, there are turns behind the last event
		t.Fatalf("seed %d: %d events without a place are left in the state", seed, len(left))
	}
	for i, want := range want {
		if got := texts(t, log, stream.Partition{Topic: results, Index: int32(i)}); !slices.Equal(got, want) {
			t.Fatalf("seed %d: partition %d: released\n%v, want\n%v", seed, i, got, want)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// writeStaged writes a topic of events that are asked, marks and answers. All answers are
// there at the end.
func writeStaged(t *testing.T, log stream.Log, r *rand.Rand, stages order.Stages, sources int, partitions int32) []stagesWritten {
	t.Helper()
	for _, topic := range []string{meets, results} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	rules := order.Rules{Lateness: 10, Wait: 10}
	list := make([]stagesWritten, partitions)
	for i := range list {
		list[i].questions, list[i].answers = map[string]question{}, map[int]string{}
	}
	w := &stagedWriter{t, log, r, stages, list}
	var state []order.Source
	for i := range sources {
		state = append(state, order.NewSource(order.Number(i/3, int32(i%3))))
	}
	broadcast := func(marks order.Marks) {
		for i := range partitions {
			list[i].list = append(list[i].list, copied{marks: marks})
			w.add(i, "", stream.Header{Key: header.Frontier, Value: marks.Append(nil)})
		}
	}
	behind := r.IntN(3) * r.IntN(30) // so many questions are open
	for now := int64(1000); now < 1000+int64(r.IntN(2000)); now += int64(r.IntN(20)) {
		s := &state[r.IntN(sources)]
		for range r.IntN(4) {
			at := now - int64(r.IntN(30))
			w.event(r.Int32N(partitions), s.Place(rules, s.Next, at, at))
		}
		if r.IntN(2) == 0 {
			s.Silent = max(s.Silent, now-int64(r.IntN(40))) // which is wrong for some events
		}
		broadcast(order.Marks{s.Mark(rules)})
		if r.IntN(15) == 0 { // all are silent
			for i := range state {
				state[i].Silent = max(state[i].Silent, now)
				broadcast(order.Marks{state[i].Mark(rules)})
			}
		}
		for i := range partitions {
			for len(list[i].open) > behind && r.IntN(3) > 0 {
				w.answer(i)
			}
		}
	}
	for i := range state { // a last event of each, behind all turns
		state[i].Silent = 1 << 40
		for p := range partitions {
			w.event(p, order.Placed{Key: state[i].Place(rules, state[i].Next, 1<<30, 1<<30).Key})
		}
		broadcast(order.Marks{state[i].Mark(rules)})
	}
	for i := range partitions {
		for len(list[i].open) > 0 {
			w.answer(i)
		}
	}
	return list
}

// stagedWriter writes the records of stages.
type stagedWriter struct {
	*testing.T
	log    stream.Log
	r      *rand.Rand
	stages order.Stages
	list   []stagesWritten
}

func (w *stagedWriter) add(index int32, value string, headers ...stream.Header) {
	record := stream.Record{Partition: stream.Partition{Topic: meets, Index: index}, Value: []byte(value), Headers: headers}
	if err := w.log.Append(w.Context(), record); err != nil {
		w.Fatal(err)
	}
}

// answer answers one of the questions that are open.
func (w *stagedWriter) answer(index int32) {
	l := &w.list[index]
	if n := len(l.given); n > 0 && w.r.IntN(8) == 0 { // an answer that occurs twice
		w.write(index, l.given[w.r.IntN(n)])
	}
	i := w.r.IntN(len(l.open))
	q := l.open[i]
	l.given = append(l.given, q)
	l.open = slices.Delete(l.open, i, i+1)
	l.answers[len(l.list)] = fmt.Sprint(q.Source, "@", q.Offset)
	w.write(index, q)
}

// write writes the record of an answer.
func (w *stagedWriter) write(index int32, q order.Question) {
	l := &w.list[index]
	l.list = append(l.list, copied{marks: order.Marks{order.NoMark}})
	w.add(index, "answer of "+q.By, stream.Header{Key: header.AnswerTo, Value: q.Append(nil)})
}

// event writes a copy, for which stages are asked: one of them is not there any more.
func (w *stagedWriter) event(index int32, placed order.Placed) {
	k := placed.Key
	l, text := &w.list[index], fmt.Sprint(k.Source, "@", k.Offset)
	q := question{copied: copied{text: text, key: k}, unawaited: placed.Unawaited}
	var asked []byte
	for _, by := range []string{"merchant", "device", "gone"} {
		if w.r.IntN(2) == 0 {
			continue
		}
		q.asked, asked = append(q.asked, by), order.AppendAsk(asked, by, index)
		if w.stages.Delay == 0 && by != "gone" {
			l.open = append(l.open, order.Question{Source: k.Source, Offset: k.Offset, By: by})
		}
	}
	if w.stages.Delay > 0 {
		l.open = append(l.open, order.Question{Source: k.Source, Offset: k.Offset})
	}
	place := order.Copy{Placed: placed}
	l.list, l.questions[text] = append(l.list, q.copied), q
	w.add(index, text, stream.Header{Key: header.Order, Value: place.Append(nil)}, stream.Header{Key: header.Asked, Value: asked})
}

// turnOf is an event, or its turn after the delay, and where it is in the order.
type turnOf struct {
	key   order.Key
	moved int
	text  string
}

// sorted puts what has a place in the log in order.
type sorted struct {
	frontier map[int32]order.Key
	most     order.Key
	turns    []turnOf
}

func newSorted(sources []int32) *sorted {
	s := &sorted{frontier: map[int32]order.Key{}, most: order.First}
	for _, number := range sources {
		s.frontier[number] = order.First
	}
	return s
}

func (s *sorted) mark(m order.Mark) {
	s.most = later(s.most, m.Key)
	k := m.Key
	if m.Silent != order.NoMark.Silent {
		k = later(k, earlier(order.Key{Time: m.Silent, Source: k.Source, Offset: k.Offset}, s.most))
	}
	s.frontier[m.Key.Source] = later(s.frontier[m.Key.Source], k)
}

// place adds what has its place at an offset.
func (s *sorted) place(at int, key order.Key, text string) *turnOf {
	of := turnOf{key, -1, text}
	if least := leastOf(s.frontier); !least.Before(key) {
		of.key, of.moved = least, at
	}
	s.turns = append(s.turns, of)
	return &s.turns[len(s.turns)-1]
}

// released returns the texts of what all sources have reached.
func (s *sorted) released() (found []string) {
	end := leastOf(s.frontier)
	s.turns = slices.DeleteFunc(s.turns, func(t turnOf) bool { return end.Before(t.key) })
	return s.texts()
}

// texts returns the texts in order, each with its number.
func (s *sorted) texts() (found []string) {
	slices.SortStableFunc(s.turns, func(a, b turnOf) int { return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.moved, b.moved)) })
	for n, t := range s.turns {
		found = append(found, fmt.Sprintf("%d %s", n, t.text))
	}
	return found
}

// sequence is the definition of what is released: a sort of the events and of the turns.
func (l *stagesWritten) sequence(stages order.Stages, sources []int32) (found []string) {
	s := newSorted(sources)
	open, turns := map[string]int{}, map[string]turnOf{} // of unawaited events
	for at, c := range l.list {
		for _, m := range c.marks {
			if m != order.NoMark { // which is an answer
				s.mark(m)
			}
		}
		q := l.questions[cmp.Or(l.answers[at], c.text)]
		text := q.answered(stages)
		if answered := l.answers[at] != ""; answered && q.unawaited {
			if open[q.text]--; open[q.text] > 0 {
				continue
			}
			if t, waits := turns[q.text]; !waits {
				s.place(at, q.key, text)
			} else if of := s.place(at, t.key, t.text); t.moved >= 0 {
				of.moved = at
			}
		}
		if c.marks != nil {
			continue
		}
		if open[q.text] = q.waits(stages); q.unawaited && open[q.text] > 0 {
			s.most = later(s.most, q.key)
			continue
		}
		t := *s.place(at, q.key, text)
		if s.most = later(s.most, t.key); stages.Delay == 0 {
			continue
		}
		t.key = order.Key{Time: t.key.Time + stages.Delay.Microseconds(), Source: math.MinInt32 + max(t.key.Source, 0), Offset: t.key.Offset}
		t.text += " answer of "
		if open[q.text]++; q.unawaited {
			turns[q.text] = t
		} else {
			s.turns = append(s.turns, t)
		}
	}
	return s.released()
}

// answered is the text of the event with its answers.
func (q *question) answered(stages order.Stages) string {
	text := q.text
	for _, by := range []string{"device", "merchant"} {
		if slices.Contains(q.asked, by) && stages.Delay == 0 {
			text += " answer of " + by
		}
	}
	return text
}
