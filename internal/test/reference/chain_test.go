package reference

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// record makes a record of partition 0 at start and some seconds, in which the
// event happened.
func record(topic string, offset int, key string, seconds int64, members string, headers ...Header) Message {
	ts := start + seconds*1000
	return Message{
		Topic: topic, Offset: int64(offset), Time: ts * 1000, Key: []byte(key),
		Value: fmt.Appendf(nil, `{"ts":%d,%s}`, ts, members), Headers: headers,
	}
}

func transaction(offset int, tx string, seconds int64) Message {
	return record("transactions", offset, "s", seconds, fmt.Sprintf(`"tx":"%s","terminal":"s","customer":"c","amount":1,"country":"US"`, tx))
}

func payment(offset int, customer string, amount float64, seconds int64) Message {
	return record("by-customer", offset, customer, seconds, fmt.Sprintf(
		`"tx":"t%d","terminal":"s","customer":"%s","amount":%v,"country":"US","shop_count_60s":1,"band":"low"`, offset, customer, amount))
}

func first(key []byte) int { return 0 }

// said are the ids of the outputs to a topic, each with the position it was
// written at.
func said(m Made, topic string) []string {
	var out []string
	for _, o := range m.Outputs {
		if o.Topic == topic {
			at := o.header("afterbay-position")
			if at == "" { // of a timer, where topics meet
				at = o.header("afterbay-repartition")
			}
			out = append(out, o.header("afterbay-id")+at[strings.LastIndexByte(at, '@'):])
		}
	}
	return out
}

func mustSay(t *testing.T, m Made, topic string, want ...string) {
	t.Helper()
	if got := said(m, topic); !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", topic, got, want)
	}
}

func TestDuplicateIsOfTheWindowBeforeTheNewestTime(t *testing.T) {
	m := Terminals([]Message{
		transaction(0, "a", 0), transaction(1, "a", 1), transaction(2, "b", 2),
		transaction(3, "c", 60), transaction(4, "a", 60), // a of 0 s is out of the window now,
		transaction(5, "b", 0),                         // b of 2 s is not,
		transaction(6, "d", 0), transaction(7, "d", 0), // and what is out of it is not remembered
	}, first)
	mustSay(t, m, "by-customer", "terminals:transactions/0@0:by-customer@0", "terminals:transactions/0@2:by-customer@2", "terminals:transactions/0@3:by-customer@3", "terminals:transactions/0@4:by-customer@4")
	mustSay(t, m, "terminals.dlq", "terminals:transactions/0@6:terminals.dlq@6", "terminals:transactions/0@7:terminals.dlq@7") // they are late
	if m.Repeated != 2 || m.Late != 2 || m.IDs != 3 {
		t.Errorf("%d repeated, %d late, %d ids", m.Repeated, m.Late, m.IDs)
	}
}

func TestDuplicateIsOfTheNewestIDs(t *testing.T) {
	for others, repeated := range map[int]int{49: 1, 50: 0} {
		in := []Message{transaction(0, "a", 0)}
		for i := range others {
			in = append(in, transaction(1+i, fmt.Sprint("t", i), 1))
		}
		in = append(in, transaction(1+others, "a", 1))
		if m := Terminals(in, first); m.Repeated != repeated {
			t.Errorf("%d ids in between: %d repeated, want %d", others, m.Repeated, repeated)
		}
	}
}

// The hashes in the ids of timers are those of sha256sum, of the ids of the events that
// set the timers: of by-customer/0@0, the first 16 digits are 903625d7a12aedc4.
func TestTimerFiresBeforeTheEventThatReachesIt(t *testing.T) {
	for seconds, want := range map[int64][]string{39: nil, 40: {"fraud:session~2025-10-09T08:53:50Z~end~903625d7a12aedc4~a:sessions@1"}} {
		// The watermark is 10 s behind the newest event.
		m, err := Fraud([]Message{payment(0, "a", 5, 0), payment(1, "b", 5, seconds)}, first)
		if err != nil {
			t.Fatal(err)
		}
		mustSay(t, m, "sessions", want...)
	}
}

