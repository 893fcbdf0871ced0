package oip

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/model"
)

func TestMessagesSurviveTheWay(t *testing.T) {
	request := Request{
		Model: "fraud", Version: "7", ID: "e-1", Outputs: []string{"predict", "margin"},
		Inputs: []Tensor{
			{Name: "values", Datatype: "FP32", Shape: []int64{2, 1}, Raw: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
			{Name: "text", Datatype: "BYTES", Shape: []int64{2}, Raw: AppendBytes(AppendBytes(nil, []byte("a")), nil)},
		},
	}
	if got, err := ParseRequest(request.Append(nil)); err != nil || !cmp.Equal(got, request) {
		t.Errorf("%v, %s", err, cmp.Diff(request, got))
	}
	response := Response{Model: "fraud", Version: "7", ID: "e-1", Error: "no such thing", Outputs: request.Inputs}
	if got, err := ParseResponse(response.Append(nil)); err != nil || !cmp.Equal(got, response) {
		t.Errorf("%v, %s", err, cmp.Diff(response, got))
	}
	metadata := Metadata{
		Name: "fraud", Versions: []string{"6", "7"}, Platform: "xgboost",
		Inputs:  []Tensor{{Name: "input", Datatype: "FP32", Shape: []int64{-1, 30}}},
		Outputs: []Tensor{{Name: "predict", Datatype: "FP64", Shape: []int64{-1}}},
	}
	if got, err := ParseMetadata(metadata.Append(nil)); err != nil || !cmp.Equal(got, metadata) {
		t.Errorf("%v, %s", err, cmp.Diff(metadata, got))
	}
}

// typed returns a response with one output whose contents are not raw.
func typed(datatype string, shape []byte, contents []byte) []byte {
	head := appendText(appendText(nil, 1, "out"), 2, datatype)
	head = append(head, shape...)
	head = protowire.AppendBytes(protowire.AppendTag(head, 5, protowire.BytesType), contents)
	return protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), head)
}

func TestContentsThatAreNotRawAreRead(t *testing.T) {
	packed := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte{3})
	single := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 3)
	varints := func(number protowire.Number, values ...int64) []byte {
		var list []byte
		for _, value := range values {
			list = protowire.AppendVarint(list, uint64(value))
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), list)
	}
	var floats, doubles []byte
	for _, value := range []float32{-1, 2, 3} {
		floats = protowire.AppendFixed32(protowire.AppendTag(floats, 6, protowire.Fixed32Type), math.Float32bits(value))
		doubles = binary.LittleEndian.AppendUint64(doubles, math.Float64bits(float64(value)))
	}
	doubles = protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), doubles)
	for datatype, contents := range map[string][]byte{
		"INT8": varints(2, -1, 2, 3), "INT16": varints(2, -1, 2, 3), "INT32": varints(2, -1, 2, 3), "INT64": varints(3, -1, 2, 3),
		"FP32": floats, "FP64": doubles,
	} {
		for _, shape := range [][]byte{packed, single} {
			got, err := ParseResponse(typed(datatype, shape, contents))
			if err != nil {
				t.Fatalf("%s: %v", datatype, err)
			}
			values := make([]float32, 3)
			if err := Floats(&got.Outputs[0], values); err != nil || values[0] != -1 || values[1] != 2 || values[2] != 3 {
				t.Errorf("%s: %v, %v", datatype, values, err)
			}
		}
	}
	for datatype, contents := range map[string][]byte{
		"UINT8": varints(4, 200, 2, 3), "UINT64": varints(5, 200, 2, 3),
	} {
		got, err := ParseResponse(typed(datatype, packed, contents))
		values := make([]float32, 3)
		if err != nil || Floats(&got.Outputs[0], values) != nil || values[0] != 200 {
			t.Errorf("%s: %v, %v", datatype, values, err)
		}
	}
	if _, err := ParseResponse(typed("FP32", packed, doubles)); err == nil {
		t.Error("contents of another type were taken")
	}
}

