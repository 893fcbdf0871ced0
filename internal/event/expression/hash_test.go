package expression_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/event/value"
)

// hashes evaluates hash(x, salt) of one value of each kind.
type hashes struct {
	row      *value.Row
	names    *names
	programs map[string]*expression.Program
}

func newHashes(t testing.TB) *hashes {
	n := newNames(t, "string string", "int int", "number number", "bool bool", "time time", "bytes bytes", "salt string")
	h := &hashes{row: &n.NewRows(1)[0], names: n, programs: map[string]*expression.Program{}}
	for _, kind := range []string{"string", "int", "number", "bool", "time", "bytes"} {
		h.programs[kind] = must(t, n, "hash("+kind+", salt)")
	}
	return h
}

func (h *hashes) of(t testing.TB, kind string, v any, salt string) int64 {
	t.Helper()
	fill(h.names, h.row, map[string]any{"salt": salt})
	slot, _ := h.names.Lookup(kind)
	switch v := v.(type) {
	case int64:
		h.row.SetInt(slot, v)
	default:
		fill(h.names, h.row, map[string]any{kind: v})
	}
	got, err := h.programs[kind].Int(h.row)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestHashesAreThoseOfTheGoldens compares values of all kinds with what Python computed.
func TestHashesAreThoseOfTheGoldens(t *testing.T) {
	text, err := os.ReadFile("../hash/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Kind, Value, Salt string
		Hash              int64
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) < 100 {
		t.Fatal(len(rows), err)
	}
	h, seen := newHashes(t), map[string]int{}
	for _, r := range rows {
		var v any
		switch r.Kind {
		case "string":
			v = r.Value
		case "bytes":
			raw, _ := hex.DecodeString(r.Value)
			v = string(raw)
		case "bool":
			v = r.Value == "True"
		case "number":
			v, err = strconv.ParseFloat(r.Value, 64)
		default:
			v, err = strconv.ParseInt(r.Value, 10, 64)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := h.of(t, r.Kind, v, r.Salt); got != r.Hash {
			t.Errorf("hash(%s %.40q, %.40q): %d, want %d", r.Kind, r.Value, r.Salt, got, r.Hash)
		}
		seen[r.Kind]++
	}
	if len(seen) != len(h.programs) {
		t.Errorf("the goldens have the kinds %v", seen)
	}
}

// TestHashOfAValueIsOfItsText holds the definition, with the text as encoding/json and
// math/big write it.
func TestHashOfAValueIsOfItsText(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed=%d", seed)
	random, h := rand.New(rand.NewPCG(seed, 0)), newHashes(t)
	for range 20_000 {
		holdNumber(t, h, math.Float64frombits(random.Uint64()))
		holdNumber(t, h, float64(random.Int64())*math.Ldexp(1, random.IntN(80)-70))
		holdInt(t, h, int64(random.Uint64())>>random.IntN(64))
	}
}

func holdNumber(t *testing.T, h *hashes, v float64) {
	t.Helper()
	if !value.Finite(v) {
		return
	}
	text, _ := json.Marshal(v)
	if whole, exact := big.NewFloat(v).Int(nil); exact == big.Exact && whole.IsInt64() {
		text = []byte(whole.String())
	}
	if got, want := h.of(t, "number", v, "s"), hash.Of(text, "s"); got != want {
		t.Fatalf("hash of the number %v: %d, want that of %s: %d", v, got, text, want)
	}
}

func holdInt(t *testing.T, h *hashes, v int64) {
	t.Helper()
	want := hash.Of(big.NewInt(v).String(), "s")
	if got := h.of(t, "int", v, "s"); got != want {
		t.Fatalf("hash of the int %d: %d, want %d", v, got, want)
	}
	if f := float64(v); f < 1<<63 && int64(f) == v { // equal values of two kinds
		if got := h.of(t, "number", f, "s"); got != want {
			t.Fatalf("hash of the number %v: %d, of the int %d", f, got, want)
		}
	}
	if micros := v >> 10; micros > -62e15 && micros < 250e15 { // years 5 to 9892
		text := time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z")
		if got, want := h.of(t, "time", micros, "s"), hash.Of(text, "s"); got != want {
			t.Fatalf("hash of the time %s: %d, want %d", text, got, want)
		}
	}
}

// FuzzHashOfValues holds the same for what the fuzzer finds.
func FuzzHashOfValues(f *testing.F) {
	f.Add(int64(0), 0.0)
	f.Add(int64(math.MinInt64), -0x1p63)
	f.Add(int64(math.MaxInt64), 0x1p63)
	f.Add(int64(1)<<53, 1e21)
	f.Add(int64(-1), math.Copysign(0, -1))
	h := newHashes(f)
	f.Fuzz(func(t *testing.T, i int64, v float64) {
		holdInt(t, h, i)
		holdNumber(t, h, v)
	})
}

func TestHashInExpressions(t *testing.T) {
	n := newNames(t, sampleSlots...)
	row := sampleRow(n)
	for _, source := range []string{
		`hash(n) == hash("7")`, `hash(n) == hash(7.0)`, `hash(n, "") == hash(n)`, `hash(-0.0) == hash(0)`, `hash(n * 0.5) == hash("3.5")`, `hash(ok) == hash("true")`,
		`hash(at) == hash(string(at))`, `hash(raw) == hash(b"\x01\x02")`, `hash(tx, "a") != hash(tx, "b")`, `hash(tx, country) == hash("t-1", "GB")`, `hash(ok ? 7 : 0.5) == hash(n)`,
		`hash(text ?? "") == hash("héllo")`, `hash(tx, text ?? "") == hash("t-1", "héllo")`, `0 <= hash(tx) < 2 ** 53`, `hash(1) == hash(limit - 9)`, `hash(tx) % 1 == 0`, `hash(tx) / 2 ** 53 < 1`,
	} {
		if ok, err := must(t, n, source).Bool(row); err != nil || !ok {
			t.Errorf("%s: %v, %v", source, ok, err)
		}
	}
	if p := must(t, n, `hash(tx, "a")`); p.Type().Kind != value.Int || p.Type().Optional {
		t.Errorf("its type is %v", p.Type())
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	n := newNames(t, sampleSlots...)
	row := sampleRow(n)
	for _, x := range []string{"tx", "n", "amount", "ok", "at", "raw"} {
		p := must(t, n, "hash("+x+`, "dataset")`)
		if n := testing.AllocsPerRun(200, func() { p.Int(row) }); n != 0 {
			t.Errorf("hash(%s): %v allocations", x, n)
		}
	}
}

func BenchmarkHashOfAKey(b *testing.B) {
	n := newNames(b, sampleSlots...)
	row := sampleRow(n)
	for _, source := range []string{`hash(tx, "dataset") % 20 == 0`, `hash(n, "dataset") % 20 == 0`, `hash(amount, "dataset") % 20 == 0`} {
		p := must(b, n, source)
		b.Run(source, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Bool(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
