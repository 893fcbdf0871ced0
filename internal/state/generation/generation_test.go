package generation_test

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// view is a state of one entry at most.
type view []byte

func (v view) Get(key []byte) ([]byte, error) {
	if string(key) != string(rune(statekey.Generation)) {
		return nil, errors.New("another key")
	}
	return v, nil
}

func (v view) Scan([]byte) iter.Seq2[stream.Entry, error] { return nil }

var (
	place = stream.Partition{Topic: "in"}
	fraud = generation.Fingerprint{Pipeline: "fraud", Outputs: "one", Order: "order", State: []generation.Kept{
		{Kind: "input", Name: "in", Hash: "k1"}, {Kind: "feature", Name: "past", Hash: "p1"}, {Kind: "feature", Name: "spend", Hash: "s1"}, {Kind: "group", Name: "parts", Hash: "g1"}, {Kind: "table", Name: "users", Hash: "t1"},
	}}
)

func TestGenerationGoesUpWithOutputs(t *testing.T) {
	f := fraud
	if n, change, err := f.Load(place, view(nil)); n != 1 || change != generation.NewOutputs || err != nil {
		t.Errorf("of no state: %d, %v, %v", n, change, err)
	}
	stored := view(f.Append(nil, 300))
	if n, change, err := f.Load(place, stored); n != 300 || change != generation.Same || err != nil {
		t.Errorf("of its own: %d, %v, %v", n, change, err)
	}
	f.Order = "another"
	if n, change, err := f.Load(place, stored); n != 300 || change != generation.NewOrder || change.Queued() == "" || err != nil {
		t.Errorf("of another order: %d, %v, %v", n, change, err)
	}
	f.Outputs = "two"
	if n, change, err := f.Load(place, stored); n != 301 || change != generation.NewOutputs || change.Queued() == "" || err != nil {
		t.Errorf("of other outputs: %d, %v, %v", n, change, err)
	}
	for _, broken := range []string{"", "\xff", "\x01state", "\x011 one", "\x011 one order\nfeature", "\x011 one order\nfeature f1 past", "\x011 one order\n"} {
		if _, _, err := f.Load(place, view(broken)); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

// TestStateOfAnotherMeaningIsRefusedByName stores the state of a pipeline and changes
// parts of it. The refusal names the part that changed.
func TestStateOfAnotherMeaningIsRefusedByName(t *testing.T) {
	kept := func(list ...generation.Kept) []generation.Kept { return list }
	in, past, spend, parts, users := fraud.State[0], fraud.State[1], fraud.State[2], fraud.State[3], fraud.State[4]
	other := func(k generation.Kept) generation.Kept { k.Hash = "other"; return k }
	for _, c := range []struct {
		state []generation.Kept
		what  string
	}{
		{kept(in, other(past), spend, parts, users), `another feature "past"`},
		{kept(in, spend, parts, users), `the feature "past", which the file lacks`},
		{kept(in, past, spend, generation.Kept{Kind: "feature", Name: "gap"}, parts, users), `no feature "gap"`},
		{kept(in, spend, past, parts, users), `features in another order: past, spend`},
		{kept(other(in), past, spend, parts, users), `another input "in"`},
		{kept(in, generation.Kept{Kind: "input", Name: "more"}, past, spend, parts, users), `no input "more"`},
		{kept(in, past, spend, other(parts), users), `another group "parts"`},
		{kept(in, past, spend), ""}, // what is stored of groups and tables is found by their names
		{kept(in, past, spend, parts, users, generation.Kept{Kind: "dedupe", Name: "in"}), ""},
	} {
		f := fraud
		f.State = c.state
		_, _, err := f.Load(place, view(fraud.Append(nil, 1)))
		var other *generation.ErrOtherState
		if c.what != "" && (!errors.As(err, &other) || other.What != c.what || !strings.Contains(err.Error(), `of pipeline "fraud" beside in/0 was written with `+c.what+": undo")) || c.what == "" && err != nil {
			t.Errorf("%v: %v, want %s", c.state, err, c.what)
		}
	}
}

// TestStateOfOtherVersionsIsRefused reads what versions without a fingerprint stored,
// and what a later one may.
func TestStateOfOtherVersionsIsRefused(t *testing.T) {
	hash := strings.Repeat("0f", 16)
	for stored, want := range map[string]error{
		"\x01" + hash + " " + hash: stream.ErrOldFormat,
		"\x04* ":                   stream.ErrOldFormat,
		"\x012 one two three":      generation.ErrNewFormat,
	} {
		f := fraud
		if _, _, err := f.Load(place, view(stored)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", stored, err, want)
		}
		if _, _, err := generation.ParseStored([]byte(stored)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", stored, err, want)
		}
	}
}
