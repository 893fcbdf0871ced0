package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// FuzzParse checks that no text makes Parse or Explain panic, that every
// finding stands in the file, and that every character of every scalar is found
// where its node says.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "testdata/lint/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(explained))
	f.Add([]byte("pipeline: ${N}\ninput: {topic: '${TEXT}', key: \"\\u00e9${NONE:-k}\", fields: {k: string}}\nsteps:\n- let: {a: '${SELF}$${é}', b: |\n    ${TEXT}\n}\n- emit: {topic: o}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		// A text that is never done would stop the fuzzing in silence.
		defer time.AfterFunc(10*time.Second, func() { panic("Parse takes longer than 10 s") }).Stop()
		source := spec.NewSource("f.yaml", strings.TrimPrefix(string(data), "\uFEFF"))
		documents, _ := spec.ReadDocuments(source, &spec.PipelineFiles)
		for _, d := range documents {
			checkNode(t, source.Text, d.Root)
		}
		partly, _ := lang.ParsePartly("f.yaml", data, fuzzed, builtin.Kinds())
		partly.Above(func(p lang.Pipeline) error {
			_, err := builtin.New(p, pipeline.Options{})
			return err
		})
		file, err := lang.ParseWith("f.yaml", data, fuzzed, builtin.Kinds())
		if err != nil {
			found, ok := err.(spec.Errors)
			if !ok || len(found) == 0 || file != nil {
				t.Fatalf("Parse returned %v, %v", file, err)
			}
			if utf8.Valid(data) {
				checkErrors(t, "f.yaml", string(data), found)
			}
			return
		}
		for i, places := range file.Places {
			for path, place := range places {
				columns := 4
				if place.Scalar != nil {
					columns = min(len([]rune(place.Scalar.Text))+3, 100)
				}
				for column := range columns {
					found, ok := file.Explain(i, &spec.Problem{Path: path, Column: column, Message: "is wrong", Hint: "correct it"}).(spec.Errors)
					if !ok {
						t.Fatalf("%s is not explained", path)
					}
					checkErrors(t, "f.yaml", string(data), found)
				}
			}
		}
	})
}

// fuzzed is an environment with all that a value may hold. The names that the
// fuzzer makes up are set too, to themselves.
func fuzzed(name string) (string, bool) {
	if len(name) > 4 {
		return "", false
	}
	value, ok := map[string]string{"N": "8", "TEXT": "a: [b] # \n\t'\"", "SELF": "${N}", "NONE": "", "BAD": "\xff"}[name]
	if !ok {
		return name, true
	}
	return value, true
}

// checkNode checks that each character of a scalar is where offsetOf says, and
// that what is behind the scalar is behind its last character.
func checkNode(t *testing.T, text string, n *spec.Node) {
	t.Helper()
	for _, item := range n.Items {
		checkNode(t, text, item)
	}
	for _, e := range n.Entries {
		checkNode(t, text, e.Value)
		if e.Offset < 0 || e.Offset >= len(text) || !strings.ContainsRune(`'"`, rune(text[e.Offset])) && !strings.HasPrefix(text[e.Offset:], firstWord(e.Key)) {
			t.Errorf("key %q is not at %d", e.Key, e.Offset)
		}
	}
	if n.Offset < 0 || n.Offset > len(text) {
		t.Errorf("%v stands at %d of %d bytes", n.Kind, n.Offset, len(text))
	}
	if n.Kind != spec.Scalar {
		return
	}
	characters := []rune(n.Text)
	for column := 1; column <= len(characters) && n.Style != spec.Block; column++ {
		at := n.OffsetOf(text, column)
		want := characters[column-1]
		got, _ := utf8.DecodeRuneInString(text[at:])
		if got != want && !unicode.IsSpace(want) && (n.Style != spec.DoubleQuoted || got != '\\') {
			t.Errorf("column %d of %q is %q, found %q", column, n.Text, want, got)
		}
	}
	end, _ := utf8.DecodeRuneInString(text[n.OffsetOf(text, len(characters)+1):])
	if quoted := n.Style != spec.Plain && n.Style != spec.Block; quoted && !unicode.IsSpace(end) && !strings.ContainsRune(`'"\`, end) {
		t.Errorf("%q ends before %q", n.Text, end)
	}
}

func firstWord(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// TestSizesAndDurationsRoundTrip checks that what a hint writes can be read.
func TestSizesAndDurationsRoundTrip(t *testing.T) {
	for text, want := range map[string]string{
		"0s": "0s", "1d": "1d", "36h": "36h", "1d12h": "36h", "90s": "1m30s", "1h": "1h", "20ms": "20ms", "48h": "2d", "2m": "2m", "1.5h": "1h30m", "10h": "10h",
	} {
		d, ok := spec.ParseDuration(text)
		if got := spec.FormatDuration(d); !ok || got != want {
			t.Errorf("%s is written %s (%v), want %s", text, got, ok, want)
		}
		if again, ok := spec.ParseDuration(want); !ok || again != d {
			t.Errorf("%s is read as %v (%v), want %v", want, again, ok, d)
		}
	}
	for _, text := range []string{"", "d", "5", "1d-1h", "1d+1h", "1d24h", "-1d", "1.5d", "99999d", "1dd", "x"} {
		if d, ok := spec.ParseDuration(text); ok {
			t.Errorf("%q is read as %v", text, d)
		}
	}
	for text, want := range map[string]int{"0": 0, "512": 512, "1B": 1, "64KiB": 65536, "10MB": 1e7, "10 MB": 1e7, "1GiB": 1 << 30, "1KB": 1000} {
		if got, ok := spec.ParseSize(text); !ok || got != want {
			t.Errorf("%s is read as %d (%v), want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "MB", "-1", "1.5MB", "9223372036854775807KB", "1 mb", "0x10"} {
		if got, ok := spec.ParseSize(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestSuggestionsAreClose(t *testing.T) {
	names := []string{"topic", "partitions", "key", "time", "fields", "ms", "s"}
	for text, want := range map[string]string{
		"topics": "topic", "tpoic": "topic", "Topic": "topic", "partition": "partitions", "kye": "key", "field": "fields",
		"retention": "", "x": "", "banana": "", "": "", strings.Repeat("topic", 20): "",
	} {
		if got := spec.Nearest(text, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", text, got, want)
		}
	}
}
