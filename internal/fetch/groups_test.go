package fetch_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
)

const calls = `
pipeline: calls
input:
  topic: chunks
  partitions: 2
  key: customer
  time: {field: ts, unit: ms, lateness: 5s}
  fields: {customer: string, call: string, part: int, end: optional bool, url: string, ts: int}
commit: {interval: 1ms}
content: {root: '${ROOT}', cache: {dir: '${CACHE}', max: 1MB}}
models:
  asr: {go: ocr, version: 1, outputs: {text: string}}
steps:
  - let: {last: end ?? false}
  - group: {name: parts, by: call, order: part, end: last, idle: 60s}
  - fetch: {name: sound, urls: parts.url, max: 130B, on_failure: [emit: {topic: unheard, value: [parts.key]}]}
  - score: {model: asr, inputs: [sound.bytes]}
  - emit: {topic: artifacts, id: '"call:" + parts.key', value: [parts.key, asr.text, sound.size]}
`

func TestExampleOfTheHowToIsTaken(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/fetch.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	text = strings.Replace(text, "file: ocr.yaml", "go: ocr", 1)
	(&world{}).open(t, text).Close()
}

// TestChunksOfAGroupAreOneContent has calls come in chunks, in any order, and some
// twice.
func TestChunksOfAGroupAreOneContent(t *testing.T) {
	const seed, number, chunks = 7, 30, 6
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{vars: map[string]string{"ROOT": t.TempDir(), "CACHE": filepath.Join(t.TempDir(), "content")}}
	var want []string
	var events []stream.Record
	for call := range number {
		whole := ""
		var parts []stream.Record
		for part := range chunks {
			sound := fmt.Sprintf("part %d of call %d. ", part, call)
			if call%10 == 9 {
				sound = strings.Repeat("too long ", 3)
			}
			whole += sound
			name := filepath.Join(w.vars["ROOT"], fmt.Sprintf("%d-%d.wav", call, part))
			if call%10 == 8 && part == 3 {
				continue // it never comes, and nor does its file
			}
			if err := os.WriteFile(name, []byte(sound), 0o600); err != nil {
				t.Fatal(err)
			}
			customer := fmt.Sprint("c", call%3)
			parts = append(parts, stream.Record{
				Partition: stream.Partition{Topic: "chunks", Index: stream.ByKey}, Key: []byte(customer),
				Value: fmt.Appendf(nil, `{"customer":%q,"call":"k%d","part":%d,"end":%t,"url":"file://%s","ts":%d}`, customer, call, part, part == chunks-1, name, 1_000_000+call*1000),
			})
		}
		parts = append(parts, parts[rng.IntN(len(parts))])
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		events = append(events, parts...)
		if call%10 < 8 {
			want = append(want, fmt.Sprintf(`{"parts_key":"k%d","asr_text":"%s","sound_size":%d}`, call, strings.ToUpper(whole), len(whole)))
		}
	}
	runner := w.open(t, calls)
	defer runner.Close()
	answer, err := answers.RunAll(t.Context(), openEmbedded(t), runner, events)
	if err != nil {
		t.Fatal(err)
	}
	got := answer.Values("artifacts")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: %d outputs, want %d: %.500q\nwant %.500q", seed, len(got), len(want), got, want)
	}
	unheard := answer.Values("unheard")
	slices.Sort(unheard)
	if want := []string{`{"parts_key":"k19"}`, `{"parts_key":"k29"}`, `{"parts_key":"k9"}`}; !slices.Equal(unheard, want) {
		t.Errorf("seed %d: %q, want %q", seed, unheard, want)
	}
	kept := 0
	err = filepath.WalkDir(w.vars["CACHE"], func(_ string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			kept++
		}
		return err
	})
	if err != nil || kept != len(want) {
		t.Errorf("%d contents in the folder of the cache, want %d: %v", kept, len(want), err)
	}
}
