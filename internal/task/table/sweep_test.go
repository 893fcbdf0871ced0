package table

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/state/statekey"
)

func (k *kept) sweep() (bytes int) {
	k.t.Helper()
	if err := k.state.sweep(func(n int) error { bytes += n; return nil }); err != nil {
		k.t.Fatal(err)
	}
	return bytes
}

// indexed fails if the index of the state is not that of its keys.
func (k *kept) indexed() {
	k.t.Helper()
	id, index := k.state.ids[0], 0
	for stored := range k.stored {
		if of, _, ok := statekey.RowOf([]byte(stored)); ok && of == id+inDue {
			index++
		}
	}
	for stored, data := range k.stored {
		of, key, ok := statekey.RowOf([]byte(stored))
		if !ok || of != id || stored[0] != statekey.Row {
			continue
		}
		e, err := parseEntry([]byte(data))
		if err != nil {
			k.t.Fatal(err)
		}
		at, err := e.due()
		if err != nil {
			k.t.Fatal(err)
		}
		if _, there := k.stored[string(indexKey(id, at, key))]; there {
			index--
		} else if at < 1<<62 {
			k.t.Fatalf("%q is not in the index at %d", key, at)
		}
	}
	if index != 0 {
		k.t.Fatalf("the index has %d entries too many", index)
	}
}

// TestVersionsOfSilentKeysAreRemoved has very many keys whose rows change or are deleted, and
// then nothing but events of other keys.
func TestVersionsOfSilentKeysAreRemoved(t *testing.T) {
	const keys = 3 * agendaMax
	k := keep(t, since)
	row := func(at int) string { return fmt.Sprintf(`{"since":%d}`, at) }
	for i := range keys {
		key := fmt.Sprint("k", i)
		k.row(key, row(i%100), 0)
		switch i % 4 {
		case 0:
			k.row(key, row(200), 0)
		case 1:
			k.row(key, "", int64(300+i%50))
		}
		if i%1000 == 0 {
			k.commit()
		}
	}
	k.row("now", row(0), 0)
	k.commit()
	k.restart()
	most, sweeps := 0, 0
	for watermark := int64(3600); ; watermark += 10 {
		if got := k.find("now", watermark, watermark*1e6); got != row(0) {
			t.Fatal(got)
		}
		n := k.sweep()
		if most, sweeps = max(most, n), sweeps+1; len(k.state.sweepers[0].first) > agendaMax {
			t.Fatalf("%d entries of the index are in memory", len(k.state.sweepers[0].first))
		}
		if k.commit(); n == 0 && watermark > 5000 {
			break
		}
	}
	k.indexed()
	if most > sweepMin*200 {
		t.Errorf("up to %d bytes are changed at once", most)
	}
	entries := map[string]int{}
	for stored := range k.stored {
		if stored[0] != statekey.Row {
			continue
		}
		of, _, _ := statekey.RowOf([]byte(stored))
		entries[strings.TrimPrefix(of, k.state.ids[0])]++
	}
	if want := 3*keys/4 + 1; entries[""] != want || entries[inDue] != 0 || entries[inSwept] != 1 {
		t.Errorf("%v entries are left after %d sweeps, want %d rows", entries, sweeps, want)
	}
	if got := k.find("k1", 299, 1<<40); got != "none" {
		t.Errorf("an event finds %s of a key that was deleted", got)
	}
	for key, want := range map[string]string{"k0": row(200), "k1": "none", "k2": row(2), "unknown": "none"} {
		if got := k.find(key, 1<<30, never); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	for _, key := range []string{"k0", "k1"} { // of an event that was queued for very long
		if got := k.find(key, 100, never); !strings.Contains(got, "is no longer kept") {
			t.Errorf("%s: %s", key, got)
		}
	}
	k.row("k1", row(310), 0) // late: it ends no later than now
	if got := k.find("k1", 5000, never); got != row(310) {
		t.Errorf("the row that came back is %s", got)
	}
}

// TestAsManyKeysAreSweptAsRowsCame has more keys be due at once than memory has of the index.
func TestAsManyKeysAreSweptAsRowsCame(t *testing.T) {
	k := keep(t, since)
	for i := range 2 * agendaMax {
		for at := range 2 {
			k.row(fmt.Sprint("k", i), fmt.Sprintf(`{"since":%d}`, at), 0)
		}
	}
	k.commit()
	k.find("k0", 5000, 5000*1e6)
	steps, key := 0, 0
	err := k.state.sweep(func(int) error {
		if key++; key%1000 == 0 {
			k.commit()
			steps++
		}
		return nil
	})
	k.commit()
	if k.indexed(); err != nil || key != 2*agendaMax || steps != key/1000 || len(k.state.sweepers[0].first) != 0 {
		t.Errorf("%d keys were swept in %d steps: %v", key, steps, err)
	}
}

// TestAKeyThatIsSilentLosesItsBlocksInParts has a key with very many blocks fall silent.
func TestAKeyThatIsSilentLosesItsBlocksInParts(t *testing.T) {
	k := keep(t, since)
	pad := strings.Repeat("x", blockBytes)
	for at := range int64(10 * sweepBlocks) {
		k.row("c", fmt.Sprintf(`{"since":%d,"pad":"%s"}`, at, pad), at)
	}
	k.commit()
	before := len(k.stored)
	k.find("c", 10_000, 10_000*1e6)
	k.sweepers(1)
	k.commit()
	if removed := before - len(k.stored); removed > sweepBlocks+1 || removed < sweepBlocks-1 {
		t.Errorf("%d entries are removed at once", removed)
	}
	k.sweepers(1 << 20)
	k.commit()
	k.indexed()
	if len(k.stored) > 2 {
		t.Errorf("%d entries are left", len(k.stored))
	}
}

// sweepers sweeps so many keys.
func (k *kept) sweepers(keys int) {
	k.t.Helper()
	w, floor := &k.state.sweepers[0], k.spec.Versions.floor(k.state.watermark)
	for range keys {
		if w.horizon == never {
			if err := k.state.readIndex(0); err != nil {
				k.t.Fatal(err)
			}
		}
		if len(w.first) == 0 || w.first[0].At > floor {
			return
		}
		key := w.first[0].Key
		w.first = w.first[1:]
		if _, err := k.state.sweepKey(0, []byte(key), floor); err != nil {
			k.t.Fatal(err)
		}
	}
}

// TestBlocksHaveABoundInAnyOrder fills the blocks of a key from the end.
func TestBlocksHaveABoundInAnyOrder(t *testing.T) {
	k := keep(t, since)
	pad := strings.Repeat("x", 2*blockBytes)
	for at := int64(blocksMax + 10); at > 0; at-- {
		if k.row("c", fmt.Sprintf(`{"since":%d,"pad":"%s"}`, at, pad[:min(len(pad), int(blocksMax+10-at)<<13)]), at); at%100 == 0 {
			k.commit()
		}
	}
	k.commit()
	blocks := 0
	for stored := range k.stored {
		if bytes.Contains([]byte(stored), []byte(inBlocks)) {
			blocks++
		}
	}
	if blocks > blocksMax || k.metrics.TableVersionsLost.Load() == 0 {
		t.Errorf("%d blocks are kept, %d are counted as removed", blocks, k.metrics.TableVersionsLost.Load())
	}
	if got := k.find("c", blocksMax, never); !strings.HasPrefix(got, fmt.Sprintf(`{"since":%d`, blocksMax)) {
		t.Errorf("%.80s", got)
	}
}
