package order_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// TestAnEventIsReleasedWithItsOwnMark: the mark behind an event lets it go, if no other source
// holds it. No later event is needed.
func TestAnEventIsReleasedWithItsOwnMark(t *testing.T) {
	m, s := order.NewMerger[string](1), order.NewSource(0)
	m.Push(0, s.Place(order.Rules{}, 7, 100, 100).Key, "a")
	if _, _, ok := m.Next(); ok {
		t.Error("it is released without a mark")
	}
	m.Mark(0, s.Mark(order.Rules{}).Key)
	if _, v, ok := m.Next(); !ok || v != "a" {
		t.Error("it is not released with its mark")
	}
}

func TestAFrontierNeverGoesBack(t *testing.T) {
	m := order.NewMerger[string](2)
	for _, time := range []int64{5, 3} {
		m.Mark(1, order.Key{Time: time})
	}
	if at := m.At(1); at.Time != 5 {
		t.Errorf("it is at %v", at)
	}
	if m.Frontier() != order.First || m.Behind() != 0 {
		t.Errorf("what is held waits for source %d at %v", m.Behind(), m.Frontier())
	}
}

// meeting is a log with a topic where sources meet.
type meeting struct {
	*testing.T
	log *memory.Log
}

func meet(t *testing.T, partitions int32) meeting {
	t.Helper()
	log := memory.New(memory.Options{})
	t.Cleanup(func() { _ = log.Close() })
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: meets, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return meeting{t, log}
}

func (m meeting) add(index int32, h ...stream.Header) {
	m.Helper()
	if err := m.log.Append(m.Context(), stream.Record{Partition: stream.Partition{Topic: meets, Index: index}, Time: time.UnixMicro(1), Headers: h}); err != nil {
		m.Fatal(err)
	}
}

func (m meeting) event(index int32, k order.Key) {
	m.Helper()
	c := order.Copy{Placed: order.Placed{Key: k}}
	m.add(index, stream.Header{Key: header.Order, Value: c.Append(nil)})
}

func (m meeting) mark(index int32, source int32, time int64) {
	m.Helper()
	marks := order.Marks{{Key: order.Key{Time: time, Source: source, Offset: time}, Silent: order.NoMark.Silent}}
	m.add(index, stream.Header{Key: header.Frontier, Value: marks.Append(nil)})
}

func (m meeting) join(sources ...int32) stream.Member {
	m.Helper()
	member, err := order.NewLog(m.log, meets, order.Options{}, sources...).Join(m.Context(), group, meets)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = member.Close() })
	return member
}

// said returns what a member says of a record: where an event is, or up to when time moved on.
func said(r *stream.Record) string {
	if header.MovesTime(r) {
		return fmt.Sprintf("time %d before %d", r.Time.UnixMicro(), r.Offset)
	}
	c, err := order.ParseCopy(header.Value(r, header.Order))
	text := fmt.Sprintf("%d: %d of %d@%d", r.Offset, c.Key.Time, c.Key.Source, c.Key.Offset)
	if c.Late {
		text += " late"
	}
	if c.Forced {
		text += " forced"
	}
	if err != nil {
		text += err.Error()
	}
	return text
}

// want polls until a member has said so much.
func (m meeting) want(member stream.Member, want ...string) (records []stream.Record) {
	m.Helper()
	var got []string
	for end := time.Now().Add(5 * time.Second); len(got) < len(want) && time.Now().Before(end); {
		for _, r := range poll(m.T, member, 100) {
			got, records = append(got, said(&r)), append(records, r)
		}
	}
	if !slices.Equal(got, want) {
		m.Fatalf("got %q, want %q", got, want)
	}
	return records
}

// TestForcedEventsSaySo has an event behind the frontier of its source, which was late there.
func TestForcedEventsSaySo(t *testing.T) {
	m := meet(t, 1)
	m.mark(0, 0, 100)
	c := order.Copy{Placed: order.Placed{Key: order.Key{Time: 50, Offset: 7}, Late: true}, Appended: 40}
	m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)})
	m.want(m.join(0), "0: 100 of 0@7 late forced", "time 100 before 1")
}

// TestEventsOfSourcesThatAreNotKnownAreNotLost has events of a source that is not among those
// that are read, and without a place. They have their turn where they stand.
func TestEventsOfSourcesThatAreNotKnownAreNotLost(t *testing.T) {
	m := meet(t, 1)
	m.mark(0, 1, 100)
	m.mark(0, 3, 70)
	for _, source := range []int32{0, 2, 9} {
		m.event(0, order.Key{Time: 80, Source: source})
	}
	m.add(0)
	m.event(0, order.Key{Time: 75, Source: 3, Offset: 75})
	m.mark(0, 3, 200)
	m.want(m.join(1, 3), "0: 70 of 0@0 forced", "1: 70 of 2@0 forced", "2: 70 of 9@0 forced", "3: 70 of 3@70", "4: 75 of 3@75", "time 100 before 5")
}

// TestArrivalIsTheOrderOfTheLog has events with places in another order. Time is that up to
// which all sources are.
func TestArrivalIsTheOrderOfTheLog(t *testing.T) {
	m := meet(t, 1)
	for i, time := range []int64{50, 20, 30} {
		m.event(0, order.Key{Time: time, Source: int32(i % 2), Offset: int64(i)})
	}
	m.mark(0, 0, 40)
	member, err := order.NewLog(m.log, meets, order.Options{Arrival: true}, 0, 1).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	var offsets []string
	for _, r := range poll(t, member, 100) {
		c, err := order.ParseCopy(header.Value(&r, header.Order))
		if err != nil || c.Forced {
			t.Errorf("%+v, %v", c, err)
		}
		offsets = append(offsets, fmt.Sprint(c.Key.Source, "@", c.Key.Offset))
	}
	if want := []string{"0@0", "1@1", "0@2"}; !slices.Equal(offsets, want) {
		t.Errorf("%q, want %q", offsets, want)
	}
	m.mark(0, 1, 60)
	m.want(member, "time 40 before 3")
}

