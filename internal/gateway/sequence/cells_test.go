package sequence

import (
	"reflect"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

func entries() []entry {
	return []entry{
		{at: 1, sequence: -7, correlation: "order 1"},
		{at: 2},
		{state: held, at: 1 << 60, hash: [hashBytes]byte{1, 2}, causal: "e0", record: &stream.Record{
			Time: time.UnixMicro(-5).UTC(), Key: []byte("a/b"), Value: []byte("{}"), Headers: []stream.Header{{Key: "k", Value: []byte("v")}, {Key: "l", Value: []byte{}}},
		}},
		{state: ended, record: &stream.Record{Time: time.UnixMicro(9).UTC(), Key: []byte{}, Value: []byte{}}},
	}
}

func TestStateComesBackAsItWas(t *testing.T) {
	for _, want := range entries() {
		if got, err := parseEntry(want.append(nil)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	m := meta{clock: -1, firstID: 1, nextID: 1 << 63, firstWait: 3, nextWait: 4}
	if got, err := parseMeta(m.append(nil)); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	c := client{seq: 1 << 63, sequence: 5, held: 2, heldBytes: 300}
	if got, err := parseClient(c.append(nil)); err != nil || got != c {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDamagedStateIsAnError(t *testing.T) {
	m, c := meta{clock: 5, nextID: 300}, client{seq: 300, held: 1}
	for n := range m.append(nil) {
		if _, err := parseMeta(m.append(nil)[:n]); err == nil {
			t.Errorf("meta: %d bytes were taken", n)
		}
	}
	for n := range c.append(nil) {
		if _, err := parseClient(c.append(nil)[:n]); err == nil {
			t.Errorf("client: %d bytes were taken", n)
		}
	}
	if _, err := parseMeta(append(m.append(nil), 0)); err == nil {
		t.Error("meta: a byte more was taken")
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, e := range entries() {
		f.Add(e.append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseEntry(data)
		if err != nil {
			return
		}
		if again, err := parseEntry(e.append(nil)); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v comes back as %+v, %v", e, again, err)
		}
	})
}

// TestWhatIsCommittedIsWrittenNoMore also is what keeps memory and steps small.
func TestWhatIsCommittedIsWrittenNoMore(t *testing.T) {
	at := stream.Partition{Topic: "inbox"}
	p := &partition{cells: cells{partition: at, written: map[string][]byte{}}}
	j := &judge{partitions: map[stream.Partition]*partition{at: p}}
	p.cells.put([]byte("k"), []byte("v"))
	for _, want := range []int{1, 0} {
		step := newTurn(stream.Pace{})
		step.Offsets[at] = 1
		if j.settle(step); len(step.Changes) != want {
			t.Errorf("%d changes, want %d", len(step.Changes), want)
		}
		j.committed()
	}
}
