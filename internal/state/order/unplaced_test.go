package order_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// fields are those that stages of these tests answer by.
var fields = []string{"merchant", "device"}

// unawaited adds an event of source 0 that came though its source was said to be silent, for which
// stages are asked.
func (m askedMeeting) unawaited(at int64, size int, by ...string) {
	m.Helper()
	var asked []byte
	for _, by := range by {
		asked = order.AppendAsk(asked, by, 0)
	}
	c := order.Copy{Placed: order.Placed{Key: order.Key{Time: at, Offset: at}, Unawaited: true}}
	m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)}, stream.Header{Key: header.Asked, Value: asked}, stream.Header{Key: "large", Value: make([]byte, size)})
}

// says adds an answer to an event of source 0.
func (m askedMeeting) says(at int64, by, value string) {
	m.Helper()
	q := order.Question{Offset: at, By: by}
	r := stream.Record{Partition: stream.Partition{Topic: meets}, Value: []byte(value), Headers: []stream.Header{{Key: header.AnswerTo, Value: q.Append(nil)}}}
	if err := m.log.Append(m.Context(), r); err != nil {
		m.Fatal(err)
	}
}

// mustKeep sees how many keys of events without a place the state has, and what is committed.
func (m askedMeeting) mustKeep(keys int, committed stream.Offset) {
	m.Helper()
	at, err := m.log.Committed(m.Context(), group, stream.Partition{Topic: meets})
	if got := inStateOf(m.T, m.log, statekey.Unplaced); len(got) != keys || at != committed || err != nil {
		m.Fatalf("%d keys of events without a place are in the state, and %d is committed: want %d and %d, %v", len(got), at, keys, committed, err)
	}
}

// TestUnawaitedEventsInStateAreBounded has an unawaited event at the front, whose stage stands
// still, while many times the bytes that a member may hold are read: some wait for another source,
// and some are unawaited, too. Memory has its bound, and so has a restart.
func TestUnawaitedEventsInStateAreBounded(t *testing.T) {
	const events, bound = 3000, 200 << 10
	m := meetAsked(t)
	o := order.Options{Bytes: bound, Stages: order.Stages{By: fields}}
	for i := int64(1); i <= events; i++ {
		if i%3 == 1 {
			m.unawaited(i, 500, fields...)
		} else {
			m.event(0, order.Key{Time: i, Offset: i})
		}
	}
	m.mark(0, 0, events+1)
	member, held := m.bounded(o, 0, 1)
	if n := m.read(member); n != 0 || held.Memory > 2*bound || held.State < events*20 || held.Spilled < events/2 {
		t.Fatalf("%d events were released, %+v", n, held)
	}
	m.mark(0, 1, events+1)
	if n := m.read(member); n != events/3*2 {
		t.Errorf("%d events were released, want those that wait for no answer", n)
	}
	for i := int64(1); i <= events; i += 3 {
		m.says(i, "device", "d")
	}
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	again := 0
	member, held = m.counted(&again, o, 0, 1)
	if n := m.read(member); n != 0 || held.Memory > 2*bound || again > 2*bound/256+events/3+100 {
		t.Errorf("%d events were released, %+v, %d records were read again", n, held, again)
	}
	for i := int64(1); i <= events; i += 3 {
		m.says(i, "merchant", "m")
	}
	if n := m.read(member); n != events/3 || held.State != 0 || held.Memory != 0 {
		t.Errorf("%d events were released, %+v", n, held)
	}
	list := texts(t, m.log, stream.Partition{Topic: results})
	if len(list) != events || !slices.Equal(list[events-1:], []string{fmt.Sprint(events-1, "  d m")}) {
		t.Errorf("%d results, the last one %q", len(list), list[len(list)-1:])
	}
	m.mustKeep(0, events+2+events/3*2)
}

// unplacedMeeting has an unawaited event in a key of its own, which waits for two answers, and a
// member that holds nothing in memory.
func unplacedMeeting(t *testing.T, size int) (m askedMeeting, o order.Options, member stream.Member) {
	t.Helper()
	m, o = meetAsked(t), order.Options{Bytes: 1, Stages: order.Stages{By: fields}}
	m.mark(0, 0, 50)
	m.mark(0, 1, 50)
	m.unawaited(10, size, fields...)
	m.event(0, order.Key{Time: 1000, Offset: 1000}) // this one waits for its source
	member, _ = m.bounded(o, 0, 1)
	if n := m.read(member); n != 0 {
		t.Fatalf("%d events were released", n)
	}
	m.mustKeep((size+64<<10)>>16, 2)
	return m, o, member
}

