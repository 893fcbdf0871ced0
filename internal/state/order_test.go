package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// TestCellsAreHandedOverInTheOrderOfKeys checks that sorting loses no cell, adds
// none, and leaves alone those that a batch has.
func TestCellsAreHandedOverInTheOrderOfKeys(t *testing.T) {
	r := newRand(t)
	store, _ := memory(t)
	s := store.Space("s")
	for i := range 3*chunkCells + 7 {
		put(s, uint64(i+1), fmt.Sprint("users/", r.IntN(1000), "/", r.IntN(1_000_000)), []byte("value"))
	}
	put(s, 5000, "", []byte("the empty key"))
	s.swapDirty()
	s.taken = 5
	taken, before := slices.Clone(s.pending[:5]), slices.Sorted(slices.Values(s.pending))
	s.order()
	if !slices.Equal(s.pending[:5], taken) {
		t.Error("cells that a batch has were moved")
	}
	if !slices.Equal(slices.Sorted(slices.Values(s.pending)), before) {
		t.Error("the cells are not those that were pending")
	}
	if !slices.IsSortedFunc(s.pending[5:], func(a, b uint32) int { return bytes.Compare(s.table.key(a), s.table.key(b)) }) {
		t.Error("the cells are not in the order of their keys")
	}
}
