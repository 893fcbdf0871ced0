package text

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

func moderation(t testing.TB) (*Model, []string) {
	t.Helper()
	m, columns := readModeration(t).parse(t)
	return m, columns[0].Texts
}

func TestScoresDependOnTheRowAlone(t *testing.T) {
	g := readGolden(t, "testdata/golden.json.gz")
	for i := range g.Cases {
		c := &g.Cases[i]
		m, columns := c.parse(t)
		width := len(m.Outputs())
		all, one := make([]float64, len(c.Scores)*width), make([]float64, width)
		if err := m.ScoreRows(columns, len(c.Scores), all); err != nil {
			t.Fatal(err)
		}
		for _, row := range rand.Perm(len(c.Scores)) {
			alone := make([]Column, len(columns))
			for j, from := range columns {
				if from.Numbers != nil {
					alone[j].Numbers = from.Numbers[row : row+1]
				} else {
					alone[j].Texts = from.Texts[row : row+1]
				}
				if from.Missing != nil {
					alone[j].Missing = from.Missing[row : row+1]
				}
			}
			if err := m.ScoreRows(alone, 1, one); err != nil {
				t.Fatal(err)
			}
			for o, v := range one {
				if math.Float64bits(v) != math.Float64bits(all[row*width+o]) {
					t.Fatalf("%s: row %d alone is %v, in a batch %v", c.Name, row, v, all[row*width+o])
				}
			}
		}
	}
}

func TestGoroutinesShareAModel(t *testing.T) {
	m, texts := moderation(t)
	want := make([]float64, len(texts))
	if err := m.Score(texts, want); err != nil {
		t.Fatal(err)
	}
	bytes := make([][]byte, len(texts))
	for i, text := range texts {
		bytes[i] = []byte(text)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			got := make([]float64, len(texts))
			if err := m.ScoreBytes(bytes, got); err != nil || !slices.Equal(got, want) {
				t.Errorf("other scores, or %v", err)
			}
		})
	}
	group.Wait()
}

func TestScoringDoesNotAllocate(t *testing.T) {
	m, texts := moderation(t)
	scores := make([]float64, len(texts))
	bytes := make([][]byte, len(texts))
	for i, text := range texts {
		bytes[i] = []byte(text)
	}
	if n := testing.AllocsPerRun(5, func() { _ = m.Score(texts, scores) }); n > 2 && !raceEnabled() {
		t.Errorf("%v allocations for %d texts", n, len(texts))
	}
	if n := testing.AllocsPerRun(5, func() { _ = m.ScoreBytes(bytes, scores) }); n > 2 && !raceEnabled() {
		t.Errorf("%v allocations for %d texts of bytes", n, len(texts))
	}
}

// raceEnabled reports whether sync.Pool drops at random, which it does under
// the race detector only.
func raceEnabled() bool {
	kept := sync.Pool{}
	for range 64 {
		kept.Put(new(int))
		if kept.Get() == nil {
			return true
		}
	}
	return false
}

func TestBytesThatAreNoUTF8CountAsReplacements(t *testing.T) {
	m, _ := moderation(t)
	scores := make([]float64, 2)
	if err := m.Score([]string{"you id\xff\xc3iot \xe2\x82", "you id\ufffd\ufffdiot \ufffd\ufffd"}, scores); err != nil || scores[0] != scores[1] {
		t.Errorf("%v, %v", scores, err)
	}
}

