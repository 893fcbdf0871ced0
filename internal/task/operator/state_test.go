package operator

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/text/chunk"
	"github.com/afterbay/afterbay/udf"
)

func TestStoredStateIsReadBackAsItWas(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		k := &State{}
		for i := range rng.IntN(5) {
			k.Timers = append(k.Timers, Timer{Name: fmt.Sprint("t", i), At: rng.Int64N(1e15) - 5e14, After: rng.Int64N(1000), SetBy: HashOf(fmt.Sprint(rng.Uint64()))})
		}
		slices.SortFunc(k.Timers, Timer.Compare)
		for i := range rng.IntN(4) {
			if k.Values == nil {
				k.Values = map[string][]byte{}
			}
			k.Values[fmt.Sprint("v", i)] = []byte(strings.Repeat("x", rng.IntN(300)))
		}
		got, err := ParseState(k.Append(nil))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if d := cmp.Diff(k, got); d != "" && !(k.Empty() && got.Empty()) {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

// TestStateOfAKeyHoldsTheMostChunks keeps what a chunk keeps of the largest document.
func TestStateOfAKeyHoldsTheMostChunks(t *testing.T) {
	most := version{known: true, ids: make([]chunkID, chunk.ChunksMax)}
	if err := most.state(nil).check(); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	k := &State{Timers: []Timer{{Name: "end", At: 7, After: 3}}, Values: map[string][]byte{"n": {1, 2}}}
	f.Add(k.Append(nil))
	f.Add([]byte{255, 255, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := ParseState(data)
		if err != nil {
			return
		}
		again, err := ParseState(k.Append(nil))
		if err != nil {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
		if d := cmp.Diff(k, again); d != "" && !k.Empty() {
			t.Fatal(d)
		}
	})
}

// call runs f for an event of a key with the given state.
func call(f func(*udf.Context) error, state *State) (Effects, error) {
	schema := &value.Schema{}
	in, _ := schema.Add("text", value.Type{Kind: value.String, Optional: true})
	out, _ := schema.Add("n", value.Type{Kind: value.Number})
	function := udf.Function{Version: 1, Keyed: true, Event: f}
	return (&Invocation{
		ID: "in/0@41", Key: "k", Time: time.Unix(100, 0), Offset: 41, Row: &schema.NewRows(1)[0],
		Inputs: []value.Slot{in}, Outputs: []value.Slot{out}, Topics: []string{"out"}, State: state,
	}).Call(&function)
}

func TestFailedCallHasNoEffects(t *testing.T) {
	before := &State{Values: map[string][]byte{"a": []byte("1")}, Timers: []Timer{{Name: "end", At: 5}}}
	stored := string(before.Append(nil))
	do := func(c *udf.Context) {
		c.Put("a", []byte("2"))
		c.Put("b", []byte("3"))
		c.StopTimer("end")
		c.SetTimer("other", c.Time)
		c.Emit(udf.Output{Topic: "out"})
	}
	for name, f := range map[string]func(*udf.Context) error{
		"error":          func(c *udf.Context) error { do(c); return errors.New("no") },
		"panic":          func(c *udf.Context) error { do(c); panic("no") },
		"unknown input":  func(c *udf.Context) error { do(c); c.Text("txt"); return nil },
		"wrong type":     func(c *udf.Context) error { do(c); c.SetText("n", ""); return nil },
		"unknown topic":  func(c *udf.Context) error { do(c); c.Emit(udf.Output{Topic: "in"}); return nil },
		"not finite":     func(c *udf.Context) error { do(c); c.SetNumber("n", math.NaN()); return nil },
		"too large":      func(c *udf.Context) error { do(c); c.Put("c", make([]byte, udf.StateMaxBytes)); return nil },
		"nameless timer": func(c *udf.Context) error { do(c); c.SetTimer("", c.Time); return nil },
		"too many timers": func(c *udf.Context) error {
			do(c)
			for i := range udf.TimersMax + 1 {
				c.SetTimer(fmt.Sprint(i), c.Time)
			}
			return nil
		},
		"too many outputs": func(c *udf.Context) error {
			for range udf.EmitsMax + 1 {
				c.Emit(udf.Output{Topic: "out"})
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			effects, err := call(f, before)
			if err == nil {
				t.Fatal("no error")
			}
			if effects.State != nil || effects.Outputs != nil {
				t.Errorf("effects %+v", effects)
			}
			if got := string(before.Append(nil)); got != stored {
				t.Errorf("the state before is %q, was %q", got, stored)
			}
		})
	}
}

func TestCallSeesWhatItWrote(t *testing.T) {
	effects, err := call(func(c *udf.Context) error {
		c.Put("a", []byte("2"))
		c.SetTimer("end", time.Unix(7, 1))
		c.SetTimer("end", time.Unix(6, 1))
		if got := string(c.Get("a")); got != "2" {
			return fmt.Errorf("a is %q", got)
		}
		if c.Has("text") || c.Text("text") != "" {
			return errors.New("an absent input is there")
		}
		c.Put("gone", nil)
		return nil
	}, &State{Values: map[string][]byte{"gone": []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	want := &State{Values: map[string][]byte{"a": []byte("2")}, Timers: []Timer{{Name: "end", At: 6_000_001, After: 41, SetBy: HashOf("in/0@41")}}}
	if d := cmp.Diff(want, effects.State); d != "" {
		t.Error(d)
	}
}
