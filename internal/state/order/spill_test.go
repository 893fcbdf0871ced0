package order_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// bounded joins a member that holds so many bytes, and returns what it holds.
func (m meeting) bounded(o order.Options, sources ...int32) (stream.Member, *order.Held) {
	m.Helper()
	return m.counted(new(int), o, sources...)
}

// counted is bounded, and counts the records that are read.
func (m meeting) counted(records *int, o order.Options, sources ...int32) (stream.Member, *order.Held) {
	m.Helper()
	held := &order.Held{}
	spilled := 0
	o.Tell = func(h order.Held) {
		spilled += h.Spilled
		h.Spilled = spilled
		*held = h
	}
	member, err := order.NewLog(&counting{m.log, records}, meets, o, sources...).Join(m.Context(), group, meets)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = member.Close() })
	return member, held
}

// counting is a log that counts the records that members read.
type counting struct {
	*memory.Log
	records *int
}

type countingMember struct {
	stream.Seeker
	records *int
}

func (c *counting) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	m, err := c.Log.Join(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	return &countingMember{m.(stream.Seeker), c.records}, nil
}

func (m *countingMember) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	batch, err := m.Seeker.Poll(ctx, limit)
	*m.records += len(batch.Records)
	return batch, err
}

// read polls, and commits what comes, until a member has read all that is there. It returns
// how many events were released.
func (m meeting) read(member stream.Member) (events int) {
	m.Helper()
	for quiet := 0; quiet < 40; quiet++ {
		records := poll(m.T, member, 100)
		if len(records) > 0 {
			quiet = 0
			events += commit(m.T, member, records)
		}
	}
	return events
}

