package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// idsIn returns the ids in the first partitions of a topic.
func idsIn(t *testing.T, log stream.Log, topic string, partitions int32) (ids []string) {
	t.Helper()
	for i := range partitions {
		for _, r := range readPartition(t, log, stream.Partition{Topic: topic, Index: i}) {
			ids = append(ids, header.Get(&r, header.ID))
		}
	}
	return ids
}

// emits is a pipeline over a topic that writes what emits say.
func emits(name string, steps ...steps.Emit) lang.Pipeline {
	p := payments()
	p.Name, p.Steps = name, nil
	for _, e := range steps {
		e.Names = []string{"card"}
		p.Steps = append(p.Steps, &e)
	}
	return p
}

func TestPipelinesOverOneTopicThatWriteOneHaveIDsOfTheirOwn(t *testing.T) {
	log := run(t, emits("a", steps.Emit{Topic: "out"}), payment("c", 1, 0), stream.Record{Key: []byte("c"), Value: []byte("{")})
	runOn(t, log, emits("b", steps.Emit{Topic: "out"}))
	if d := cmp.Diff([]string{"a:in/0@0:out", "b:in/0@0:out"}, idsIn(t, log, "out", 1)); d != "" {
		t.Error(d)
	}
	a, b := idsIn(t, log, "a.dlq", 1), idsIn(t, log, "b.dlq", 1)
	if len(a) != 1 || len(b) != 1 || a[0] == b[0] {
		t.Errorf("the ids of the dead letters are %q and %q", a, b)
	}
}

// TestStepsThatAreAddedRenumberNoID adds steps above others that write the same topics.
func TestStepsThatAreAddedRenumberNoID(t *testing.T) {
	old := []steps.Emit{{Topic: "out"}, {Topic: "more"}, {Topic: "out", Name: "again"}}
	before := run(t, emits("p", old...), payment("c", 1, 0))
	added := append([]steps.Emit{{Topic: "out", Name: "above"}, {Topic: "more", Name: "own", ID: "card"}, {Topic: "other"}}, old...)
	after := run(t, emits("p", added...), payment("c", 1, 0))
	for _, topic := range []string{"out", "more"} {
		now := idsIn(t, after, topic, 1)
		for _, id := range idsIn(t, before, topic, 1) {
			if !slices.Contains(now, id) {
				t.Errorf("%s is gone: %q", id, now)
			}
		}
	}
}

// TestATimerThatIsSetAgainHasAnIDOfItsOwn has a late event set a timer for the time at
// which it fired, and the timer set itself for the same time.
func TestATimerThatIsSetAgainHasAnIDOfItsOwn(t *testing.T) {
	p := visitPipeline()
	hour := func(c *udf.Context) error {
		c.SetTimer("hour", time.Unix(3600, 0))
		if c.Timer == "" {
			c.SetInt("clicks", 1)
		} else {
			c.Emit(udf.Output{Topic: "visits", Value: []byte("1")})
		}
		return nil
	}
	p.Code.Functions = map[string]udf.Function{"visits": {Version: 1, Keyed: true, Event: hour, Timer: hour}}
	ids := idsIn(t, run(t, p, click("ann", 0), click("bob", 4000), click("ann", 3999), click("bob", 4001), click("bob", 4001)), "visits", 1)
	slices.Sort(ids)
	if n := len(ids); n < 4 || len(slices.Compact(ids)) != n {
		t.Errorf("%d outputs of timers have the ids %q", n, ids)
	}
}

// TestTimersOfAKeyInTwoPartitionsHaveIDsOfTheirOwn has producers that write a key to
// several partitions.
func TestTimersOfAKeyInTwoPartitionsHaveIDsOfTheirOwn(t *testing.T) {
	p := visitPipeline()
	p.Input.Partitions = 2
	var events []stream.Record
	for _, at := range []int{0, 100} {
		for i := range int32(2) {
			r := click("ann", at)
			r.Partition.Index = i
			events = append(events, r)
		}
	}
	log := run(t, p, events...)
	var want []string
	for _, event := range []string{"clicks/0@0", "clicks/1@0"} {
		want = append(want, fmt.Sprintf("visits:visits~1970-01-01T00:00:30Z~end~%x~ann:visits", operator.HashOf(event)))
	}
	if d := cmp.Diff(want, idsIn(t, log, "visits", 2)); d != "" {
		t.Error(d)
	}
}

// TestOutputsOfACallHaveNames has a function write two outputs to a topic.
func TestOutputsOfACallHaveNames(t *testing.T) {
	for second, want := range map[string]string{"b": "", "": "two outputs to", "a:b": "use letters"} {
		p := visitPipeline()
		p.Steps[0].(*steps.Call).Name = "visit"
		p.Code.Functions = map[string]udf.Function{"visits": {Version: 1, Event: func(c *udf.Context) error {
			c.SetInt("clicks", 1)
			c.Emit(udf.Output{Topic: "visits", Value: []byte("1")})
			c.Emit(udf.Output{Topic: "visits", Name: second, Value: []byte("2")})
			return nil
		}}}
		log := run(t, p, click("ann", 0))
		if want == "" {
			if d := cmp.Diff([]string{"visits:clicks/0@0:visits#visit", "visits:clicks/0@0:visits#visit/b"}, idsIn(t, log, "visits", 1)); d != "" {
				t.Error(d)
			}
			continue
		}
		letters := readPartition(t, log, stream.Partition{Topic: "visits.dlq"})
		if len(letters) != 1 || !strings.Contains(header.Get(&letters[0], header.Error), want) {
			t.Errorf("name %q: %v", second, letters)
		}
	}
}

// TestAnEmptyIDIsNone has a producer write the header without a value, and a file
// compute an id that is empty.
func TestAnEmptyIDIsNone(t *testing.T) {
	e := payment("c", 1, 0)
	e.Headers = []stream.Header{{Key: header.ID}}
	log := run(t, emits("p", steps.Emit{Topic: "out"}, steps.Emit{Topic: "own", ID: `card == "c" ? "" : card`}), e, payment("d", 1, 0))
	if d := cmp.Diff([]string{"p:in/0@0:out", "p:in/0@1:out"}, idsIn(t, log, "out", 1)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"d"}, idsIn(t, log, "own", 1)); d != "" {
		t.Error(d)
	}
	letters := readPartition(t, log, stream.Partition{Topic: "p.dlq"})
	if len(letters) != 1 || header.Get(&letters[0], header.Event) != "in/0@0" || !strings.Contains(header.Get(&letters[0], header.Error), "id: the text is empty") {
		t.Errorf("%v", letters)
	}
}

func TestAnIDThatIsTooLargeIsItsHash(t *testing.T) {
	e := payment("c", 1, 0)
	e.Headers = []stream.Header{{Key: header.ID, Value: []byte(strings.Repeat("i", 600_000))}}
	p := emits("p", steps.Emit{Topic: "out"}, steps.Emit{Topic: "own", ID: `card + split(meta.id, "x")[0]`})
	log := run(t, p, e)
	for _, topic := range []string{"out", "own"} {
		if ids := idsIn(t, log, topic, 1); len(ids) != 1 || len(ids[0]) != len("sha256:")+64 || !strings.HasPrefix(ids[0], "sha256:") {
			t.Errorf("%s: %.100q", topic, ids)
		}
	}
}
