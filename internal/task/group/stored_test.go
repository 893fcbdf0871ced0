package group

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// TestGroupsOfVersionOneAreTakenOver opens state as it was stored before groups were cut
// by the times of their members: one group for a key and value, cut now as its times say.
func TestGroupsOfVersionOneAreTakenOver(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) { g.Order, g.End, g.Idle = nil, nil, time.Minute })
	sizes := int64(0)
	for i, at := range []int64{100, 110, 200} {
		if _, err := w.add(chunk{key: "k", call: "open", part: int64(i), at: at, offset: int64(i)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.commit()
	for key, value := range w.state {
		if key[0] == statekey.Member {
			sizes += int64(len(value))
		}
	}
	first := []byte{1, 0}
	for _, n := range []int64{0, 100e6, 200e6, sizes} {
		first = binary.AppendVarint(first, n)
	}
	w.state[string(statekey.AppendGroup(nil, "parts", []byte("k"), "open"))] = first
	over := binary.AppendVarint([]byte{1, 1, byte(Idle)}, 300e6)
	over = binary.LittleEndian.AppendUint64(over, hash("7"))
	w.state[string(statekey.AppendGroup(nil, "parts", []byte("k"), "over"))] = over
	w.open()
	if n := w.counts[0].Open.Load(); n != 2 {
		t.Errorf("%d groups are open", n)
	}
	w.commit()
	w.open()
	var got []string
	for _, c := range []chunk{{part: 7, at: 250}, {part: 8, at: 250}, {part: 8, at: 320}} {
		c.key, c.call, c.offset = "k", "over", 10+c.at
		ended, err := w.add(c, (c.at-10)*1e6)
		for _, e := range ended {
			got = append(got, w.told(e))
		}
		got = append(got, fmt.Sprint(err))
	}
	want := []string{
		"k/open idle in:3:0~parts at 170 by 1: 0 missing, complete true, 2 of them [u0 u1] <0><1> level 0", "<nil>", `part "8" of call "over" comes after its group ended: idle`,
		"k/open idle in:3:2~parts at 260 by 2: 0 missing, complete true, 1 of them [u2] <2> level 1", "<nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestAnotherIdleCutsOpenGroupsAnew restarts with another idle.
func TestAnotherIdleCutsOpenGroupsAnew(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) { g.Order, g.End, g.Idle = nil, nil, time.Hour })
	for i, at := range []int64{100, 200} {
		if _, err := w.add(chunk{key: "k", call: "c", part: int64(i), at: at, offset: int64(i)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.commit()
	w.plan.Groups[0].Idle = time.Minute
	w.open()
	if n := w.counts[0].Open.Load(); n != 2 {
		t.Errorf("%d groups are open", n)
	}
	ended, err := w.add(chunk{key: "k", call: "d", at: 190, offset: 2}, 180e6)
	if err != nil || len(ended) != 1 || len(ended[0].members) != 1 {
		t.Error(ended, err)
	}
}
