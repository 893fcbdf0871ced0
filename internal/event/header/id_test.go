package header_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

func ExampleAppendID() {
	event := string(header.AppendPosition(nil, stream.Partition{Topic: "payments"}, 17))
	first := header.AppendID(nil, "fraud", event, "decisions", "", "")
	fmt.Printf("%s\n%s\n", first, header.AppendID(nil, "audit", string(first), "notes", "review", ""))
	// Output:
	// fraud:payments/0@17:decisions
	// audit:fraud:payments/0@17:decisions:notes#review
}

// TestIDsAreReadAsWritten has events of ids with all characters that end a part.
func TestIDsAreReadAsWritten(t *testing.T) {
	seen := map[string]header.OutputID{}
	for _, event := range []string{"in/0@5", "p:in/0@5:mid#extra/one", "in/0@5~extra", ":", "#", "a:b#c/d~e", "\xff", "p", "::"} {
		for _, topic := range []string{"out", "a.b-c_d"} {
			for _, step := range []string{"", "extra"} {
				for _, output := range []string{"", "one"} {
					want := header.OutputID{Pipeline: "p", Event: event, Topic: topic, Step: step, Output: output}
					id := string(header.AppendID([]byte("before"), "p", event, topic, step, output)[len("before"):])
					if got, ok := header.ParseID(id); !ok || got != want {
						t.Errorf("%q is read as %+v, want %+v", id, got, want)
					}
					if other, twice := seen[id]; twice {
						t.Errorf("%q is the id of %+v and %+v", id, want, other)
					}
					seen[id] = want
				}
			}
		}
	}
	for _, id := range []string{"", "in/0@5", "acme/ann/e1", "p:in/0@5", ":in/0@5:out", "p:in/0@5:", "sha256:00"} {
		if got, ok := header.ParseID(id); ok {
			t.Errorf("%q is read as %+v", id, got)
		}
	}
}

func TestALargeIDIsItsHash(t *testing.T) {
	most := strings.Repeat("e", header.IDMaxBytes-len("p::out"))
	if got := header.AppendID(nil, "p", most, "out", "", ""); string(got) != "p:"+most+":out" {
		t.Errorf("%q", got)
	}
	a, b := header.AppendID([]byte("before"), "p", most+"a", "out", "", ""), header.AppendID(nil, "p", most+"b", "out", "", "")
	if len(b) != len("sha256:")+64 || !strings.HasPrefix(string(a), "beforesha256:") || string(a[len("before"):]) == string(b) {
		t.Errorf("%q, %q", a, b)
	}
}

func TestTimersHaveIDsOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, setBy := range [][8]byte{{}, {7: 1}} {
		for _, function := range []string{"f", "g"} {
			for _, names := range [][2]string{{"a", "b"}, {"a~", "b"}, {"a", "~b"}, {"a~b", ""}, {"a%7E", "b"}, {"a%", "b"}, {"", "a~b"}} {
				for _, due := range []int64{0, 1, 1_767_261_630_000_000} {
					id, of := header.OfTimer(function, due, names[0], setBy, names[1]), fmt.Sprint(setBy, function, names, due)
					if other, twice := seen[id]; twice {
						t.Errorf("%q is of %s and %s", id, of, other)
					}
					seen[id] = of
				}
			}
		}
	}
	if got := header.OfTimer("session", 1_767_261_630_000_000, "end", [8]byte{1, 0xab}, "ann"); got != "session~2026-01-01T10:00:30Z~end~01ab000000000000~ann" {
		t.Error(got)
	}
}

func TestTheIDOfARecordIsTheOneThatItBrought(t *testing.T) {
	id := func(v string) stream.Header { return stream.Header{Key: header.ID, Value: []byte(v)} }
	source := func(v string) stream.Header { return stream.Header{Key: header.Source, Value: []byte(v)} }
	for _, c := range []struct {
		headers []stream.Header
		want    string
	}{
		{nil, ""},
		{[]stream.Header{id("e1")}, "e1"},
		{[]stream.Header{source("in/0@5"), id("e1")}, "e1"},
		{[]stream.Header{source("in/0@5")}, "in/0@5"},
		{[]stream.Header{source("in/0@5"), id("")}, "in/0@5"},
		{[]stream.Header{id("")}, ""},
		{[]stream.Header{source("in/0")}, ""}, // announces a watermark
	} {
		if got := header.IDOf(&stream.Record{Headers: c.headers}); string(got) != c.want {
			t.Errorf("%q: %q, want %q", c.headers, got, c.want)
		}
	}
}
