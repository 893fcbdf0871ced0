package keyed

import (
	"math/rand/v2"
	"testing"
)

type counted struct {
	Member
	used uint64
	held bool
	gone bool
}

func (v *counted) Used() uint64 { return v.used }
func (v *counted) Held() bool   { return v.held }

// TestEvictionKeepsWhatIsUsed adds values without end while a few are used all
// the time and a few are held.
func TestEvictionKeepsWhatIsUsed(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	var c Circle[*counted]
	hot, held := make([]*counted, 50), make([]*counted, 5)
	sum, clock := 0, uint64(0)
	evicted := func(v *counted, bytes int) {
		sum -= bytes
		v.gone = true
	}
	add := func(v *counted) {
		bytes := 50 + r.IntN(100)
		c.Add(v, bytes)
		sum += bytes
	}
	for i := range hot {
		hot[i] = &counted{}
		add(hot[i])
	}
	for i := range held {
		held[i] = &counted{held: true}
		add(held[i])
	}
	lost := 0
	for range 20_000 {
		clock++
		add(&counted{used: clock})
		v := hot[r.IntN(len(hot))]
		if v.gone {
			lost++
			*v = counted{}
			add(v)
		}
		v.used = clock
		c.Resize(v, 100)
		sum = c.Bytes()
		c.Evict(1000, 40_000, evicted)
		if c.Bytes() != sum || sum > 40_000 || len(c.All()) > 1000 {
			t.Fatalf("seed %d: %d values of %d bytes, want %d", seed, len(c.All()), c.Bytes(), sum)
		}
	}
	for _, v := range held {
		if v.gone {
			t.Fatal("a value that is held was evicted")
		}
	}
	t.Logf("seed %d: %d lost", seed, lost)
	if lost > 150 {
		t.Errorf("of 20,000 uses %d found their value evicted", lost)
	}
	for _, v := range held {
		v.held = false
	}
	c.Evict(0, 0, evicted)
	if len(c.All()) != 0 || c.Bytes() != 0 {
		t.Errorf("%d values of %d bytes are left", len(c.All()), c.Bytes())
	}
}

// TestHeldValuesEndAnEviction has nothing that can go.
func TestHeldValuesEndAnEviction(t *testing.T) {
	var c Circle[*counted]
	for range 500 {
		c.Add(&counted{held: true}, 10)
	}
	c.Evict(0, 0, func(*counted, int) { t.Error("a value that is held was evicted") })
	if c.Bytes() != 5000 {
		t.Errorf("%d bytes", c.Bytes())
	}
}
