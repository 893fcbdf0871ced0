package wordpiece

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\naff\n,\nthe\ncafe\nCafé\n##s\n漢\n"

func tokenizer(t testing.TB, options Options) *Tokenizer {
	t.Helper()
	tokenizer, err := Parse("vocab.txt", []byte(lines), options)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

func TestWordsBecomePieces(t *testing.T) {
	uncased, cased := tokenizer(t, Options{}), tokenizer(t, Options{Cased: true})
	for _, c := range []struct {
		text  string
		limit int
		ids   []int64
	}{
		{"", 0, []int64{2, 3}},
		{"Unaffable, the CAFÉS", 0, []int64{2, 5, 6, 7, 9, 10, 11, 13, 3}},
		{"the unknowable the", 0, []int64{2, 10, 1, 10, 3}},
		{"the[MASK]the [mask]", 0, []int64{2, 10, 4, 10, 1, 1, 1, 3}},
		{"漢the漢", 0, []int64{2, 14, 10, 14, 3}},
		{"t\x00h\x01e\xff\ufffd \u00adthe", 0, []int64{2, 10, 10, 3}},
		{"unaffable the", 4, []int64{2, 5, 6, 3}},
		{"unaffable", 2, []int64{2, 3}},
		{strings.Repeat("un", 51), 0, []int64{2, 1, 3}},
	} {
		if got := uncased.Append(nil, c.text, c.limit); !slices.Equal(got, c.ids) {
			t.Errorf("%q up to %d: %v, want %v", c.text, c.limit, got, c.ids)
		}
	}
	if got, want := cased.Append([]int64{7}, "Café cafe", 0), []int64{7, 2, 12, 11, 3}; !slices.Equal(got, want) {
		t.Errorf("cased, behind a 7: %v, want %v", got, want)
	}
	if got, want := cased.Append([]int64{7}, "Café cafe", 1), []int64{7, 3}; !slices.Equal(got, want) {
		t.Errorf("up to 1, behind a 7: %v, want %v", got, want)
	}
}

func TestTokenizersAreSharedAndDoNotAllocate(t *testing.T) {
	g := readGolden(t, "testdata/bert.json.gz")[0]
	shared, err := Parse("bert", []byte(g.Tokenizer), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var ids []int64
			for i, text := range g.Texts {
				if ids = shared.Append(ids[:0], text, g.Limit); !slices.Equal(ids, g.IDs[i]) {
					t.Errorf("%q: other ids", text)
					return
				}
			}
		})
	}
	group.Wait()
	ids := make([]int64, 0, 1024)
	n := testing.AllocsPerRun(5, func() {
		for _, text := range g.Texts {
			ids = shared.Append(ids[:0], text, g.Limit)
		}
	})
	// sync.Pool drops now and then, under the race detector often.
	if n > float64(len(g.Texts)) {
		t.Errorf("%v allocations for %d texts", n, len(g.Texts))
	}
}

const file = `{"version":"1.0","truncation":null,"padding":null,
"added_tokens":[{"id":0,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},
"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"##b":4}}}`

func TestTokenizersThatAreWrongAreRefusedByName(t *testing.T) {
	if got, err := Parse("tokenizer.json", []byte(file), Options{}); err != nil || !slices.Equal(got.Append(nil, "Áb", 0), []int64{1, 3, 4, 2}) {
		t.Fatalf("%v", err)
	}
	for _, c := range [][3]string{
		{`"model":{"type":"WordPiece"`, `"model":{"type":"BPE"`, `model "BPE"`},
		{`"type":"BertNormalizer"`, `"type":"Sequence"`, "is not a BertNormalizer"},
		{`"type":"BertPreTokenizer"`, `"type":"Whitespace"`, "is not a BertPreTokenizer"},
		{`"type":"BertProcessing"`, `"type":"Sequence"`, `post_processor "Sequence"`},
		{`"cls":["[CLS]",1]`, `"cls":["[CLS]","1"]`, "post_processor"},
		{`"normalized":false`, `"normalized":true`, `added token "[UNK]"`},
		{`"max_input_chars_per_word":100`, `"max_input_chars_per_word":0`, "max_input_chars_per_word is 0"},
		{`"unk_token":"[UNK]"`, `"unk_token":"<unk>"`, `unknown token "<unk>"`},
		{`"a":3`, `"a":99999999`, `token "a" has id 99999999`},
		{`"a":3`, `"a":4`, "have id 4"},
		{`"content":"[UNK]"`, `"content":""`, "special token is empty"},
		{`"version":"1.0",`, `"version":`, "invalid"},
	} {
		_, err := Parse("tokenizer.json", []byte(strings.Replace(file, c[0], c[1], 1)), Options{})
		if err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: error is %v, want %q", c[1], err, c[2])
		}
	}
	for _, c := range [][2]string{
		{"[UNK]\n[CLS]\na\n", "[SEP] is not in the vocabulary of 3 tokens"},
		{lines + "un\n", `term "un" occurs twice`},
		{lines + "\xff\n", "not UTF-8"},
		{"", "[UNK] is not in the vocabulary"},
	} {
		if _, err := Parse("vocab.txt", []byte(c[0]), Options{}); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("error is %v, want %q", err, c[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file), "a b")
	f.Add([]byte(lines), "The [MASK] é\u302e\u302f\U0001d165漢\xff")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tokenizer, err := Parse("fuzz", data, Options{})
		if err != nil {
			return
		}
		if ids := tokenizer.Append(nil, text, 8); len(ids) > max(8, len(tokenizer.behind)) {
			t.Errorf("%d ids", len(ids))
		}
	})
}

// BenchmarkBERT splits the texts of the golden file that are short; many have
// odd characters.
func BenchmarkBERT(b *testing.B) {
	g := readGolden(b, "testdata/bert.json.gz")[0]
	bert, err := Parse("bert", []byte(g.Tokenizer), Options{})
	if err != nil {
		b.Fatal(err)
	}
	var texts []string
	size := 0
	for _, text := range g.Texts {
		if len(text) < 300 {
			texts, size = append(texts, text), size+len(text)
		}
	}
	processor := func() float64 {
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	start := processor()
	ids := make([]int64, 0, 1024)
	for b.Loop() {
		for _, text := range texts {
			ids = bert.Append(ids[:0], text, 128)
		}
	}
	b.ReportMetric(float64(b.N*len(texts))/(processor()-start), "texts/cpu-s")
}

func ExampleTokenizer_Append() {
	tokenizer, err := Parse("vocab.txt", []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\nchess\n"), Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tokenizer.Append(nil, "Playing Chess?", 128))
	// Output: [2 4 5 6 1 3]
}
