package support_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lab/demo/support"
)

// hum stands for a voice: a sound whose length is that of the text.
func hum(_ context.Context, text string, pitch int) ([]byte, error) {
	wav := append([]byte("RIFF....WAVEfmt "), make([]byte, 28+3000*len(text))...)
	binary.LittleEndian.PutUint32(wav[28:], 44_100) // bytes a second
	for i := 44; i < len(wav); i++ {
		wav[i] = byte(i * pitch)
	}
	return wav, nil
}

type event struct {
	Kind, Customer, Text, Call, URL string
	ID                              string `json:"contact"`
	TS                              int64
	Image, Sound                    []byte
	Part                            int
	End                             bool
}

func generate(t *testing.T, o support.Options) (lines [][]byte, truth []support.Contact) {
	t.Helper()
	g, err := support.NewGenerator(o)
	for err == nil {
		var line []byte
		if line, err = g.Next(t.Context()); err == nil {
			lines = append(lines, line)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return lines, g.Truth()
}

func TestOneSeedGivesTheSame(t *testing.T) {
	o := support.Options{Seed: 1, Complaints: 10, Chats: 50, Faults: 2, Speak: hum}
	first, _ := generate(t, o)
	again, _ := generate(t, o)
	o.Seed = 2
	other, _ := generate(t, o)
	if all := bytes.Join(first, nil); !bytes.Equal(all, bytes.Join(again, nil)) || bytes.Equal(all, bytes.Join(other, nil)) {
		t.Error("the events of a seed are not its own")
	}
}

// TestDisorderIsWhatTheTruthSays puts the events together again, and compares them
// with the truth and its faults.
func TestDisorderIsWhatTheTruthSays(t *testing.T) {
	lines, truth := generate(t, support.Options{Seed: 7, Complaints: 20, Chats: 300, Faults: 3, Speak: hum})
	seen, late, sounds := map[string]event{}, map[string]bool{}, map[string][]event{}
	malformed, twice, newest, disorder := 0, 0, int64(0), 0
	for _, line := range lines {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			malformed++
			continue
		}
		if e.TS < newest {
			disorder++
		}
		if newest = max(newest, e.TS); e.TS < newest-support.Lateness {
			late[e.ID] = true
		}
		if _, ok := seen[e.ID]; ok {
			twice++
			continue
		}
		if seen[e.ID] = e; e.Call != "" {
			sounds[e.Call] = append(sounds[e.Call], e)
		}
	}
	if malformed != 3 || twice < len(lines)/40 || disorder < len(lines)/4 || len(late) != 2*3 {
		t.Errorf("of %d events %d malformed, %d twice, %d behind others, late %v", len(lines), malformed, twice, disorder, late)
	}
	if n := 3*20 + 300 + 3*len(support.Faults); len(truth) != n {
		t.Errorf("%d contacts, want %d", len(truth), n)
	}
	for _, c := range truth {
		switch e := seen[c.ID]; c.Kind {
		case "chat":
			if c.Fault != "malformed" && (e.Text != c.Text || e.Customer != c.Customer || late[c.ID] != (c.Fault == "late")) {
				t.Errorf("%+v came as %+v", c, e)
			}
		case "image":
			_, err := png.Decode(bytes.NewReader(e.Image))
			if (err == nil) != (c.Fault == "") || strings.Count(c.Text, "\n") != 2 {
				t.Errorf("%+v: %v", c, err)
			}
		case "call":
			checkCall(t, c, sounds[c.ID], late)
		}
	}
}

// checkCall checks the chunks that came of a call.
func checkCall(t *testing.T, c support.Contact, parts []event, late map[string]bool) {
	t.Helper()
	slices.SortFunc(parts, func(a, b event) int { return a.Part - b.Part })
	missing, lates, ends := c.Chunks-len(parts), 0, 0
	var sound []byte
	for i, e := range parts {
		sound = append(sound, e.Sound...)
		if late[e.ID] {
			lates++
		}
		if e.End {
			ends++
		}
		if e.Customer != c.Customer || i > 0 && e.TS < parts[i-1].TS {
			t.Errorf("%s: chunk %d at %d of %s", c.ID, e.Part, e.TS, e.Customer)
		}
	}
	want := map[string][3]int{"missing chunk": {1, 0, 1}, "missing end": {1, 0, 0}, "late chunk": {0, 1, 1}}
	if is, ok := want[c.Fault]; !ok && [3]int{missing, lates, ends} != [3]int{0, 0, 1} || ok && is != [3]int{missing, lates, ends} {
		t.Errorf("%s, fault %q: %d chunks missing, %d late, %d ends", c.ID, c.Fault, missing, lates, ends)
	}
	if quiet := bytes.Count(sound[44:], []byte{0}) == len(sound)-44; quiet != (c.Fault == "silent call") || quiet != (c.Text == "") {
		t.Errorf("%s, fault %q, is silent: %v", c.ID, c.Fault, quiet)
	}
}

func TestObjectsLieInFiles(t *testing.T) {
	o := support.Options{Complaints: 2, Speak: hum}
	inside, _ := generate(t, o)
	o.Objects = t.TempDir()
	outside, _ := generate(t, o)
	for i := range inside {
		var in, out event
		if err := errors.Join(json.Unmarshal(inside[i], &in), json.Unmarshal(outside[i], &out)); err != nil {
			t.Fatal(err)
		}
		if in.Kind == "chat" {
			continue
		}
		at, err := url.Parse(out.URL)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(at.Path)
		if err != nil || in.ID != out.ID || !bytes.Equal(content, append(in.Image, in.Sound...)) || out.Image != nil || out.Sound != nil {
			t.Errorf("%s at %s: %d bytes, %v", out.ID, out.URL, len(content), err)
		}
	}
}

// TestComplaintsOfACustomerDiffer: or else nobody could say which of them a query is
// about.
func TestComplaintsOfACustomerDiffer(t *testing.T) {
	_, truth := generate(t, support.Options{Seed: 3, Speak: hum})
	about, kinds := map[string]int{}, map[int]string{}
	for _, c := range truth {
		if n, ok := about[c.Customer+c.Query]; ok && n != c.Complaint {
			t.Errorf("%s asks twice about %q", c.Customer, c.Query)
		}
		about[c.Customer+c.Query] = c.Complaint
		kinds[c.Complaint] += c.Kind + " "
	}
	for n, said := range kinds {
		if len(said) != len("chat image call ") {
			t.Errorf("complaint %d is %s", n, said)
		}
	}
	if len(kinds) != 50 {
		t.Errorf("%d complaints", len(kinds))
	}
}

// TestCallsAreOfTheGrammar holds what is said to the grammar by which it is heard.
func TestCallsAreOfTheGrammar(t *testing.T) {
	text, err := os.ReadFile("../../../../examples/support/calls.jsgf")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT RUN: there is no grammar")
	}
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, r := range regexp.MustCompile(`(?s)<(\w+)> = (.*?);`).FindAllStringSubmatch(string(text), -1) {
		rules[r[1]] = strings.Join(strings.Fields(r[2]), " ")
	}
	name := regexp.MustCompile(`<(\w+)>`)
	sentence := "<sentence>"
	for name.MatchString(sentence) {
		sentence = name.ReplaceAllStringFunc(sentence, func(name string) string { return "(" + rules[name[1:len(name)-1]] + ")" })
	}
	words := regexp.MustCompile(`^(` + strings.ReplaceAll(sentence, " | ", "|") + `( |$))+$`)
	_, truth := generate(t, support.Options{Seed: 5, Complaints: 200, Speak: hum})
	for _, c := range truth {
		if c.Kind == "call" && !words.MatchString(c.Text) {
			t.Fatalf("%q is not of the grammar %s", c.Text, words)
		}
	}
}

func TestVoiceIsAWholeWAVFile(t *testing.T) {
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		if os.Getenv("AFTERBAY_FULL") != "" {
			t.Fatal("espeak-ng is not installed: make deps installs it")
		}
		t.Skip("NOT RUN: espeak-ng is not installed (make deps installs it)")
	}
	wav, err := support.Speak(t.Context(), "my payment failed. thank you very much.", 50)
	if err != nil {
		t.Fatal(err)
	}
	little := binary.LittleEndian
	rate, channels, bits, size := little.Uint32(wav[24:]), little.Uint16(wav[22:]), little.Uint16(wav[34:]), int(little.Uint32(wav[40:]))
	if rate < 8000 || channels != 1 || bits != 16 || size != len(wav)-44 || int(little.Uint32(wav[4:])) != len(wav)-8 || size < 3*int(rate) || size > 20*int(rate) {
		t.Errorf("%d bytes: %d Hz, %d channels of %d bits, %d bytes of sound", len(wav), rate, channels, bits, size)
	}
}
