package text

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// textBlocks is a model of one text, of a block for each token pattern.
func textBlocks(patterns ...string) string {
	var blocks, coef []string
	for _, pattern := range patterns {
		blocks = append(blocks, fmt.Sprintf(`{"text":{"input":0,"analyzer":"word","token_pattern":%q,"ngram_range":[1,1],"vocabulary":["a","aa"]}}`, pattern))
		coef = append(coef, "1,2")
	}
	return fmt.Sprintf(`{"format":"afterbay text model","version":1,"source":"by hand","inputs":[{"name":"text","kind":"text"}],
		"characters":{"word":[48,57,65,90,95,95,97,122],"space":[9,13,32,32]},
		"blocks":[%s],"steps":[],"outputs":["yes"],"members":[{"coef":[[%s]],"intercept":[0],"link":"identity"}]}`, strings.Join(blocks, ","), strings.Join(coef, ","))
}

// A block has 100 bytes in the file, and its tables all of Unicode.
func TestBlocksOfTextAreBounded(t *testing.T) {
	m, err := Parse("same", []byte(textBlocks(slices.Repeat([]string{`\w+`}, textBlocksMax)...)))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range m.blocks {
		if b.text.folder != m.blocks[0].text.folder || b.text.pattern != m.blocks[0].text.pattern {
			t.Error("blocks that read texts alike have tables of their own")
		}
	}
	var various []string
	for i := range readingsMax + 1 {
		various = append(various, fmt.Sprintf(`\w{%d,}`, i+1))
	}
	long := "[" + strings.Repeat(`\w`, 99) + "]"
	for want, file := range map[string]string{
		"block 64: more than 64 blocks of text":             textBlocks(slices.Repeat([]string{`\w+`}, textBlocksMax+1)...),
		"block 16: blocks read texts in more than 16 ways":  textBlocks(various...),
		"all different ones have 402 bytes, more than 400":  textBlocks(long, strings.ReplaceAll(long, "w", "s"), `\w`),
		"block 0: token_pattern: longer than 200 bytes, or": textBlocks(long + "{12}"),
	} {
		if _, err := Parse("x", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Parse("x", []byte(textBlocks(various[1:]...))); err != nil {
		t.Error(err)
	}
}

// Each [ of the text may begin what only the end of the text refuses, so the time of a
// search without a bound is the square of the length: an hour for 1 MB.
func TestPatternsThatLookFarAheadRefuseTheTextAlone(t *testing.T) {
	m, err := Parse("x", []byte(textBlocks(`\[[^*]*\*|a+`)))
	if err != nil {
		t.Fatal(err)
	}
	texts := [][]byte{[]byte("a aa"), []byte(strings.Repeat("[ a", 50_000)), []byte("[ a aa"), []byte(strings.Repeat("a [*", 50_000))}
	scores := make([]float32, len(texts))
	err = m.Predict(t.Context(), model.Rows{BytesWidth: 1, Bytes: texts}, scores)
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Row != 1 || !strings.Contains(err.Error(), `input "text": the token_pattern of the model looks too far ahead in this text`) {
		t.Fatal(err)
	}
	if want := []float32{3, 0, 3, 50_000}; !slices.Equal(scores, want) {
		t.Errorf("%v, want %v", scores, want)
	}
	var score [1]float64
	if err := m.Score([]string{string(texts[1])}, score[:]); !errors.Is(err, errLook) {
		t.Error(err)
	}
	if err := m.Score([]string{"aa"}, score[:]); err != nil || score[0] != 2 {
		t.Errorf("behind a text that is refused: %v, %v", score, err)
	}
}

// TestCountedSearchesFindTheSame compares searches that count what they read with those
// that do not.
func TestCountedSearchesFindTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	expressions := []string{`a+|b`, `[^c]*c|a`, `a{2,3}?`, `(?:ab|a)(?:c|bcd)`, `\x{e9}a*|[^\x{61}-\x{63}]`, `(?:a|ab)*c`, `.+`}
	for range 3000 {
		expression := regexp.MustCompile(expressions[r.IntN(len(expressions))])
		var text []byte
		for range r.IntN(40) {
			text = append(text, []string{"a", "b", "c", "d", "é", "\n", "\u0800"}[r.IntN(7)]...)
		}
		counted := &search{expression: expression, counted: true, left: 1 << 30}
		plain := &search{expression: expression}
		for at := 0; at < len(text); {
			got, err := counted.next(text[at:])
			want, _ := plain.next(text[at:])
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s in %q: %v, want %v (%v)", expression, text[at:], got, want, err)
			}
			if want == nil || want[1] == 0 {
				break
			}
			at += want[1]
		}
	}
}