func TestTimersOfOnePositionFireByTimeAndKey(t *testing.T) {
	m, err := Fraud([]Message{payment(0, "z", 5, 0), payment(1, "b", 5, 1), payment(2, "a", 5, 1), payment(3, "z", 5, 100)}, first)
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, m, "sessions", "fraud:session~2025-10-09T08:53:50Z~end~903625d7a12aedc4~z:sessions@3", "fraud:session~2025-10-09T08:53:51Z~end~1fd91bc836e54eed~a:sessions@3", "fraud:session~2025-10-09T08:53:51Z~end~6d1ebe34a2020f86~b:sessions@3")
	if m.Fired != 3 {
		t.Errorf("%d fired: the end of a session takes back what is due behind it", m.Fired)
	}
}

func TestTimerSetByATimerIsDueAtItsTime(t *testing.T) {
	var in []Message
	for i := range 4 { // the session goes on until 120 s, with a tick at 60 s
		in = append(in, payment(i, "a", 5, int64(i*30)))
	}
	in = append(in, payment(4, "b", 5, 129), payment(5, "b", 5, 129)) // watermark at 119 s
	m, err := Fraud(in, first)
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, m, "sessions", "fraud:session~2025-10-09T08:54:20Z~tick~903625d7a12aedc4~a:sessions@3") // 90 s less 10 s
	in = append(in, payment(6, "b", 5, 131))
	if m, err = Fraud(in, first); err != nil {
		t.Fatal(err)
	}
	mustSay(t, m, "sessions", "fraud:session~2025-10-09T08:54:20Z~tick~903625d7a12aedc4~a:sessions@3",
		"fraud:session~2025-10-09T08:55:20Z~end~2b2a8a9843b51367~a:sessions@6")
}

func TestFailedCallChangesNothing(t *testing.T) {
	m, err := Fraud([]Message{payment(0, "a", 0.98, 0), payment(1, "a", 5, 1)}, first)
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, m, "fraud.dlq", "fraud:by-customer/0@0:fraud.dlq@0")
	if want := map[string]string{"n": "1", "spent": "5", "kind": "low", "from": "1760000001000000"}; len(m.Functions) != 1 || !reflect.DeepEqual(m.Functions[0].Values, want) {
		t.Errorf("kept %v", m.Functions)
	}
}

func TestRouteTakesTheFirstCaseAndTheDefaultOfANestedOneIsADeadLetter(t *testing.T) {
	m, err := Fraud([]Message{payment(0, "a", -59, 0), payment(1, "a", -60, 0), payment(2, "a", -249, 0), payment(3, "a", -250, 0), payment(4, "a", 0, 0)}, first)
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, m, "refunds", "fraud:by-customer/0@1:refunds@1", "fraud:by-customer/0@2:refunds@2", "fraud:by-customer/0@4:refunds@4")
	mustSay(t, m, "fraud.dlq", "fraud:by-customer/0@3:fraud.dlq@3")
}

// copyOf makes a copy at a number of activity.repartition: of an event at start and some
// seconds, at its offset in partition 0 of a topic, whose place is at seconds of its own.
func copyOf(number int, topic string, offset, seconds, place int64, late bool) Message {
	at, source := (start+place*1000)*1000, fmt.Sprintf("%s/0@%d", topic, offset)
	return record("activity.repartition", number, "c", seconds, `"tx":"t","user":"c","customer":"c","amount":5,"ok":true,"at":"2025-10-09T08:53:20Z"`,
		Header{"afterbay-source", source}, Header{"afterbay-order", orderOf(topic, 0, offset, at, at, late)})
}

// marked makes the mark of partition 0 of a topic: it is behind an offset, at a place of so many
// seconds, and silent until others. Below 0 it says nothing of silence.
func marked(number int, topic string, offset, place, silent int64) Message {
	var b []byte
	source := int64(0)
	if topic == "transactions" {
		source = 1 << 20
	}
	for _, v := range []int64{(start + place*1000) * 1000, source, offset} {
		b = binary.AppendVarint(b, v)
	}
	until := uint64(0)
	if silent >= 0 {
		until = uint64(start+silent*1000)*1000 + 1
	}
	b = binary.AppendUvarint(b, until)
	return Message{Topic: "activity.repartition", Offset: int64(number), Headers: []Header{{"afterbay-frontier", string(b)}}}
}