// TestAnswersToAnEventInStateAreKeptWithIt has the answers of an event come one by one, each to
// another reader, and each twice. It is released once, and has both.
func TestAnswersToAnEventInStateAreKeptWithIt(t *testing.T) {
	for _, size := range []int{1 << 10, 3 * 64 << 10} {
		m, o, member := unplacedMeeting(t, size)
		released := 0
		for i, by := range []string{"merchant", "merchant", "device", "device"} {
			if err := member.Close(); err != nil {
				t.Fatal(err)
			}
			member, _ = m.bounded(o, 0, 1)
			m.says(10, by, "of "+by+string(bytes.Repeat([]byte("."), 64<<10)))
			if released += m.read(member); released != i/2 {
				t.Errorf("%d events were released with %d answers", released, i+1)
			}
			if i < 2 {
				m.mustKeep((size+128<<10)>>16, 2)
			} else {
				m.mustKeep(0, 3)
			}
		}
		m.mark(0, 0, 2000)
		m.mark(0, 1, 2000)
		if n := m.read(member); n != 1 || len(inState(t, m.log)) != 0 {
			t.Errorf("%d events were released, %q is in state", n, inState(t, m.log))
		}
		if list := texts(t, m.log, stream.Partition{Topic: results}); len(list) != 2 || len(list[0]) < 128<<10 {
			t.Errorf("%d results", len(list))
		}
	}
}

// spill reads what is there, and has a step without events before the number of the next one.
func (m askedMeeting) spill(member stream.Member, next stream.Offset) {
	m.Helper()
	for range 20 {
		poll(m.T, member, 100)
	}
	commit(m.T, member, []stream.Record{{Partition: stream.Partition{Topic: meets}, Offset: next, Headers: []stream.Header{{Key: header.Frontier, Value: []byte("x")}}}})
}

// TestAnAnswerThatComesTwiceReleasesOnce has the last answer of an event in the state come again
// while the step that has the event is under way: the state has the event yet.
func TestAnAnswerThatComesTwiceReleasesOnce(t *testing.T) {
	m, o, member := unplacedMeeting(t, 0)
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	under := &slow{Log: m.log}
	member, err := order.NewLog(under, meets, o, 0, 1).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	m.says(10, "merchant", "m")
	m.says(10, "device", "d")
	var released []stream.Record
	for len(released) == 0 {
		released = slices.DeleteFunc(poll(t, member, 100), func(r stream.Record) bool { return header.MovesTime(&r) })
	}
	member.Commit(stepOf(t, released))
	m.says(10, "device", "d")
	for range 20 {
		for _, r := range poll(t, member, 100) {
			if !header.MovesTime(&r) {
				t.Fatalf("%q is released again", said(&r))
			}
		}
	}
	under.end(t)
	if n := m.read(&pumped{member, under, t}); n != 0 {
		t.Errorf("%d events were released again", n)
	}
	m.mustKeep(0, 3)
	_ = member.Close()
}

// pumped is a member of a slow log whose commits end at once.
type pumped struct {
	stream.Member
	log *slow
	t   *testing.T
}

// Commit implements stream.Member.
func (p *pumped) Commit(step stream.Transaction) *stream.Pending {
	pending := p.Member.Commit(step)
	p.log.end(p.t)
	return pending
}

// TestAnEventInStateIsBroughtBackBeforeItsStepIsDurable has an answer come while the step is under
// way that writes its event to the state.
func TestAnEventInStateIsBroughtBackBeforeItsStepIsDurable(t *testing.T) {
	m := meetAsked(t)
	m.mark(0, 0, 50)
	m.mark(0, 1, 50)
	m.unawaited(10, 0, "merchant")
	m.event(0, order.Key{Time: 1000, Offset: 1000})
	under := &slow{Log: m.log}
	member, err := order.NewLog(under, meets, order.Options{Bytes: 1, Stages: order.Stages{By: fields}}, 0, 1).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	pumped := &pumped{member, under, t}
	var last []stream.Record // says that memory is full
	for end := time.Now().Add(5 * time.Second); len(last) == 0 && time.Now().Before(end); {
		last = poll(t, member, 100)
	}
	member.Commit(stepOf(t, last))
	m.says(10, "merchant", "m")
	released := poll(t, member, 100)
	m.mustKeep(0, 0)
	under.end(t)
	if n := commit(t, pumped, released) + m.read(pumped); n != 1 {
		t.Errorf("%d events were released", n)
	}
	m.mustKeep(0, 3)
	_ = member.Close()
}

