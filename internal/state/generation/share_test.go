package generation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

const every = int64(1) << hash.Bits

func drawBelow(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, every), rapid.SampledFrom([]int64{0, 1, every / 2, every - 1, every})).Draw(t, label)
}

// TestAGrowingShareKeepsItsKeys compares two shares of a candidate: no key goes back to the live
// generation, and each key that moves has its hash between the two.
func TestAGrowingShareKeepsItsKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{1,8}@[1-9]`).Draw(t, "candidate")
		small, large := drawBelow(t, "one"), drawBelow(t, "other")
		small, large = min(small, large), max(small, large)
		before, after := Share{Candidate: name, Below: small}, Share{Candidate: name, Below: large}
		for _, key := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 1, 50).Draw(t, "keys") {
			had, has, at := before.Has(key), after.Has(key), hash.Of(key, name)
			if had && !has {
				t.Fatalf("key %q went back", key)
			}
			if moved := at >= small && at < large; moved != (has && !had) {
				t.Fatalf("key %q with hash %d: had it %t, has it %t", key, at, had, has)
			}
		}
	})
	for _, key := range []string{"", "a", "b"} {
		if none, all := (&Share{Candidate: "m@1"}), (&Share{Candidate: "m@1", Below: every}); none.Has([]byte(key)) || !all.Has([]byte(key)) || new(Share).Has([]byte(key)) {
			t.Errorf("key %q is in an empty share, or not in a whole one", key)
		}
	}
}

// TestTheShareOfAnOffsetIsTheNewestBeforeIt compares At with a walk over all shares.
func TestTheShareOfAnOffsetIsTheNewestBeforeIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all Shares
		at := stream.Offset(0)
		for range rapid.IntRange(0, 20).Draw(t, "shares") {
			at += stream.Offset(rapid.IntRange(0, 3).Draw(t, "later"))
			var err error
			if all, err = all.Add(Share{Candidate: "m@2", Generation: 2, Below: drawBelow(t, "below"), Offset: at}); err != nil {
				t.Fatal(err)
			}
		}
		for look := range at + 3 {
			var want Share
			for _, s := range all {
				if s.Offset <= look {
					want = s
				}
			}
			if d := cmp.Diff(want, all.At(look)); d != "" {
				t.Fatalf("at offset %d: %s", look, d)
			}
		}
	})
}

// TestSharesThatCannotHoldAreRefused adds shares that are malformed or contradict the earlier ones.
func TestSharesThatCannotHoldAreRefused(t *testing.T) {
	good := Share{Candidate: "m@2", Generation: 2, Below: 7, Partition: 1, Offset: 5}
	for name, change := range map[string]func(s *Share){
		"no name":             func(s *Share) { s.Candidate = "" },
		"long name":           func(s *Share) { s.Candidate = strings.Repeat("m", MaxCandidate+1) },
		"first group":         func(s *Share) { s.Generation = 0 },
		"negative share":      func(s *Share) { s.Below = -1 },
		"more than all":       func(s *Share) { s.Below = every + 1 },
		"negative partition":  func(s *Share) { s.Partition = -1 },
		"negative offset":     func(s *Share) { s.Offset = -1 },
		"other partition":     func(s *Share) { s.Partition = 2 },
		"earlier":             func(s *Share) { s.Offset = 4 },
		"second candidate":    func(s *Share) { s.Candidate = "m@3" },
		"changed in place":    func(s *Share) { s.Generation = 3 },
		"another one's share": func(s *Share) { s.Candidate, s.Generation = "n@1", 3 },
	} {
		bad := good
		change(&bad)
		all, err := Shares{good}.Add(bad)
		if !errors.Is(err, ErrShare) || len(all) != 1 {
			t.Errorf("%s: %d shares, %v", name, len(all), err)
		}
	}
	none := good
	none.Below = 0
	next := Share{Candidate: "m@3", Generation: 3, Below: 7, Partition: 1, Offset: 5}
	all, err := Shares{good, none}.Add(next)
	if err != nil || cmp.Diff(next, all.At(5)) != "" {
		t.Errorf("after share 0, another candidate has %v: %v", all.At(5), err)
	}
	full := make(Shares, MaxShares)
	for i := range full {
		full[i] = good
	}
	if _, err := full.Add(good); !errors.Is(err, ErrShare) {
		t.Errorf("a share beyond the limit: %v", err)
	}
}

// TestSharesAreReadFromTheHistory stores shares and a switch, and reads them.
func TestSharesAreReadFromTheHistory(t *testing.T) {
	log, at := memory.New(memory.Options{}), time.Unix(1, 0).UTC()
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: Topic("p"), Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	one := Share{Candidate: "m@2", Generation: 2, Below: 7, Partition: 1, Offset: 5, Time: at}
	two := one
	two.Below, two.Offset = 9, 8
	for _, e := range []entry{{Share: &one}, {Share: &two}, {Live: &Live{Generation: 2, Partition: 1, Offset: 12, Time: at}}} {
		if err := log.Append(t.Context(), e.record(stream.Partition{Topic: Topic("p"), Index: 1})); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Read(t.Context(), log, "p")
	if err != nil {
		t.Fatal(err)
	}
	want := map[stream.Offset]int64{4: 0, 5: 7, 7: 7, 8: 9, 11: 9, 12: 0, 100: 0} // the live generation decides all from 12 on
	for offset, below := range want {
		if s := h.Shares[1].At(offset); s.Below != below {
			t.Errorf("at offset %d the share is %+v, want below %d", offset, s, below)
		}
	}
	if len(h.Shares[0]) != 0 {
		t.Errorf("the other partition has %v", h.Shares[0])
	}
}

// TestMalformedSharesOfTheHistoryAreRefused reads a history with a record that is no valid share.
func TestMalformedSharesOfTheHistoryAreRefused(t *testing.T) {
	for _, value := range []string{
		`{"share":{"candidate":"m@2","generation":2,"below":-1,"partition":0,"offset":1}}`,
		`{"share":{"candidate":"m@2","generation":2,"below":1.5,"partition":0,"offset":1}}`,
		`{"share":{"candidate":"m@2","generation":2,"below":1,"partition":1,"offset":1}}`,
		`{"share":{}}`,
		`{"share":"5%"}`,
		fmt.Sprintf(`{"share":{"candidate":"m@2","generation":2,"below":%d,"partition":0,"offset":1}}`, every+1),
	} {
		if _, err := readValue(t.Context(), value); err == nil {
			t.Errorf("%s is a share", value)
		}
	}
	h, err := readValue(t.Context(), `{"share":{"candidate":"m@2","generation":2,"below":1,"partition":0,"offset":1}}`)
	if err != nil || len(h.Shares[0]) != 1 {
		t.Errorf("a valid share is refused: %v", err)
	}
}

// readValue reads a history that has one record, in partition 0.
func readValue(ctx context.Context, value string) (*History, error) {
	log, p := memory.New(memory.Options{}), stream.Partition{Topic: Topic("p")}
	if err := log.CreateTopic(ctx, stream.Topic{Name: p.Topic, Partitions: 1}); err != nil {
		return nil, err
	}
	if err := log.Append(ctx, stream.Record{Partition: p, Value: []byte(value)}); err != nil {
		return nil, err
	}
	return Read(ctx, log, "p")
}

// FuzzShares reads arbitrary records as a history. What is read as a share is valid, and is encoded
// as the same share.
func FuzzShares(f *testing.F) {
	for _, seed := range []string{`{"share":{"candidate":"m@2","generation":2,"below":1,"partition":0,"offset":1}}`, `{"share":{}}`, `{}`, `x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		h, err := readValue(t.Context(), value)
		if err != nil || len(h.Shares[0]) == 0 {
			return
		}
		s := h.Shares[0][0]
		text, err := json.Marshal(entry{Share: &s})
		if err != nil {
			return // a year that JSON cannot have
		}
		again, err := readValue(t.Context(), string(text))
		if err != nil || len(again.Shares[0]) != 1 || cmp.Diff(s, again.Shares[0][0]) != "" {
			t.Errorf("%s is %v of %s", value, err, text)
		}
	})
}