// turns are the numbers that the outputs to a topic have in the order, each with its source.
func turns(m Made, topic string) (list []string) {
	for _, o := range m.Outputs {
		if o.Topic == topic {
			list = append(list, o.header("afterbay-repartition")+" "+o.header("afterbay-position"))
		}
	}
	return list
}

var sources = map[string]int{"transactions": 1, "logins": 1}

func TestCopiesHaveTheirTurnInTheOrderOfTheirPlaces(t *testing.T) {
	m := Activity([]Message{
		copyOf(0, "transactions", 0, 30, 30, false),
		copyOf(1, "logins", 0, 5, 30, true),        // late in its own partition; the topic that is first by name is first
		copyOf(2, "transactions", 1, 0, 10, false), // and not late, whatever the others are at
		marked(3, "logins", 0, 30, -1), marked(4, "transactions", 1, 30, -1),
		copyOf(5, "logins", 1, 1, 1, false), // its source is past it: its turn is where the slowest source is
	}, sources, first)
	want := []string{"0@0 transactions/0@1", "0@2 logins/0@1", "0@3 transactions/0@0"}
	if got := turns(m, "activities"); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := turns(m, "activity-late"); !reflect.DeepEqual(got, []string{"0@1 logins/0@0"}) || m.Late != 1 {
		t.Errorf("%d late: %q", m.Late, got)
	}
}

// The watermark is 20 s before the place to which all sources are, or that of an event; a
// session ends 30 s after its newest event.
func TestMergedWatermarkIsThatOfThePlaceInTheOrder(t *testing.T) {
	event := copyOf(0, "transactions", 0, 0, 0, false)
	for _, c := range []struct {
		behind []Message
		ended  bool
	}{
		{[]Message{marked(1, "transactions", 0, 50, -1)}, false}, // nothing is known of logins
		{[]Message{marked(1, "transactions", 0, 60, -1), marked(2, "logins", 0, 49, -1)}, false},
		{[]Message{marked(1, "transactions", 0, 60, -1), marked(2, "logins", 0, 50, -1)}, true},
		{[]Message{marked(1, "transactions", 0, 50, -1), marked(2, "logins", -1, 0, 49)}, false}, // silent, as far as its clock
		{[]Message{marked(1, "transactions", 0, 50, -1), marked(2, "logins", -1, 0, 50)}, true},
		{[]Message{marked(1, "transactions", 0, 49, -1), marked(2, "logins", -1, 0, 90)}, false}, // and no further than the others
	} {
		m := Activity(append([]Message{event}, c.behind...), sources, first)
		if got := len(said(m, "activity-sessions")) == 1; got != c.ended {
			t.Errorf("%+v: the session ended: %v", c, got)
		}
	}
}

func TestCopySaysWhereItIsFromAndItsPlace(t *testing.T) {
	ahead := transaction(4, "e", 30) // by the clock of its producer; it was appended at 11 s
	ahead.Time -= 19 * second
	m := Copy("transactions", []Message{
		transaction(0, "a", 0), transaction(1, "b", 10), transaction(2, "b", 10), // one that was there before
		transaction(3, "c", 4), ahead, transaction(5, "d", 6),
	}, first)
	var got []string
	for _, o := range m.Outputs {
		rest := []byte(o.header("afterbay-order"))
		k := takeSpot(&rest)
		before, n := binary.Varint(rest)
		got = append(got, fmt.Sprintf("%s %d/%d@%d %d %d", o.header("afterbay-source"), (k.at/1000-start)/1000, k.source, k.offset, before/second, rest[n]))
	}
	want := []string{
		"transactions/0@0 0/1048576@0 0 0", "transactions/0@1 10/1048576@1 0 0",
		"transactions/0@3 10/1048576@3 6 1", "transactions/0@4 11/1048576@4 0 0", "transactions/0@5 11/1048576@5 5 0",
	}
	if !reflect.DeepEqual(got, want) || m.Repeated != 1 {
		t.Errorf("%d repeated, copies\n%q, want\n%q", m.Repeated, got, want)
	}
}
