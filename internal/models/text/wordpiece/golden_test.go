package wordpiece

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// golden is texts and the ids that the library tokenizers gives them;
// testdata/golden.py writes it.
type golden struct {
	Tokenizer string
	Limit     int
	Texts     []string
	IDs       [][]int64
}

func readGolden(t testing.TB, path string) []golden {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Sets []golden }
	if err := json.NewDecoder(packed).Decode(&all); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return all.Sets
}

// difference returns the first text whose ids are others than the library's.
func (g *golden) difference(t testing.TB) string {
	t.Helper()
	tokenizer, err := Parse("golden", []byte(g.Tokenizer), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for i, text := range g.Texts {
		if ids = tokenizer.Append(ids[:0], text, g.Limit); !slices.Equal(ids, g.IDs[i]) {
			return fmt.Sprintf("%q has ids\n%v, of the library\n%v", text, ids, g.IDs[i])
		}
	}
	return ""
}

func TestTextsHaveTheIdsOfTheLibrary(t *testing.T) {
	for _, name := range []string{"golden", "bert"} {
		sets := readGolden(t, "testdata/"+name+".json.gz")
		for i := range sets {
			if got := sets[i].difference(t); got != "" {
				t.Errorf("%s, set %d: %s", name, i, got)
			}
			if len(sets[i].Texts) < 60 {
				t.Errorf("%s, set %d: %d texts", name, i, len(sets[i].Texts))
			}
		}
	}
}

func TestOneChangedByteOfAGoldenIsSeen(t *testing.T) {
	for _, name := range []string{"golden", "bert"} {
		for _, g := range readGolden(t, "testdata/"+name+".json.gz") {
			at := len(g.Texts) - 1
			text := []byte("a" + g.Texts[at])
			text[0] ^= 1 << 1 // a c in place of an a
			g.Texts[at] = string(text)
			if g.difference(t) == "" {
				t.Errorf("%s: a letter in front of the last text was not seen", name)
			}
			g.Texts[at] = g.Texts[at][1:]
			g.IDs[at][0] ^= 1
			if g.difference(t) == "" {
				t.Errorf("%s: one bit of an id was not seen", name)
			}
		}
	}
}

// Each code point is compared, alone, within a word and between marks that
// normalization sorts, and 100,000 random texts with six normalizers; without
// AFTERBAY_PROVE one in ten of both, which the seed draws.
func TestTextsHaveTheIdsOfTheInstalledLibrary(t *testing.T) {
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has tokenizers 0.23.3")
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no interpreter that has tokenizers 0.23.3")
	}
	seed := time.Now().UnixNano() % 1_000_000
	if text := os.Getenv("AFTERBAY_SEED"); text != "" {
		seed, _ = strconv.ParseInt(text, 10, 64)
	}
	t.Logf("seed %d; AFTERBAY_SEED=%d runs it again", seed, seed)
	share := 10
	if os.Getenv("AFTERBAY_PROVE") != "" {
		share = 1
	}
	path := filepath.Join(t.TempDir(), "live.json.gz")
	command := exec.CommandContext(t.Context(), python, "testdata/golden.py", "live", path, strconv.FormatInt(seed, 10), strconv.Itoa(share))
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	texts := 0
	sets := readGolden(t, path)
	for i := range sets {
		texts += len(sets[i].Texts)
		if got := sets[i].difference(t); got != "" {
			t.Errorf("seed %d, set %d: %s", seed, i, got)
		}
	}
	t.Logf("%d texts in %d sets", texts, len(sets))
	if texts < 100_000/share {
		t.Errorf("only %d texts were compared", texts)
	}
}
