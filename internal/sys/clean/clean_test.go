package clean

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestNothingThatDrivesATerminalIsLeft(t *testing.T) {
	for text, want := range map[string]string{
		"plain, gr\u00fc\u00dfe":    "plain, gr\u00fc\u00dfe",
		"\x1b[31mred\x1b]0;title\a": `\u001b[31mred\u001b]0;title\u0007`,
		"one\r\ntwo":                "one  two",
		"a\x00b\x7f\u009bc":         `a\u0000b\u007f\u009bc`,
		"a\u202eb\u2066c\u2028d":    `a\u202eb\u2066c\u2028d`,
		"bad \x9b\xff":              "bad \ufffd\ufffd",
		"a\tb":                      "a\tb",
	} {
		if got := string(Append(nil, []byte(text))); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := Text("a\tb\nc"); got != "a b c" {
		t.Errorf("a cell of a table is %q", got)
	}
	if got := Lines("a\n\x1bb"); got != "a\n\\u001bb" {
		t.Errorf("lines are %q", got)
	}
}

func TestJSONMeansTheSame(t *testing.T) {
	before := "{\"a\":\"\u009b\x7f\u202e\",\r\n\t\"b\":[1,\n2]}"
	var want, got any
	if err := json.Unmarshal([]byte(before), &want); err != nil {
		t.Fatal(err)
	}
	after := Append(nil, []byte(before))
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if !bytes.Equal(a, b) {
		t.Errorf("%s becomes %s", before, after)
	}
}

func TestWriterCleansCharactersThatComeInParts(t *testing.T) {
	text := []byte("gr\u00fc\u00dfe \u009b \U0001f600\nend\x1b\n")
	want := "gr\u00fc\u00dfe \\u009b \U0001f600\nend\\u001b\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := text; len(rest) > 0; {
			n := min(size, len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("wrote %d, %v", got, err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Errorf("in parts of %d: %q, want %q", size, out.String(), want)
		}
	}
}