// TestWhatIsHeldIsBounded has events that wait for another source, of many times the bytes that
// a member may hold. They become state. A restart reads nothing of them again, and the
// committed offset stays that of the first one, so that repartitioners see what waits.
func TestWhatIsHeldIsBounded(t *testing.T) {
	const events, bound, large = 3000, 200 << 10, 3 * 64 << 10
	m := meet(t, 1)
	if err := m.log.CreateTopic(t.Context(), stream.Topic{Name: results, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	first := order.Copy{Placed: order.Placed{Key: order.Key{Time: 1}}}
	m.add(0, stream.Header{Key: header.Order, Value: first.Append(nil)}, stream.Header{Key: "large", Value: bytes.Repeat([]byte("x"), large)})
	for i := int64(1); i < events; i++ {
		m.event(0, order.Key{Time: 1 + i, Offset: i})
	}
	m.mark(0, 0, events)
	member, held := m.bounded(order.Options{Bytes: bound}, 0, 1)
	if n := m.read(member); n != 0 || held.Memory > bound || held.Spilled < events-bound/256 || held.State < events*20 {
		t.Fatalf("%d events were released, %+v", n, held)
	}
	if err := member.Close(); err != nil || *held != (order.Held{Spilled: held.Spilled}) {
		t.Errorf("%+v after the end, %v", held, err)
	}
	before := held.Spilled
	committed := func() stream.Offset {
		offset, err := m.log.Committed(t.Context(), group, stream.Partition{Topic: meets})
		if err != nil {
			t.Fatal(err)
		}
		return offset
	}
	if at := committed(); at != 0 {
		t.Errorf("%d is committed, and the first event waits", at)
	}
	m.mark(0, 1, 1000)
	again := 0
	member, held = m.counted(&again, order.Options{Bytes: bound}, 0, 1)
	if n := m.read(member); n != 1000 || held.Spilled > before/10 || again > bound/256+100 {
		t.Errorf("%d events were released, want 1000: %+v, %d records were read again", n, held, again)
	}
	if at := committed(); at != 1000 {
		t.Errorf("%d is committed, and 1000 events are over", at)
	}
	if err := member.Close(); err != nil { // pages were deleted
		t.Fatal(err)
	}
	member, held = m.bounded(order.Options{Bytes: bound}, 0, 1)
	m.mark(0, 1, events)
	if n := m.read(member); n != events-1000 || held.State != 0 || committed() != events+3 {
		t.Errorf("%d events were released, want %d: %+v, %d is committed", n, events-1000, held, committed())
	}
	for i, text := range texts(t, m.log, stream.Partition{Topic: results}) {
		if text != fmt.Sprint(i, " ") {
			t.Fatalf("event %d is %q", i, text)
		}
	}
	if left := inState(t, m.log); len(left) > 0 {
		t.Errorf("%q is left in the state", left)
	}
}

// TestARestartPassesOverPagesThatWereDeleted has four events become one run of two pages. The events
// of the first page are released, so that it is deleted, and the name of the run stays.
func TestARestartPassesOverPagesThatWereDeleted(t *testing.T) {
	m := meetAsked(t)
	for i := int64(1); i <= 4; i++ {
		m.asked(0, i, 20_000)
	}
	m.mark(0, 0, 10)
	mustHold := func(what string, released, runs, pages int, member stream.Member) {
		t.Helper()
		n, r, p := m.read(member), len(inStateOf(t, m.log, statekey.Run)), len(inStateOf(t, m.log, statekey.Page))
		if n != released || r != runs || p != pages {
			t.Fatalf("%s: %d events were released, %d runs and %d pages are in state: want %d, %d and %d", what, n, r, p, released, runs, pages)
		}
	}
	member, _ := m.bounded(order.Options{Bytes: 1}, 0, 1)
	mustHold("all events wait", 0, 1, 2, member)
	m.mark(0, 1, 2)
	mustHold("the first two are released", 2, 1, 1, member)
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	member, _ = m.bounded(order.Options{Bytes: 1}, 0, 1)
	m.mark(0, 1, 10)
	mustHold("a restart releases the others", 2, 0, 0, member)
}

// TestAnswersInStateGoWithTheirEvents has an answer come to an event in a page. Its event is
// released, while a page with a later one stays, by the same reader and by a later one.
func TestAnswersInStateGoWithTheirEvents(t *testing.T) {
	for _, restart := range []bool{false, true} {
		answersInState(t, restart)
	}
}

// askedMeeting is a meeting whose events are asked for.
type askedMeeting struct{ meeting }

func meetAsked(t *testing.T) askedMeeting {
	t.Helper()
	m := meet(t, 1)
	if err := m.log.CreateTopic(t.Context(), stream.Topic{Name: results, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	return askedMeeting{m}
}

func (m askedMeeting) asked(source int32, at int64, size int) {
	m.Helper()
	c := order.Copy{Placed: order.Placed{Key: order.Key{Time: at, Source: source, Offset: at}}}
	m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)}, stream.Header{Key: header.Asked, Value: order.AppendAsk(nil, "merchant", 0)}, stream.Header{Key: "large", Value: make([]byte, size)})
}

func (m askedMeeting) answered(source int32, at int64) {
	m.Helper()
	q := order.Question{Source: source, Offset: at, By: "merchant"}
	m.add(0, stream.Header{Key: header.AnswerTo, Value: q.Append(nil)})
}

// early returns how many answers are in the state.
func (m askedMeeting) early() (n int) {
	m.Helper()
	for _, key := range inState(m.T, m.log) {
		if key[0] == statekey.Early {
			n++
		}
	}
	return n
}

// TestAnswersThatComeAgainGoWithTheLastPage has a reader be killed that had an answer, while what
// is before it in the window waits. The next one cannot tell if it is to an event of a page.
func TestAnswersThatComeAgainGoWithTheLastPage(t *testing.T) {
	m := meetAsked(t)
	m.event(0, order.Key{Time: 1000, Offset: 1000})
	m.asked(0, 1001, 20_000) // these two are in a page
	m.mark(0, 0, 1001)
	o := order.Options{Bytes: 8000, Stages: order.Stages{By: []string{"merchant"}}}
	member, held := m.bounded(o, 0, 1, 2)
	if m.read(member); held.Spilled != 2 {
		t.Fatalf("%+v", held)
	}
	m.event(0, order.Key{Time: 900, Source: 2, Offset: 1}) // this one waits
	m.asked(2, 10, 0)
	m.answered(2, 10)
	m.mark(0, 1, 50)
	m.mark(0, 2, 50)
	if n := m.read(member); n != 1 || m.early() != 0 || held.Spilled != 2 {
		t.Fatalf("%d events were released, %d answers are in state, %+v", n, m.early(), held)
	}
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	member, _ = m.bounded(o, 0, 1, 2)
	m.mark(0, 1, 2000)
	if n := m.read(member); n != 0 || m.early() != 1 {
		t.Errorf("%d events were released, %d answers are in state", n, m.early())
	}
	m.mark(0, 2, 2000)
	m.answered(0, 1001)
	if n := m.read(member); n != 3 || len(inState(t, m.log)) != 0 {
		t.Errorf("%d events were released, %q is in state", n, inState(t, m.log))
	}
}

// TestAnswersOfAStepAreNotState has an answer come to an event that was read back: it is
// released at once.
func TestAnswersOfAStepAreNotState(t *testing.T) {
	m := meetAsked(t)
	m.asked(0, 10, 0)
	m.mark(0, 0, 100)
	member, _ := m.bounded(order.Options{Bytes: 1, Stages: order.Stages{By: []string{"merchant"}}}, 0, 1)
	m.read(member)
	m.asked(0, 200, 0)
	m.mark(0, 0, 300)
	m.mark(0, 1, 50)
	if n := m.read(member); n != 0 {
		t.Fatalf("%d events were released", n)
	}
	m.answered(0, 10)
	if n := m.read(member); n != 1 || m.early() != 0 {
		t.Errorf("%d events were released, %d answers are in state", n, m.early())
	}
}

func answersInState(t *testing.T, restart bool) {
	t.Helper()
	m := meetAsked(t)
	m.asked(0, 10, 0)
	m.mark(0, 0, 100)
	o := order.Options{Bytes: 1, Stages: order.Stages{By: []string{"merchant"}}}
	member, _ := m.bounded(o, 0, 1)
	m.read(member)
	m.asked(0, 200, 0)
	m.mark(0, 0, 300)
	m.read(member)
	m.answered(0, 10)
	m.answered(0, 200)
	if n := m.read(member); n != 0 || m.early() != 2 {
		t.Fatalf("%d events were released, %d answers are in state", n, m.early())
	}
	if restart {
		if err := member.Close(); err != nil {
			t.Fatal(err)
		}
		member, _ = m.bounded(o, 0, 1)
	}
	m.mark(0, 1, 50)
	if n := m.read(member); n != 1 || m.early() != 1 {
		t.Errorf("%d events were released, %d answers are in state", n, m.early())
	}
	m.mark(0, 1, 300)
	if n := m.read(member); n != 1 || len(inState(t, m.log)) != 0 {
		t.Errorf("%d events were released, %q is in state", n, inState(t, m.log))
	}
}

// TestWhatAStepHasBecomesNoState has an event stay in memory before many that are released, until
// the ones behind take more than a member may hold.
func TestWhatAStepHasBecomesNoState(t *testing.T) {
	const released, late, room = 1000, 2000, 800 << 10
	m := meet(t, 1)
	if err := m.log.CreateTopic(t.Context(), stream.Topic{Name: results, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	m.event(0, order.Key{Time: late})
	for i := int64(1); i <= released; i++ {
		m.event(0, order.Key{Time: i, Source: 1, Offset: i})
	}
	m.mark(0, 0, released+1)
	m.mark(0, 1, released+1)
	member, held := m.bounded(order.Options{Bytes: room}, 0, 1)
	if n := m.read(member); n != released || held.Spilled != 0 {
		t.Fatalf("%d events were released, want %d: %+v", n, released, held)
	}
	for i := int64(0); i < room/256; i++ {
		m.event(0, order.Key{Time: late + i, Offset: i + 1})
	}
	if n := m.read(member); n != 0 || held.Spilled == 0 || held.Spilled >= released {
		t.Errorf("%d events were released, %+v", n, held)
	}
	spilled := held.Spilled
	m.mark(0, 0, late+room)
	m.mark(0, 1, late+room)
	if n := m.read(member); n != 1+room/256 || held.Spilled != spilled {
		t.Errorf("%d events were released, want %d: %+v", n, 1+room/256, held)
	}
}