// TestTheLoopHearsOfTime has an event that stays held while time moves on before it.
func TestTheLoopHearsOfTime(t *testing.T) {
	m := meet(t, 1)
	m.event(0, order.Key{Time: 100})
	m.mark(0, 0, 100)
	m.mark(0, 1, 10)
	member := m.join(0, 1)
	m.want(member, "time 10 before 0")
	m.mark(0, 1, 20)
	m.want(member, "time 20 before 0")
	m.mark(0, 1, 200)
	m.want(member, "0: 100 of 0@0", "time 100 before 1")
}

// TestTheLoopHearsOfRecordsThatAreOver has marks that move nothing. They are committed all the
// same, so that they are not read again.
func TestTheLoopHearsOfRecordsThatAreOver(t *testing.T) {
	m := meet(t, 1)
	m.mark(0, 0, 100)
	member := m.join(0)
	commit(t, member, m.want(member, "time 100 before 0"))
	m.mark(0, 0, 50)
	commit(t, member, m.want(member, "time 100 before 0"))
	committed, err := m.log.Committed(t.Context(), group, stream.Partition{Topic: meets})
	if err != nil || committed != 2 {
		t.Errorf("%d of 2 records are committed, %v", committed, err)
	}
}

// TestWhatIsPausedIsNotReleased pauses a partition with more to release than one Poll returns.
func TestWhatIsPausedIsNotReleased(t *testing.T) {
	m, paused := meet(t, 2), stream.Partition{Topic: meets, Index: 0}
	for i := range int64(300) {
		m.event(0, order.Key{Time: i, Offset: i})
	}
	m.mark(0, 0, 1000)
	member := m.join(0)
	for len(poll(t, member, 100)) == 0 { // until the mark is read: 200 events are left
	}
	member.Pause(paused)
	for i := range int64(20) {
		m.event(1, order.Key{Time: i, Offset: i})
	}
	m.mark(1, 0, 1000)
	for others := 0; others < 20; {
		for _, r := range poll(t, member, 10) {
			if r.Partition == paused {
				t.Fatalf("%v is paused, and released", paused)
			}
			if !header.MovesTime(&r) {
				others++
			}
		}
	}
	member.Resume(paused)
	for end := time.Now().Add(5 * time.Second); !slices.ContainsFunc(poll(t, member, 100), func(r stream.Record) bool { return r.Partition == paused }); {
		if time.Now().After(end) {
			t.Fatal("it is not released when it is resumed")
		}
	}
}

// TestPartitionsThatLeftReleaseNothing has a member lose a partition of which it holds events.
func TestPartitionsThatLeftReleaseNothing(t *testing.T) {
	m := meet(t, 2)
	for index := range int32(2) {
		for i := range int64(50) {
			m.event(index, order.Key{Time: i, Offset: i})
		}
		m.mark(index, 0, 100)
	}
	first := m.join(0)
	for seen := map[int32]bool{}; len(seen) < 2; {
		for _, r := range poll(t, first, 2) {
			seen[r.Partition.Index] = true
		}
	}
	second := m.join(0)
	var left, came []stream.Partition
	for end := time.Now().Add(5 * time.Second); len(came) == 0 && time.Now().Before(end); {
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		batch, err := first.Poll(soon, 1)
		if err == nil {
			left = append(left, batch.Revoked...)
		}
		if batch, err := second.Poll(soon, 1); err == nil {
			for _, a := range batch.Assigned {
				came = append(came, a.Partition)
			}
		}
		cancel()
	}
	if len(left) != 1 || !slices.Equal(left, came) {
		t.Fatalf("%v left, %v came", left, came)
	}
	for range 40 {
		for _, r := range poll(t, first, 3) {
			if r.Partition == left[0] {
				t.Fatalf("%v left, and is released", left[0])
			}
		}
	}
}

// TestARestartKnowsHowFarTimeWas has a mark of one source, and no event, say how far time is. A
// reader that begins behind it takes a silent source to be there too.
func TestARestartKnowsHowFarTimeWas(t *testing.T) {
	for _, restart := range []bool{false, true} {
		m := meet(t, 1)
		m.mark(0, 0, 100)
		m.event(0, order.Key{Time: 50, Source: 1, Offset: 50})
		member := m.join(0, 1, 2)
		first := poll(t, member, 100)
		if len(first) != 1 || !header.MovesTime(&first[0]) {
			t.Fatalf("%+v", first)
		}
		commit(t, member, first)
		if restart {
			if err := member.Close(); err != nil {
				t.Fatal(err)
			}
			member = m.join(0, 1, 2)
		}
		silent := order.Marks{{Key: order.Key{Time: 10, Source: 2, Offset: 10}, Silent: 90}}
		m.add(0, stream.Header{Key: header.Frontier, Value: silent.Append(nil)})
		m.mark(0, 1, 95)
		m.event(0, order.Key{Time: 70, Source: 2, Offset: 11})
		m.mark(0, 2, 200)
		m.want(member, "0: 50 of 1@50", "1: 90 of 2@11 forced", "time 95 before 2")
	}
}