// TestTurnsWithoutAPlaceAreBounded does so for a stage, whose unawaited asks wait for what their
// events say.
func TestTurnsWithoutAPlaceAreBounded(t *testing.T) {
	const events, bound = 3000, 200 << 10
	m := meetAsked(t)
	o := order.Options{Bytes: bound, Stages: order.Stages{Delay: 20 * time.Microsecond}}
	for i := int64(1); i <= events; i++ {
		m.unawaited(i, 100)
	}
	m.mark(0, 0, events+1)
	m.mark(0, 1, events+1)
	member, held := m.bounded(o, 0, 1)
	if n := m.read(member); n != events || held.Memory > bound+8*events || held.State < events*20 {
		t.Fatalf("%d asks were released, %+v", n, held)
	}
	for i := int64(events); i > 0; i-- {
		m.says(i, "", fmt.Sprint(i))
	}
	m.mark(0, 0, events+100)
	m.mark(0, 1, events+100)
	if n := m.read(member); n != events || held.State != 0 || held.Memory != 0 {
		t.Errorf("%d turns were released, %+v", n, held)
	}
	m.mustKeep(0, 2*events+4)
}

// TestReadersNameTheStageOfAnEventInState has the one event that waits be in the state.
func TestReadersNameTheStageOfAnEventInState(t *testing.T) {
	m := meetAsked(t)
	m.mark(0, 0, 50)
	m.mark(0, 1, 50)
	m.unawaited(10, 0, "device")
	readers := &order.Readers{Now: func() time.Time { return time.Unix(1000, 0) }}
	var member stream.Member
	for range 2 { // a later one reads no record of it
		reader := readers.Reader()
		member, _ = m.bounded(order.Options{Bytes: 1, Stages: order.Stages{By: fields}, Reader: reader}, 0, 1)
		m.read(member)
		m.mustKeep(1, 2)
		if s := readers.Standing()[0]; s.Waits != (order.Holder{Source: -1, By: "device", Stage: true}) || s.First.Time != 10 || !s.Spilled {
			t.Errorf("%+v", s)
		}
		reader.Close()
		if err := member.Close(); err != nil {
			t.Fatal(err)
		}
	}
	member, _ = m.bounded(order.Options{Bytes: 1, Stages: order.Stages{By: fields}, Reader: readers.Reader()}, 0, 1)
	m.says(10, "device", "d")
	m.read(member)
	if s := readers.Standing()[0]; s.Waits != order.Nothing || s.Spilled {
		t.Errorf("%+v", s)
	}
}

// TestAnAnswerDoesNotStayForAnEventInAPage has both answers of an event in the state come at once. The
// record of the first one leaves memory, and takes the event to a page. The other one is not held.
func TestAnAnswerDoesNotStayForAnEventInAPage(t *testing.T) {
	m := meetAsked(t)
	m.mark(0, 0, 5)
	m.mark(0, 1, 5)
	m.unawaited(10, 20_000, fields...)
	member, held := m.bounded(order.Options{Bytes: 8000, Stages: order.Stages{By: fields}}, 0, 1)
	m.read(member)
	m.mustKeep(1, 2)
	m.says(10, "merchant", "m")
	m.says(10, "device", "d")
	if n := m.read(member); n != 0 || len(inStateOf(t, m.log, statekey.Run)) != 1 {
		t.Fatalf("%d events were released, %q is in state", n, inState(t, m.log))
	}
	m.mustKeep(0, 2)
	m.mark(0, 0, 50)
	m.mark(0, 1, 50)
	if n := m.read(member); n != 1 || *held != (order.Held{Spilled: 2}) || len(inState(t, m.log)) != 0 {
		t.Errorf("%d events were released, %+v, %q is in state", n, held, inState(t, m.log))
	}
}

