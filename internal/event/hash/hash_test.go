package hash_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

// defined is the definition of the hash in other words.
func defined(x, salt string) int64 {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(salt), salt, x))
	whole := new(big.Int).SetBytes(digest[:])
	return whole.Rsh(whole, 256-hash.Bits).Int64()
}

// TestHashesAreThoseOfTheGoldens compares with what Python computed. A hash that changes
// moves every share of keys: do not change a golden.
func TestHashesAreThoseOfTheGoldens(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Kind, Value, Text, Salt string
		Hash                    int64
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) < 100 {
		t.Fatal(len(rows), err)
	}
	for _, r := range rows {
		x := []byte(r.Text)
		if r.Kind == "bytes" {
			if x, err = hex.DecodeString(r.Value); err != nil {
				t.Fatal(err)
			}
		}
		if got := hash.Of(x, r.Salt); got != r.Hash || hash.Of(string(x), r.Salt) != got {
			t.Errorf("%s %.40q with salt %.40q: %d, want %d", r.Kind, x, r.Salt, got, r.Hash)
		}
	}
}

// TestGoldensAreOfTheScript runs the definition in Python again.
func TestGoldensAreOfTheScript(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_PYTHON", "no interpreter")
	want, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(python, "testdata/golden.py").Output()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("testdata/golden.py writes another golden.json: %v", err)
	}
}

// TestMessagesOfAllLengths crosses the bound between messages in one piece and others.
func TestMessagesOfAllLengths(t *testing.T) {
	letters := strings.Repeat("abcdefghijk", 500)
	for size := range 3000 {
		x, salt := letters[:size], letters[:size*7%601]
		if got, want := hash.Of(x, salt), defined(x, salt); got != want {
			t.Fatalf("%d bytes, salt of %d: %d, want %d", size, len(salt), got, want)
		}
	}
}

