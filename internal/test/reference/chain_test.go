package reference

import (
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
			out = append(out, o.header("afterbay-id")+o.header("afterbay-position")[strings.LastIndexByte(o.header("afterbay-position"), '@'):])
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

func told(offset int, source string, seconds int64) Message {
	return Message{Topic: "activity.repartition", Offset: int64(offset), Headers: []Header{
		{"afterbay-source", source}, {"afterbay-watermark", watermarkText((start + seconds*1000) * 1000)}}}
}

func TestMergedWatermarkIsTheLeastOfAllSources(t *testing.T) {
	copied := func(offset int, seconds, watermark int64) Message {
		m := record("activity.repartition", offset, "c", seconds, `"tx":"t","customer":"c","amount":5`, told(0, "transactions/0@9", watermark).Headers...)
		return m
	}
	idle := told(6, "logins/0", 0)
	idle.Headers[1].Value = "idle"
	m := Activity([]Message{
		copied(0, 0, 50), // nothing is known of logins: not late, no timer
		told(1, "logins/0", 29),
		copied(2, 30, 60), told(3, "logins/0", 31), // 30 s after the newest event the session still goes on
		copied(4, 28, 60), // before the watermark of 31 s
		told(5, "transactions/0", 70), idle,
	}, map[string]int{"transactions": 1, "logins": 1}, first)
	mustSay(t, m, "activities", "activity:transactions/0@9:activities@0", "activity:transactions/0@9:activities@2")
	mustSay(t, m, "activity-late", "activity:transactions/0@9:activity-late@4")
	mustSay(t, m, "activity-sessions", "activity:session~2025-10-09T08:54:20Z~end~091caf22fddd20bf~c:activity-sessions@6") // and the tick of 60 s is behind it
}

func TestCopySaysWhereItIsFromAndAnnouncesEveryTenSeconds(t *testing.T) {
	m := Copy("transactions", []Message{transaction(0, "a", 0), transaction(1, "b", 4), transaction(2, "c", 5), transaction(3, "c", 5)}, first)
	var got []string
	for _, o := range m.Outputs {
		if o.Partition == 0 {
			got = append(got, o.header("afterbay-source")+" "+o.header("afterbay-watermark")[17:])
		}
	}
	want := []string{"transactions/0 15Z", "transactions/0@0 15Z", "transactions/0@1 19Z", "transactions/0 20Z", "transactions/0@2 20Z"}
	if !reflect.DeepEqual(got, want) || len(m.Outputs) != len(want)+2*4 || m.Repeated != 1 {
		t.Errorf("%d outputs, %d repeated, to partition 0 %q", len(m.Outputs), m.Repeated, got)
	}
}
