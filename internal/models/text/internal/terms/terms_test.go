package terms

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestTermsAreFoundAndNothingElse(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, count := range []int{0, 1, 8, 9, 5000} {
		known, list := map[string]int{}, []string{}
		word := func() string {
			bytes := make([]byte, r.IntN(24))
			for i := range bytes {
				bytes[i] = "ab\x00\xff"[r.IntN(4)]
			}
			return string(bytes)
		}
		for len(list) < count {
			term := word()
			if _, ok := known[term]; ok && term != "" {
				term = ""
			}
			if term != "" {
				known[term] = len(list)
			}
			list = append(list, term)
		}
		table, err := New(list)
		if err != nil {
			t.Fatal(err)
		}
		for term, id := range known {
			if got, ok := table.Find([]byte(term)); !ok || got != id {
				t.Fatalf("%q is at %d, %v, not %d", term, got, ok, id)
			}
		}
		for range 20_000 {
			term := word()
			id, known := known[term]
			if got, ok := table.Find([]byte(term)); ok != known || got != id {
				t.Fatalf("%q is at %d, %v, want %d, %v", term, got, ok, id, known)
			}
		}
	}
}

// Terms of other lengths have the code of others, and so may long ones.
func TestTermsWithOneCodeAreToldApart(t *testing.T) {
	for b := range 256 {
		short := string([]byte{byte(b)})
		for _, pair := range [][2]int{{1, 2}, {2, 3}, {3, 1}, {4, 8}, {8, 4}} {
			table, err := New([]string{strings.Repeat(short, pair[0]), "a longer term"})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := table.Find([]byte(strings.Repeat(short, pair[1]))); ok {
				t.Fatalf("%d times %q was found as %d times", pair[1], short, pair[0])
			}
		}
	}
	table, err := New([]string{"abcdefghi"})
	if err != nil {
		t.Fatal(err)
	}
	forged := *table
	forged.text = []byte("abcdefghj")
	if _, ok := forged.Find([]byte("abcdefghi")); ok {
		t.Error("a term that is not in the text of the table was found by its code")
	}
}

func TestTermsThatAreThereTwiceAreRefused(t *testing.T) {
	if _, err := New([]string{"a", "", "b", "", "a"}); err == nil {
		t.Error("a term that occurs twice passes")
	}
}
