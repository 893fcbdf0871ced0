package state

import "testing"

// Neither other spaces nor later changes are cleared, nor after a crash.
func TestClearIsOfOneSpace(t *testing.T) {
	store, fs := memory(t)
	spaces := []*Space{store.Space("a"), store.Space("b"), store.Space("c")}
	for i, space := range spaces {
		put(space, uint64(i+1), "kept", []byte("1"))
	}
	if err := store.Checkpoint(t.Context(), 3, true); err != nil {
		t.Fatal(err)
	}
	put(spaces[1], 4, "dirty", []byte("2"))
	if err := spaces[1].Clear(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	put(spaces[1], 6, "later", []byte("3"))
	if err := store.Checkpoint(t.Context(), 6, true); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{Dir: "state", FS: fs.Crash(nil)})
	defer again.Close()
	for _, s := range []*Store{store, again} {
		for name, want := range map[string]string{"a": "kept", "b": "later", "c": "kept"} {
			got := dump(t, s.Space(name).Scan(nil))
			if len(got) != 1 || got[want] == "" {
				t.Errorf("%s holds %v, want %s", name, got, want)
			}
		}
	}
	if n := store.Stats(); n.Cells != 3 {
		t.Errorf("%d cells", n.Cells)
	}
}
