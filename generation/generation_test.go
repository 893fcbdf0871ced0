package generation_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/afterbay/afterbay/generation"
	"github.com/afterbay/afterbay/statekey"
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

func TestGenerationGoesUpWithTheMeaningAndOtherCellsAreRefused(t *testing.T) {
	p := stream.Partition{Topic: "in"}
	m := generation.Meaning{Pipeline: "fraud", Cells: "cells", Digest: "one"}
	if n, fresh, err := m.Load(p, view(nil)); n != 1 || !fresh || err != nil {
		t.Errorf("of no state: %d, %t, %v", n, fresh, err)
	}
	stored := view(m.Append(nil, 300))
	if n, fresh, err := m.Load(p, stored); n != 300 || fresh || err != nil {
		t.Errorf("of its own: %d, %t, %v", n, fresh, err)
	}
	m.Digest = "two"
	if n, fresh, err := m.Load(p, stored); n != 301 || !fresh || err != nil {
		t.Errorf("of another meaning: %d, %t, %v", n, fresh, err)
	}
	m.Cells = "others"
	var other *generation.ErrOtherFeatures
	if _, _, err := m.Load(p, stored); !errors.As(err, &other) || other.Pipeline != "fraud" {
		t.Errorf("of other cells: %v", err)
	}
	for _, broken := range []string{"", "\xff", "\x01cells"} {
		if _, _, err := m.Load(p, view(broken)); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}
