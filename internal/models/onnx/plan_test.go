package onnx

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
	"github.com/afterbay/afterbay/model"
)

func floats(values ...float32) []byte {
	var raw []byte
	for _, value := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(value))
	}
	return raw
}

func numbers(t *testing.T, tensor Tensor) []float64 {
	t.Helper()
	n, err := oip.Elements(tensor.Shape)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]float64, n)
	for i := range list {
		list[i] = oip.Number(tensor.Datatype, tensor.Raw, i)
	}
	return list
}

func planOf(t *testing.T, g Graph, o Options) *plan {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(g, o, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// voice is the graph of a model that hears voices: state of [2, rows, 3], and
// rows of any length of which the last two samples are carried.
var voice = Graph{
	Inputs: []Tensor{
		{Name: "input", Datatype: "FP32", Shape: []int64{-1, -1}},
		{Name: "state", Datatype: "FP32", Shape: []int64{2, -1, 3}},
		{Name: "sr", Datatype: "INT64"},
	},
	Outputs: []Tensor{{Name: "output", Datatype: "FP32", Shape: []int64{-1, 1}}, {Name: "stateN", Datatype: "FP32", Shape: []int64{-1, -1, -1}}},
}

var voiceOptions = Options{
	Inputs: []Input{{Name: "input", Carry: 2}, {Name: "sr", Kind: Constant, Constant: []float64{16000}}},
	States: []State{{Input: "state", Output: "stateN"}},
	Batch:  8,
}

func TestStateOfEachRowStandsInTheMiddleOfItsTensor(t *testing.T) {
	p := planOf(t, voice, voiceOptions)
	if p.state != 8 || p.scores != 9 || p.bytesWidth != 2 {
		t.Fatalf("state %d, scores %d, columns %d", p.state, p.scores, p.bytesWidth)
	}
	rows := model.Rows{BytesWidth: 2, N: 2, Bytes: [][]byte{
		floats(10, 11, 12), floats(1, 2, 3, 4, 5, 6, -7, -8),
		floats(20, 21, 22), nil,
	}}
	if spans := p.spans(rows); !slices.Equal(spans, []span{{0, 2}}) {
		t.Fatalf("spans %v", spans)
	}
	var s scratch
	p.fill(&s, rows, span{0, 2})
	want := []Tensor{
		{Name: "input", Datatype: "FP32", Shape: []int64{2, 5}, Raw: floats(-7, -8, 10, 11, 12, 0, 0, 20, 21, 22)},
		{Name: "sr", Datatype: "INT64", Shape: nil, Raw: binary.LittleEndian.AppendUint64(nil, 16000)},
		{Name: "state", Datatype: "FP32", Shape: []int64{2, 2, 3}, Raw: floats(1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0)},
	}
	for i := range want {
		got := s.tensors[i]
		if got.Name != want[i].Name || !slices.Equal(got.Shape, want[i].Shape) || !slices.Equal(got.Raw, want[i].Raw) {
			t.Errorf("tensor %s of %d: %v, expected %s of %d: %v", got.Name, got.Shape, numbers(t, got), want[i].Name, want[i].Shape, numbers(t, want[i]))
		}
	}
	scores := make([]float32, 18)
	answer := []Tensor{
		{Name: "output", Datatype: "FP32", Shape: []int64{2, 1}, Raw: floats(0.5, 0.25)},
		{Name: "stateN", Datatype: "FP32", Shape: []int64{2, 2, 3}, Raw: floats(1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12)},
	}
	if err := p.read(&s, rows, span{0, 2}, answer, scores); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0.5, 1, 2, 3, 4, 5, 6, 11, 12, 0.25, 7, 8, 9, 10, 11, 12, 21, 22}; !slices.Equal(scores, want) {
		t.Errorf("scores %v, expected %v", scores, want)
	}
	if got := model.AppendState(nil, scores[1:9]); !slices.Equal(got, floats(1, 2, 3, 4, 5, 6, 11, 12)) {
		t.Errorf("state %v", got)
	}
	answer[1].Shape = []int64{2, 3, 2}
	if err := p.read(&s, rows, span{0, 2}, answer, scores); err == nil || !strings.Contains(err.Error(), "the state has the shape") {
		t.Errorf("a state of another shape: %v", err)
	}
}

func TestRowsShorterThanWhatIsCarriedCarryOn(t *testing.T) {
	p := planOf(t, voice, voiceOptions)
	rows := model.Rows{BytesWidth: 2, N: 1, Bytes: [][]byte{floats(10), floats(1, 2, 3, 4, 5, 6, -7, -8)}}
	scores := make([]float32, 9)
	p.readCarried(&p.feeds[0], rows, span{0, 1}, scores)
	if scores[7] != -8 || scores[8] != 10 {
		t.Errorf("carried %v", scores[7:])
	}
}

func TestRowsOfOtherLengthsAreOtherCalls(t *testing.T) {
	p := planOf(t, voice, voiceOptions)
	var rows model.Rows
	rows.BytesWidth = 2
	for _, length := range []int{3, 3, 4, 3, 3, 3} {
		rows.Append(nil, [][]byte{make([]byte, 4*length), nil})
	}
	if spans := p.spans(rows); !slices.Equal(spans, []span{{0, 2}, {2, 3}, {3, 6}}) {
		t.Errorf("spans %v", spans)
	}
	p.batch = 2
	if spans := p.spans(rows); !slices.Equal(spans, []span{{0, 2}, {2, 3}, {3, 5}, {5, 6}}) {
		t.Errorf("spans %v", spans)
	}
}

func TestRowsThatCannotBeScoredAreNamed(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	mixed := Graph{
		Inputs: []Tensor{
			{Name: "f", Datatype: "FP32", Shape: []int64{-1, 2}},
			{Name: "i", Datatype: "UINT8", Shape: []int64{-1}},
			{Name: "s", Datatype: "BYTES", Shape: []int64{-1, 1}},
			{Name: "r", Datatype: "FP16", Shape: []int64{-1, 3, -1}},
		},
		Outputs: []Tensor{{Name: "y", Datatype: "FP32", Shape: []int64{-1, 1}}},
	}
	m := &Model{plan: planOf(t, mixed, Options{})}
	text, raw := []byte("a"), make([]byte, 6)
	for _, c := range []struct {
		values []float64
		bytes  [][]byte
		want   string
	}{
		{[]float64{1, 2, 3}, [][]byte{text, raw}, ""},
		{[]float64{1, 2, 255}, [][]byte{{}, make([]byte, 12)}, ""},
		{[]float64{1, 2}, [][]byte{text, raw}, "a row of 2 numbers"},
		{[]float64{1, nan, 3}, [][]byte{text, raw}, `"f": it is missing`},
		{[]float64{1, inf, 3}, [][]byte{text, raw}, `"f": it is +Inf`},
		{[]float64{1, 2, 256}, [][]byte{text, raw}, `"i": 256 is no UINT8`},
		{[]float64{1, 2, -1}, [][]byte{text, raw}, `"i": -1 is no UINT8`},
		{[]float64{1, 2, 0.5}, [][]byte{text, raw}, `"i": 0.5 is not an integer, as UINT8 wants`},
		{[]float64{1, 2, nan}, [][]byte{text, raw}, `"i": it is missing`},
		{[]float64{1, 2, 3}, [][]byte{nil, raw}, `"s": it is missing`},
		{[]float64{1, 2, 3}, [][]byte{{'a', 0}, raw}, `"s": a zero byte`},
		{[]float64{1, 2, 3}, [][]byte{text, nil}, `"r": it is missing`},
		{[]float64{1, 2, 3}, [][]byte{text, {}}, `"r": 0 bytes`},
		{[]float64{1, 2, 3}, [][]byte{text, make([]byte, 7)}, `"r": 7 bytes`},
		{[]float64{1, 2, 3}, [][]byte{text, make([]byte, 8)}, `"r": 4 elements`},
		{[]float64{1, 2, 3}, [][]byte{text, {0, 0x7c, 0, 0, 0, 0}}, `"r": its elements are not all finite`},
		{[]float64{1, 2, 3}, [][]byte{make([]byte, 2<<20), raw}, `"s": a zero byte`},
		{[]float64{1, 2, 3}, [][]byte{text, make([]byte, 6<<18)}, "the limit is 1048576"},
	} {
		err := m.Check(c.values, c.bytes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, expected %q", c.values, err, c.want)
		}
	}
	info := m.Info()
	if info.Width() != 3 || info.BytesWidth() != 2 || info.Scores() != 1 {
		t.Errorf("%+v", info)
	}
	lenient := &Model{plan: planOf(t, Graph{Inputs: mixed.Inputs[:1], Outputs: mixed.Outputs}, Options{Inputs: []Input{{Name: "f", Missing: true}}})}
	if err := lenient.Check([]float64{1, nan}, nil); err != nil {
		t.Error(err)
	}
}

func TestStateThatIsNoneIsRefused(t *testing.T) {
	m := &Model{plan: planOf(t, voice, voiceOptions)}
	for _, state := range [][]byte{{}, make([]byte, 31), floats(1, 2, 3, 4, 5, 6, 7, float32(math.NaN()))} {
		if err := m.Check(nil, [][]byte{floats(1), state}); err == nil || !strings.Contains(err.Error(), "does not have 8") {
			t.Errorf("%d bytes: %v", len(state), err)
		}
	}
	if err := m.Check(nil, [][]byte{floats(1), nil}); err != nil {
		t.Error(err)
	}
}

func TestDigestIsOfTheTokenizerToo(t *testing.T) {
	of := func(vocabulary string) string {
		tokenizer, err := wordpiece.Parse("vocab.txt", []byte(vocabulary), wordpiece.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return Options{Inputs: []Input{{Name: "length", Kind: Numbers}, {Name: "text", Kind: TokenIDs, Tokens: &Tokens{Tokenizer: tokenizer}}}}.digest("model")
	}
	const vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n"
	one, same, other := of(vocabulary), of(vocabulary), of(strings.Replace(vocabulary, "hello", "hallo", 1))
	if one != same || one == other || one == "model" || len(one) != 64 {
		t.Errorf("the digests are %s, %s and, with another vocabulary, %s", one, same, other)
	}
	if got := (Options{Inputs: []Input{{Name: "length", Kind: Numbers}}}).digest("model"); got != "model" {
		t.Errorf("without a tokenizer the digest is %s, not that of the file", got)
	}
}

func TestTokensArePaddedAndPooledByTheirMask(t *testing.T) {
	vocabulary := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n"
	tokenizer, err := wordpiece.Parse("vocab.txt", []byte(vocabulary), wordpiece.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shape := []int64{-1, -1}
	g := Graph{
		Inputs:  []Tensor{{Name: "input_ids", Datatype: "INT64", Shape: shape}, {Name: "attention_mask", Datatype: "INT32", Shape: shape}},
		Outputs: []Tensor{{Name: "hidden", Datatype: "FP32", Shape: []int64{-1, -1, 2}}},
	}
	o := Options{
		Inputs:  []Input{{Name: "text", Kind: TokenIDs, Tokens: &Tokens{Tokenizer: tokenizer, Max: 4}}},
		Outputs: []Output{{Name: "hidden", As: "vector", Pool: "mean", Normalize: true}},
		Batch:   2,
	}
	p := planOf(t, g, o)
	rows := model.Rows{BytesWidth: 1, N: 2, Bytes: [][]byte{[]byte("hello"), []byte("hello world hello world")}}
	var s scratch
	p.fill(&s, rows, span{0, 2})
	if got := numbers(t, s.tensors[0]); !slices.Equal(got, []float64{2, 5, 3, 0, 2, 5, 6, 3}) || !slices.Equal(s.tensors[0].Shape, []int64{2, 4}) {
		t.Errorf("ids %v of %d", got, s.tensors[0].Shape)
	}
	if got := numbers(t, s.tensors[1]); !slices.Equal(got, []float64{1, 1, 1, 0, 1, 1, 1, 1}) {
		t.Errorf("mask %v", got)
	}
	answer := Tensor{Name: "hidden", Datatype: "FP32", Shape: []int64{2, 4, 2}, Raw: floats(
		3, 0, 3, 4, 3, 8, 99, 99,
		0, 1, 0, 1, 0, 1, 0, 5)}
	scores := make([]float32, 4)
	if err := p.read(&s, rows, span{0, 2}, []Tensor{answer}, scores); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0.6, 0.8, 0, 1}; !slices.Equal(scores, want) {
		t.Errorf("scores %v, expected %v", scores, want)
	}
	if got := p.info.Outputs[0]; got.Name != "vector" || got.Size != 2 {
		t.Errorf("output %+v", got)
	}
}

func TestGraphsThatRowsCannotFeedAreRefusedByName(t *testing.T) {
	x := Tensor{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}}
	y := Tensor{Name: "y", Datatype: "FP32", Shape: []int64{-1, 1}}
	with := func(datatype string, shape ...int64) []Tensor {
		return []Tensor{{Name: "x", Datatype: datatype, Shape: shape}}
	}
	for _, c := range []struct {
		inputs, outputs []Tensor
		options         Options
		want            string
	}{
		{with("FP32"), []Tensor{y}, Options{}, "a scalar"},
		{with("FP32", 4, 2), []Tensor{y}, Options{}, "exactly 4 rows"},
		{with("FP32", -1, -1, -1), []Tensor{y}, Options{}, "more than one length"},
		{with("FP32", -1, -1), []Tensor{y}, Options{Inputs: []Input{{Name: "x", Kind: Numbers}}}, "open"},
		{with("FP32", -1, 3), []Tensor{y}, Options{Inputs: []Input{{Name: "x", Shape: []int{4}}}}, "not that of the graph"},
		{with("FP16", -1, 3), []Tensor{y}, Options{}, "cannot be FP16"},
		{with("BYTES", -1, 3), []Tensor{y}, Options{}, "a text is one element"},
		{with("", -1, 3), []Tensor{y}, Options{}, "not a tensor"},
		{with("FP32", -1, 1<<40), []Tensor{y}, Options{}, "elements are possible"},
		{with("FP32", -1, 1<<19), []Tensor{y}, Options{}, "beyond the limit"},
		{[]Tensor{x}, []Tensor{y}, Options{Inputs: []Input{{Name: "z"}}}, `it has ["x"]`},
		{[]Tensor{x}, []Tensor{y}, Options{Inputs: []Input{}}, "is neither an input nor a state"},
		{[]Tensor{x}, []Tensor{y}, Options{Inputs: []Input{{Name: "x", Carry: 2}}}, "cannot carry 2"},
		{[]Tensor{x}, []Tensor{y}, Options{Inputs: []Input{{Name: "x", Kind: Constant, Constant: []float64{1, 2, 3}}}}, "3 elements for the shape"},
		{[]Tensor{x}, []Tensor{{Name: "y", Datatype: "BYTES"}}, Options{}, "no output of numbers"},
		{[]Tensor{x}, []Tensor{{Name: "y", Datatype: "FP32", Shape: []int64{-1, -1}}}, Options{}, "leaves open how many"},
		{[]Tensor{x}, []Tensor{y}, Options{Outputs: []Output{{Name: "y", Size: 3}}}, "1 scores, not 3"},
		{[]Tensor{x}, []Tensor{y}, Options{Outputs: []Output{{Name: "y"}, {Name: "y"}}}, "occurs twice"},
		{[]Tensor{x}, []Tensor{y}, Options{Outputs: []Output{{Name: "y", As: "state"}}}, "occurs twice"},
		{[]Tensor{x}, []Tensor{y}, Options{Outputs: []Output{{Name: "y", Pool: "mean"}}}, "pool needs the dimensions"},
		{[]Tensor{x}, []Tensor{y}, Options{States: []State{{Input: "x", Output: "z"}}}, `output "z"`},
		{with("FP32", -1, -1), []Tensor{y}, Options{States: []State{{Input: "x", Output: "y"}}}, "no fixed size"},
		{with("INT64", -1, 2), []Tensor{y}, Options{States: []State{{Input: "x", Output: "y"}}}, "only FP32"},
	} {
		_, err := newPlan(Graph{Inputs: c.inputs, Outputs: c.outputs}, c.options, 1<<20)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
}