func TestNumbersKeepTheirValue(t *testing.T) {
	for datatype, values := range map[string][]float64{
		"BOOL": {0, 1}, "INT8": {-128, 127}, "UINT8": {0, 255}, "INT16": {-32768, 32767}, "UINT16": {65535},
		"INT32": {-1 << 31, 1<<31 - 1}, "UINT32": {1<<32 - 256}, "INT64": {-1 << 63, 1<<63 - 1<<40}, "UINT64": {1<<64 - 1<<40},
		"FP32": {math.SmallestNonzeroFloat32, -0.125, math.Inf(1)}, "FP64": {1e-45, -0.1, 1<<24 + 1, math.Inf(-1)},
	} {
		for _, value := range values {
			if err := CheckNumber(datatype, value); err != nil {
				t.Errorf("%s %g: %v", datatype, value, err)
			}
			tensor := Tensor{Name: "x", Datatype: datatype, Shape: []int64{1}, Raw: AppendNumber(nil, datatype, value)}
			var got [1]float64
			if err := Floats(&tensor, got[:]); err != nil || got[0] != value {
				t.Errorf("%s %g became %g: %v", datatype, value, got[0], err)
			}
		}
	}
	nan := math.NaN()
	for datatype, values := range map[string][]float64{
		"BOOL": {2, 0.5, nan}, "INT8": {-129, 128}, "UINT8": {-1, 256}, "INT64": {1 << 63, nan, 0.5}, "UINT64": {1 << 64, -1},
		"INT32": {1 << 31, math.Inf(1)}, "FP16": {0}, "FP32": {1e39, -1e39}, "BYTES": {0}, "TEXT": {0},
	} {
		for _, value := range values {
			if CheckNumber(datatype, value) == nil {
				t.Errorf("%s takes %g", datatype, value)
			}
		}
	}
	for bits, want := range map[uint16]float64{
		0x3c00: 1, 0xc000: -2, 0x0001: 1.0 / (1 << 24), 0x7bff: 65504, 0xfc00: math.Inf(-1), 0x8000: 0, 0: 0, 0x0400: 1.0 / (1 << 14), 0x3555: 0.333251953125,
	} {
		if got := half(bits); got != want {
			t.Errorf("half %#x is %g, not %g", bits, got, want)
		}
	}
	if got := half(0x7e00); got == got {
		t.Errorf("half NaN is %g", got)
	}
}