func TestRowsThatCannotBeScoredAreRefused(t *testing.T) {
	g := readGolden(t, "testdata/golden.json.gz")
	at := slices.IndexFunc(g.Cases, func(c goldenCase) bool { return c.Name == "mixed" })
	m, columns := g.Cases[at].parse(t)
	set := func(change func([]Column)) error {
		row := make([]Column, len(columns))
		for i, from := range columns {
			row[i] = Column{Numbers: slices.Clone(from.Numbers), Texts: slices.Clone(from.Texts), Missing: slices.Clone(from.Missing)}
		}
		change(row)
		return m.ScoreRows(row, 2, make([]float64, 2*len(m.Outputs())))
	}
	if err := set(func([]Column) {}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func([]Column){
		`row 1: input "amount": is infinite`:                       func(c []Column) { c[1].Numbers[1] = math.Inf(-1) },
		`row 0: input "score": is missing`:                         func(c []Column) { c[5].Numbers[0] = math.NaN() },
		`row 0: input "text": is missing`:                          func(c []Column) { c[0].Missing = []bool{true, false} },
		`row 1: input "text": 1048577 bytes, the limit is 1048576`: func(c []Column) { c[0].Texts[1] = strings.Repeat("a", 1<<20+1) },
		`row 1: input "country": no category in row 1`:             func(c []Column) { c[3].Texts = c[3].Texts[:1] },
		`row 0: input "age": no number in row 0`:                   func(c []Column) { c[2] = Column{Texts: []string{"a", "b"}} },
		`row 0: input "text": no text in row 0`:                    func(c []Column) { c[0] = Column{Numbers: []float64{1, 2}} },
	} {
		if err := set(change); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if err := set(func(c []Column) { c[2].Numbers[0] = math.NaN() }); err != nil {
		t.Errorf("a missing age, which is filled: %v", err)
	}
	if err := m.ScoreRows(columns[:2], 1, make([]float64, 9)); err == nil {
		t.Error("too few columns pass")
	}
	if err := m.ScoreRows(columns, 2, make([]float64, 2)); err == nil {
		t.Error("too few scores pass")
	}
	if err := m.Score([]string{"a"}, make([]float64, 9)); err == nil {
		t.Error("a text for a model of six inputs passes")
	}
}

const small = `{"format":"afterbay text model","version":1,"source":"by hand",
"inputs":[{"name":"text","kind":"text"},{"name":"n","kind":"number"},{"name":"c","kind":"category"}],
"characters":{"word":[48,57,65,90,95,95,97,122],"space":[9,13,32,32],"decimal":[48,57],"cased":[65,90,97,122],"lower":[[65,90,1,32]],
	"strip_unicode":{"é":"e"}},
"blocks":[
	{"text":{"input":0,"analyzer":"word","lowercase":true,"token_pattern":"\\w+","ngram_range":[1,2],"stop_words":["the"],"vocabulary":["a","a b","b"],"idf":[1,2,3],"norm":"l2"}},
	{"numbers":{"inputs":[1],"steps":[{"do":"fill","values":[2]},{"do":"subtract","values":[1]}]}},
	{"category":{"input":2,"values":["x",null,"z"],"columns":[0,1,-1],"width":2,"unknown":"error","fill":"x"}}],
"steps":[{"do":"divide","values":[1,1,1,2,1,1]}],
"outputs":["yes"],
"members":[{"coef":[[1,2,3,4,5,6]],"intercept":[0.5],"link":"sigmoid","calibration":{"method":"sigmoid","a":[-1],"b":[0]}}]}`

// wrongFiles are a part of small, what stands in its place, and the error; an
// empty one is of a table that no block uses.
var wrongFiles = [][3]string{
	{`"version":1`, `"version":2`, "version is 2, this program reads 1"},
	{`afterbay text model`, `other`, `format is "other"`},
	{`"source"`, `"sauce"`, `unknown field "sauce"`},
	{`"kind":"number"`, `"kind":"date"`, `kind "date" of input 1`},
	{`"name":"n"`, `"name":"c"`, `"c" occurs twice`},
	{`"space":[9,13,32,32]`, `"space":[9,13,12,32]`, "characters.space"},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,0,32]]`, "characters.lower"},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,1,320]]`, "becomes something that is not ASCII"},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,1,32],[66,66,1,32]]`, "[66 66 1 32] overlaps an earlier range at 'B'"},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,2147483647,32]]`, "characters.lower"},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,1,32],[256,30000,1,1]]`, "characters.lower: more than 16384 characters"},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,1,32]],"ignorable":[931,931]`, `characters.ignorable: it has 'Σ', which has a lower case`},
	{`"lower":[[65,90,1,32]]`, `"lower":[[65,90,1,32]],"lower_text":{"é":"` + strings.Repeat("e", 33) + `"}`, `characters.lower_text: "é" becomes more than 32 characters`},
	{`"lowercase":true`, `"strip_accents":"unicode"`, ""},
	{`"lowercase":true,"token_pattern":"\\w+"`, `"lowercase":true,"token_pattern":"\\w{300}"`, "more than 256: repeat less often"},
	{`"do":"divide","values":[1,1,1,2,1,1]}`, strings.TrimSuffix(strings.Repeat(`"do":"norm","norm":"l2"},{`, 65), ",{"), "65 steps, more than 64"},
	{`{"é":"e"}`, `{"ée":"e"}`, ""},
	{`"analyzer":"word"`, `"analyzer":"lines"`, `analyzer "lines"`},
	{`"analyzer":"word"`, `"analyzer":"char"`, "neither token_pattern nor stop_words"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"\\w+(?=a)"`, "is not supported"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"(\\w+)"`, "is not supported"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"^\\w+"`, "is not supported"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"(?i)\\w+"`, "is not supported"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"\\w*"`, "matches the empty text"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"\\b[\\w']+\\b"`, `\b stands only around`},
	{`"token_pattern":"\\w+"`, `"token_pattern":"\\b[a-z]+"`, `\b stands only around`},
	{`"token_pattern":"\\w+"`, `"token_pattern":"[a-z]+\\b"`, `\b stands only around`},
	{`"token_pattern":"\\w+"`, `"token_pattern":"\\w++"`, "a quantifier follows another quantifier"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"[a-z"`, "] is missing"},
	{`"token_pattern":"\\w+"`, `"token_pattern":"a\\Zb"`, `\Z is not supported`},
	{`"ngram_range":[1,2]`, `"ngram_range":[1,17]`, "ngram_range [1 17]"},
	{`"vocabulary":["a","a b","b"]`, `"vocabulary":["a","b","a"]`, `term "a" occurs twice`},
	{`"vocabulary":["a","a b","b"]`, `"vocabulary":[]`, "vocabulary and hash are missing"},
	{`"vocabulary":["a","a b","b"]`, `"vocabulary":["a","b"]`, "3 idf for 2 columns"},
	{`"norm":"l2"`, `"norm":"l3"`, `norm "l3"`},
	{`"do":"subtract"`, `"do":"log"`, `"log" is not a step`},
	{`"do":"subtract","values":[1]`, `"do":"subtract","values":[1,2]`, "2 values for 1 columns"},
	{`"do":"divide","values":[1,`, `"do":"divide","values":[0,`, "divide by 0 in column 0"},
	{`"do":"divide"`, `"do":"add"`, "changes values that are missing"},
	{`"inputs":[1]`, `"inputs":[2]`, `input "c" is a category`},
	{`"inputs":[1]`, `"inputs":[3]`, "input 3 of 3"},
	{`"unknown":"error"`, `"unknown":"guess"`, `unknown "guess"`},
	{`"values":["x",null,"z"]`, `"values":["x",null,4]`, "is not of the kind of its input"},
	{`"values":["x",null,"z"]`, `"values":["x",null,"x"]`, "occurs twice"},
	{`"columns":[0,1,-1]`, `"columns":[0,2,-1]`, "value 1 has column 2 of 2"},
	{`"width":2`, `"width":99999999999`, "3 values have 3 columns"},
	{`[[1,2,3,4,5,6]]`, `[[1,2,3,4,5]]`, "5 coefficients of decision 0 for 6 columns"},
	{`[[1,2,3,4,5,6]]`, `["AAAAAAAA8H8="]`, "value 0 is +Inf"},
	{`[[1,2,3,4,5,6]]`, `["AAA="]`, "not a whole number of values"},
	{`"intercept":[0.5]`, `"intercept":[]`, "0 intercepts of 1 decisions"},
	{`"link":"sigmoid"`, `"link":"probit"`, `link "probit"`},
	{`"outputs":["yes"]`, `"outputs":["yes","no"]`, "1 decisions for 2 outputs"},
	{`"outputs":["yes"]`, `"outputs":[]`, "members or outputs are missing"},
	{`"a":[-1]`, `"a":[-1,2]`, "2 a and 1 b of 1 outputs"},
	{`"method":"sigmoid","a":[-1],"b":[0]`, `"method":"isotonic","x":[[1,1]],"y":[[0,1]]`, "do not ascend"},
	{`"method":"sigmoid"`, `"method":"beta"`, `calibration "beta"`},
	{`"link":"sigmoid",`, `"link":"sigmoid",}`, "invalid character"},
}

func TestFilesThatAreWrongAreRefusedByName(t *testing.T) {
	if _, err := Parse("small", []byte(small)); err != nil {
		t.Fatal(err)
	}
	for _, c := range wrongFiles {
		if strings.Count(small, c[0]) != 1 {
			t.Fatalf("%s is not there once", c[0])
		}
		_, err := Parse("small", []byte(strings.Replace(small, c[0], c[1], 1)))
		if c[2] == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: error is %v, want %q", c[1], err, c[2])
		}
	}
	if _, err := Parse("small", []byte(small+"{}")); err == nil {
		t.Error("something behind the model passes")
	}
	if _, err := ParseWith("small", []byte(small), Options{TextBytesMax: -1}); err == nil {
		t.Error("a negative limit passes")
	}
}

// naive scores a row of small by the book.
func naive(text string, n float64, missing bool, c string) float64 {
	var tokens []string
	for _, token := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z')
	}) {
		if token != "the" {
			tokens = append(tokens, token)
		}
	}
	var counts [3]float64
	for i, token := range tokens {
		counts[0] += map[bool]float64{true: 1}[token == "a"]
		counts[2] += map[bool]float64{true: 3}[token == "b"]
		if i > 0 {
			counts[1] += map[bool]float64{true: 2}[tokens[i-1]+" "+token == "a b"]
		}
	}
	if size := math.Sqrt(counts[0]*counts[0] + counts[1]*counts[1] + counts[2]*counts[2]); size > 0 {
		for i := range counts {
			counts[i] /= size
		}
	}
	if math.IsNaN(n) {
		n = 2
	}
	sum := counts[0] + 2*counts[1] + 3*counts[2] + 4*(n-1)/2 + 0.5
	if missing || c == "x" {
		sum += 5
	}
	first := 1 / (1 + math.Exp(-sum))
	return 1 / (1 + math.Exp(-first))
}

func TestRandomRowsScoreAsByTheBook(t *testing.T) {
	m, err := Parse("small", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	words := []string{"a", "b", "the", "A", "c", "a_b", "é", "B"}
	for range 2000 {
		var parts []string
		for range r.IntN(30) {
			parts = append(parts, words[r.IntN(len(words))])
		}
		text, n := strings.Join(parts, [...]string{" ", ", ", "\n"}[r.IntN(3)]), r.NormFloat64()
		if r.IntN(4) == 0 {
			n = math.NaN()
		}
		missing, c := r.IntN(3) == 0, [...]string{"x", "z"}[r.IntN(2)]
		var got [1]float64
		err := m.ScoreRows([]Column{{Texts: []string{text}}, {Numbers: []float64{n}}, {Texts: []string{c}, Missing: []bool{missing}}}, 1, got[:])
		if want := naive(text, n, missing, c); err != nil || math.Abs(got[0]-want) > 1e-14 {
			t.Fatalf("%q, %v, %v %s: %v, by the book %v, %v", text, n, missing, c, got[0], want, err)
		}
	}
	if err := m.CheckRow([]Column{{Texts: []string{""}}, {Numbers: []float64{1}}, {Texts: []string{"y"}}}, 0); err == nil {
		t.Error("an unknown category passes")
	}
}

// Texts with as many terms as a vocabulary has make the tally grow, and leave
// it clean for what follows.
func TestManyTermsAreCounted(t *testing.T) {
	var vocabulary []string
	for i := range 5000 {
		vocabulary = append(vocabulary, fmt.Sprintf("w%d", i))
	}
	list, _ := json.Marshal(vocabulary)
	coefs, _ := json.Marshal(slices.Repeat([]float64{1}, len(vocabulary)))
	m, err := Parse("many", []byte(`{"format":"afterbay text model","version":1,"inputs":[{"name":"text","kind":"text"}],
		"characters":{"word":[48,57,97,122]},"blocks":[{"text":{"analyzer":"word","token_pattern":"\\w+","ngram_range":[1,1],"vocabulary":`+
		string(list)+`}}],"outputs":["x"],"members":[{"coef":[`+string(coefs)+`],"intercept":[0],"link":"identity"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	scores := make([]float64, 3)
	if err := m.Score([]string{strings.Join(vocabulary, " ") + " w1 w1 none", "w7", ""}, scores); err != nil || !slices.Equal(scores, []float64{5002, 1, 0}) {
		t.Errorf("%v, %v", scores, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, `\\w+`, `(?:a|\\d)+?[^b]`, 1)))
	f.Add([]byte(strings.Replace(small, `"vocabulary":["a","a b","b"],"idf":[1,2,3]`, `"hash":{"columns":3,"alternate_sign":true}`, 1)))
	f.Add([]byte(strings.Replace(small, `"analyzer":"word","lowercase":true,"token_pattern":"\\w+","ngram_range":[1,2],"stop_words":["the"]`, `"analyzer":"char_wb","strip_accents":"unicode","ngram_range":[1,3]`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		columns := make([]Column, len(m.Inputs()))
		for i, in := range m.Inputs() {
			if columns[i].Texts = []string{"a b A the Σ é\xff 12"}; in.Kind == Number {
				columns[i] = Column{Numbers: []float64{math.NaN()}}
			}
		}
		_ = m.ScoreRows(columns, 1, make([]float64, len(m.Outputs())))
	})
}