// TestSaltAndTextAreApart moves a byte between salt and text.
func TestSaltAndTextAreApart(t *testing.T) {
	seen := map[int64]string{}
	for _, c := range [][2]string{{"", "ab"}, {"a", "b"}, {"ab", ""}, {"", "1:ab"}, {"1:a", "b"}, {"1", ":ab"}, {"", "0:ab"}, {"0", "ab"}} {
		name := fmt.Sprintf("%q", c)
		h := hash.Of(c[1], c[0])
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	for _, size := range []int{0, 8, 250, 251, 4096} {
		x, salt := strings.Repeat("x", size), "salt"
		if n := testing.AllocsPerRun(200, func() { hash.Of(x, salt) }); n != 0 {
			t.Errorf("a text of %d bytes: %v allocations", size, n)
		}
	}
}

const keys = 1 << 15

// salts that resemble each other, as those of people do.
var salts = []string{"", "a", "b", "1", "2", "11", "dataset", "dataset2", "skew", "rollout 2026-11"}

// forms of keys, as systems number them.
var forms = []string{"%d", "card-%d", "%08d", "user/%d/x", "%x", "%d" + "0000"}

// excess returns by how many standard deviations counts of so many in all differ from
// even ones: chi-square, as a normal deviate.
func excess(counts []int, all int) float64 {
	chi, even, freedom := 0.0, float64(all)/float64(len(counts)), float64(len(counts)-1)
	for _, n := range counts {
		chi += (float64(n) - even) * (float64(n) - even) / even
	}
	return (chi - freedom) / math.Sqrt(2*freedom)
}

// TestSharesAreEven counts keys by the lowest part of the range, by remainders, and by
// single bits. All is fixed, so that the test always says the same.
func TestSharesAreEven(t *testing.T) {
	for _, form := range forms {
		for _, salt := range salts {
			upper, remainder, ones := make([]int, 1024), make([]int, 1000), [hash.Bits]int{}
			for i := range keys {
				h := hash.Of(fmt.Sprintf(form, i), salt)
				if h < 0 || h >= 1<<53 {
					t.Fatalf("%d is out of [0, 2^53)", h)
				}
				upper[h>>43]++
				remainder[h%1000]++
				for bit := range ones {
					ones[bit] += int(h >> bit & 1)
				}
			}
			for name, counts := range map[string][]int{"parts of the range": upper, "remainders": remainder} {
				if z := excess(counts, keys); math.Abs(z) > 5 {
					t.Errorf("keys %q, salt %q: %s are uneven: %.1f standard deviations", form, salt, name, z)
				}
			}
			for bit, n := range ones {
				if z := float64(2*n-keys) / math.Sqrt(keys); math.Abs(z) > 5 {
					t.Errorf("keys %q, salt %q: bit %d is uneven: %.1f standard deviations", form, salt, bit, z)
				}
			}
		}
	}
}

// TestSaltsAreIndependent counts keys by their place under two salts.
func TestSaltsAreIndependent(t *testing.T) {
	const side = 16
	for i, one := range salts {
		for _, other := range salts[:i] {
			upper, lower := make([]int, side*side), make([]int, side*side)
			for k := range keys {
				key := fmt.Sprintf("card-%d", k)
				a, b := hash.Of(key, one), hash.Of(key, other)
				upper[a>>49*side+b>>49]++
				lower[a%side*side+b%side]++
			}
			for name, counts := range map[string][]int{"parts of the range": upper, "remainders": lower} {
				if z := excess(counts, keys); math.Abs(z) > 5 {
					t.Errorf("salts %q and %q: %s depend on each other: %.1f standard deviations", one, other, name, z)
				}
			}
		}
	}
}

// TestEachBitTurnsHalfOfTheHash turns each bit of texts and salts.
func TestEachBitTurnsHalfOfTheHash(t *testing.T) {
	const texts = 1000
	for _, inSalt := range []bool{false, true} {
		for bit := range 64 {
			turned := [hash.Bits]int{}
			for i := range texts {
				x, salt := fmt.Sprintf("%08d", i), "sometext"
				before := hash.Of(x, salt)
				part := []byte(x)
				if inSalt {
					part = []byte(salt)
				}
				part[bit/8] ^= 1 << (bit % 8)
				if inSalt {
					salt = string(part)
				} else {
					x = string(part)
				}
				for diff := uint64(before ^ hash.Of(x, salt)); diff != 0; diff &= diff - 1 {
					turned[bits.TrailingZeros64(diff)]++
				}
			}
			for to, n := range turned {
				if z := float64(2*n-texts) / math.Sqrt(texts); math.Abs(z) > 5.5 {
					t.Errorf("bit %d (of the salt: %v) turns bit %d in %d of %d texts", bit, inSalt, to, n, texts)
				}
			}
		}
	}
}

func FuzzHash(f *testing.F) {
	f.Add("card-1", "dataset")
	f.Add("1:a", "")
	f.Add(strings.Repeat("x", 300), "\x00")
	f.Add("", strings.Repeat("é", 200))
	f.Fuzz(func(t *testing.T, x, salt string) {
		if got, want := hash.Of(x, salt), defined(x, salt); got != want {
			t.Fatalf("%q with salt %q: %d, want %d", x, salt, got, want)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	for _, size := range []int{16, 100, 250, 4096} {
		x := strings.Repeat("x", size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				hash.Of(x, "dataset")
			}
		})
	}
}

func ExampleOf() {
	for _, key := range []string{"card-1", "card-2", "card-3"} {
		fmt.Println(key, hash.Of(key, "example")%20 == 0)
	}
	// Output:
	// card-1 false
	// card-2 false
	// card-3 false
}

// TestShares reads shares of keys.
func TestShares(t *testing.T) {
	for text, want := range map[string]int64{"0%": 0, "100%": 1 << 53, "1": 1 << 53, "50%": 1 << 52, "0.25": 1 << 51, "12.5%": 1 << 50} {
		if got, ok := hash.Share(text); got != want || !ok {
			t.Errorf("%s: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "%", "5 %", "101%", "-1%", "2", "NaN", "inf", "half"} {
		if _, ok := hash.Share(text); ok {
			t.Errorf("%q is a share", text)
		}
	}
}