func TestScoresAreOfTheShapeThatWasAsked(t *testing.T) {
	raw := func(values ...float64) []byte {
		var out []byte
		for _, value := range values {
			out = AppendNumber(out, "FP32", value)
		}
		return out
	}
	outputs := []Tensor{
		{Name: "a", Datatype: "FP32", Shape: []int64{2}, Raw: raw(1, 2)},
		{Name: "b", Datatype: "FP32", Shape: []int64{2, 2}, Raw: raw(3, 4, 5, 6)},
	}
	scores := make([]float32, 6)
	if err := Scores(outputs, []model.Output{{Name: "b", Size: 2}, {Name: "a", Size: 1}}, 2, scores); err != nil {
		t.Fatal(err)
	}
	if want := []float32{3, 4, 1, 5, 6, 2}; !cmp.Equal(scores, want) {
		t.Errorf("%v, not %v", scores, want)
	}
	for name, one := range map[string]Tensor{
		"rows":    {Datatype: "FP32", Shape: []int64{1, 2}, Raw: raw(1, 2)},
		"size":    {Datatype: "FP32", Shape: []int64{2, 2}, Raw: raw(1, 2, 3, 4)},
		"bytes":   {Datatype: "FP32", Shape: []int64{2}, Raw: raw(1)},
		"more":    {Datatype: "FP32", Shape: []int64{2}, Raw: raw(1, 2, 3)},
		"type":    {Datatype: "BYTES", Shape: []int64{2}, Raw: make([]byte, 8)},
		"unknown": {Datatype: "FP7", Shape: []int64{2}, Raw: raw(1, 2)},
		"nan":     {Datatype: "FP32", Shape: []int64{2}, Raw: raw(1, float64(math.NaN()))},
		"scalar":  {Datatype: "FP32", Raw: raw(1)},
		"minus":   {Datatype: "FP32", Shape: []int64{2, -1}, Raw: raw(1, 2)},
		"huge":    {Datatype: "FP32", Shape: []int64{2, 1 << 31, 1 << 31}, Raw: raw(1, 2)},
	} {
		if err := Scores([]Tensor{one}, []model.Output{{Size: 1}}, 2, scores[:2]); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := Scores(outputs, []model.Output{{Name: "c", Size: 1}}, 2, scores[:2]); err == nil {
		t.Error("an absent output was taken")
	}
}

var mixed = []model.Input{
	{Name: "amount", Type: model.Number}, {Name: "text", Type: model.String},
	{Name: "box", Type: model.Number, Shape: []int{2, 2}}, {Name: "image", Type: model.Bytes},
}

func TestRowsBecomeTensors(t *testing.T) {
	rows := model.Rows{Width: 5, BytesWidth: 2}
	rows.Append([]float64{1, 2, 3, 4, 5}, [][]byte{[]byte("a"), {}})
	rows.Append([]float64{6, 7, 8, 9, 10}, [][]byte{[]byte("bc"), {0}})
	packed, err := Packed(mixed, "values")
	if err != nil {
		t.Fatal(err)
	}
	floats := func(tensor Tensor) []float64 {
		n, _ := Elements(tensor.Shape)
		out := make([]float64, n)
		if err := Floats(&tensor, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := packed.Fill(nil, rows)
	if len(got) != 3 || !cmp.Equal(got[0].Shape, []int64{2, 5}) || !cmp.Equal(floats(got[0]), rows.Values) {
		t.Errorf("packed: %v", got)
	}
	if texts, err := got[1].Split(); err != nil || got[1].Name != "text" || string(texts[1]) != "bc" || !cmp.Equal(got[1].Shape, []int64{2}) {
		t.Errorf("packed: %v, %v", got[1], err)
	}
	got = Columns(mixed).Fill(got, rows)
	if len(got) != 4 || !cmp.Equal(got[2].Shape, []int64{2, 2, 2}) || !cmp.Equal(floats(got[2]), []float64{2, 3, 4, 5, 7, 8, 9, 10}) {
		t.Errorf("columns: %v", got)
	}
	if err := packed.Check([]float64{1, float64(math.NaN()), 3, 4, 5}, [][]byte{{}, {}}); err != nil {
		t.Error(err)
	}
	if err := packed.Check([]float64{1, 2, 3, 4, 5}, [][]byte{{}, nil}); err == nil || !strings.Contains(err.Error(), `"image": it is missing`) {
		t.Error(err)
	}
	if err := packed.Fits(model.Rows{Width: 4, BytesWidth: 2, Values: make([]float64, 4), Bytes: make([][]byte, 2)}); err == nil {
		t.Error("rows of another width fit")
	}
}

func TestMetadataThatDiffersIsRefusedByName(t *testing.T) {
	number := func(name, datatype string, shape ...int64) Tensor {
		return Tensor{Name: name, Datatype: datatype, Shape: shape}
	}
	two := []model.Input{{Name: "amount", Type: model.Number}, {Name: "hour", Type: model.Number}}
	good := []struct {
		inputs  []model.Input
		tensors []Tensor
	}{
		{two, []Tensor{number("input-0", "FP32", -1, 2)}},
		{two, []Tensor{number("input-0", "FP64", -1, -1)}},
		{two, []Tensor{number("amount", "FP32", -1), number("hour", "INT64", -1, 1)}},
		{two[:1], []Tensor{number("amount", "FP32", -1, 1)}},
		{mixed, []Tensor{number("x", "FP32", -1, 5), number("text", "BYTES", -1), number("image", "BYTES", -1, 1)}},
		{mixed, []Tensor{number("text", "BYTES", -1), number("x", "FP32", -1, 5), number("image", "BYTES", -1, 1)}},
		{mixed, []Tensor{number("amount", "FP32", -1), number("text", "BYTES", -1), number("box", "UINT8", -1, 2, 2), number("image", "BYTES", -1)}},
	}
	for i, c := range good {
		if _, err := Match(c.inputs, c.tensors); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	bad := []struct {
		tensors []Tensor
		want    string
	}{
		{[]Tensor{number("hour", "FP32", -1), number("amount", "FP32", -1)}, `input 1 is "amount", but the server has "hour"`},
		{[]Tensor{number("amount", "FP32", -1)}, `input "hour" is not one`},
		{[]Tensor{number("amount", "FP32", -1), number("hour", "FP32", -1), number("day", "FP32", -1)}, `input "day"`},
		{[]Tensor{number("amount", "FP32", -1), number("hour", "BYTES", -1)}, `"hour" is a number, but the server wants BYTES`},
		{[]Tensor{number("amount", "FP32", -1), number("hour", "FP16", -1)}, `wants FP16`},
		{[]Tensor{number("amount", "FP32", -1), number("hour", "FP32", -1, 3)}, `wants shape [-1 3]`},
		{[]Tensor{number("input-0", "FP32", -1, 3)}, `a row has 2 values, but the server wants shape [-1 3]`},
		{[]Tensor{number("input-0", "FP32", 1, 2)}, `first dimension is not -1`},
		{[]Tensor{number("input-0", "FP32")}, `first dimension is not -1`},
		{[]Tensor{number("input-0", "FP32", -1, -1, -1)}, `the size of a row is open`},
		{[]Tensor{number("input-0", "FP32", -1, 0)}, `the size of a row is open`},
	}
	for i, c := range bad {
		if _, err := Match(two, c.tensors); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, not %s", i, err, c.want)
		}
	}
	l, err := Match(two, []Tensor{number("amount", "FP32", -1), number("hour", "INT64", -1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check([]float64{1, float64(math.NaN())}, nil); err == nil || !strings.Contains(err.Error(), `"hour": it is missing`) {
		t.Error(err)
	}
}

func FuzzMessages(f *testing.F) {
	request := Request{Model: "m", ID: "1", Inputs: []Tensor{{Name: "x", Datatype: "FP32", Shape: []int64{1}, Raw: make([]byte, 4)}}}
	f.Add(request.Append(nil))
	response := Response{ID: "1", Error: "e", Outputs: request.Inputs}
	f.Add(response.Append(nil))
	f.Add(typed("INT32", nil, []byte{0x12, 1, 5}))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ParseMetadata(data)
		if r, err := ParseRequest(data); err == nil {
			again, err := ParseRequest(r.Append(nil))
			if err != nil || len(r.Inputs) != len(again.Inputs) {
				t.Fatalf("%v, %v", r, err)
			}
			for i := range r.Inputs {
				if !bytes.Equal(r.Inputs[i].Raw, again.Inputs[i].Raw) {
					t.Fatalf("%v became %v", r.Inputs[i], again.Inputs[i])
				}
				_, _ = r.Inputs[i].Split()
			}
		}
		if r, err := ParseResponse(data); err == nil {
			_ = Scores(r.Outputs, []model.Output{{Size: 1}}, 1, make([]float32, 1))
		}
	})
}