// TestEventsInStateDoNotWaitForAStageThatIsGone has events become state that two stages are asked
// for: in a page, and without a place. The next reader knows one of these stages, or none.
func TestEventsInStateDoNotWaitForAStageThatIsGone(t *testing.T) {
	for _, by := range []string{"merchant", "shop"} {
		for _, restart := range []bool{false, true} {
			withoutStages(t, by, restart)
		}
	}
}

func withoutStages(t *testing.T, by string, restart bool) {
	t.Helper()
	m, o := meetAsked(t), order.Options{Bytes: 1, Stages: order.Stages{By: fields}}
	m.mark(0, 0, 50)
	m.mark(0, 1, 50)
	m.unawaited(10, 0, fields...)
	m.unawaited(11, 0, "device")
	m.unawaited(100, 0, "device")
	asked := order.AppendAsk(order.AppendAsk(nil, "merchant", 0), "device", 0)
	c := order.Copy{Placed: order.Placed{Key: order.Key{Time: 60, Source: 1, Offset: 60}}}
	m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)}, stream.Header{Key: header.Asked, Value: asked})
	m.event(0, order.Key{Time: 20, Offset: 20})
	member, _ := m.bounded(o, 0, 1)
	if n := m.read(member); n != 1 {
		t.Fatalf("%d events were released, want the one that waits for nothing", n)
	}
	m.mustKeep(3, 2)
	o.By = []string{by}
	again := func() {
		m.Helper()
		if err := member.Close(); err != nil {
			t.Fatal(err)
		}
		member, _ = m.bounded(o, 0, 1)
	}
	again()
	m.says(10, "merchant", "m")
	q := order.Question{Source: 1, Offset: 60, By: "merchant"}
	m.add(0, stream.Header{Key: header.AnswerTo, Value: q.Append(nil)})
	released := 0
	for range 3 { // each gives one of the events its place, as memory is full
		m.mark(0, 0, 55)
		if !restart {
			released += m.read(member)
			continue
		}
		m.spill(member, 1)
		again()
	}
	m.mark(0, 1, 2000)
	m.mark(0, 0, 2000)
	if released += m.read(member); released != 4 || len(inState(t, m.log)) != 0 {
		t.Errorf("with %s, restart %t: %d events were released, %q is in state", by, restart, released, inState(t, m.log))
	}
	if list := texts(t, m.log, stream.Partition{Topic: results}); len(list) != 5 {
		t.Errorf("%q", list)
	}
	forced := int64(1) // the one at 20; an event does not count that gets its place because its stages are gone
	if by == "merchant" {
		forced = 2 // and the one at 10
	}
	if n := forcedOf(t, m.log, 1); n != forced {
		t.Errorf("with %s, restart %t: the state says that %d events were forced, want %d", by, restart, n, forced)
	}
}

// TestARestartKeepsTheOrderOfMovedEvents has an event go to a page that a later record has moved,
// behind one that is still in memory. A restart reads the records one by one.
func TestARestartKeepsTheOrderOfMovedEvents(t *testing.T) {
	m, o := meetAsked(t), order.Options{Bytes: 8000, Stages: order.Stages{By: fields}}
	m.mark(0, 0, 50)
	m.mark(0, 1, 50)
	m.unawaited(11, 0, "device")
	m.unawaited(10, 9000, fields...)
	m.event(0, order.Key{Time: 1000, Offset: 1000}) // this one waits for its source, and fills memory
	member, _ := m.bounded(o, 0, 1)
	if n := m.read(member); n != 0 {
		t.Fatalf("%d events were released", n)
	}
	m.mustKeep(2, 2)
	m.says(10, "merchant", string(make([]byte, 20_000)))
	m.mark(0, 0, 50)
	m.says(11, "device", "first")
	m.says(10, "device", "second")
	m.spill(member, 0)
	if len(inStateOf(t, m.log, statekey.Run)) == 0 {
		t.Fatal("no event is in a page")
	}
	m.mustKeep(1, 2)
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	member, _ = m.bounded(o, 0, 1)
	var got []string
	for range 100 {
		for _, r := range poll(t, member, 1) {
			if text := answersOf(&r); !header.MovesTime(&r) {
				got = append(got, text[max(0, len(text)-6):])
			}
		}
	}
	if !slices.Equal(got, []string{" first", "second"}) {
		t.Errorf("%q", got)
	}
}
