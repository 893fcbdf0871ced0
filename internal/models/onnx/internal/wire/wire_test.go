package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/models/oip"
)

func sample() []oip.Tensor {
	return []oip.Tensor{
		{Name: "x", Datatype: "FP32", Shape: []int64{2, 1}, Raw: make([]byte, 8)},
		{Name: "scalar", Datatype: "INT64", Raw: make([]byte, 8)},
		{Name: "s", Datatype: "BYTES", Shape: []int64{3}, Raw: oip.AppendBytes(oip.AppendBytes(oip.AppendBytes(nil, []byte("a")), nil), []byte("ccc"))},
		{Name: "none", Datatype: "BOOL", Shape: []int64{0, 5}, Raw: []byte{}},
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	inputs, outputs, err := ParseRequest(AppendRequest(nil, sample(), []string{"y", "z"}))
	if diff := cmp.Diff(sample(), inputs); err != nil || diff != "" || len(outputs) != 2 || outputs[1] != "z" {
		t.Errorf("request: %v %q %s", err, outputs, diff)
	}
	answer, err := ParseAnswer(AppendAnswer(nil, sample()))
	if diff := cmp.Diff(sample(), answer); err != nil || diff != "" {
		t.Errorf("answer: %v %s", err, diff)
	}
	g := Graph{Runtime: "r", Inputs: []oip.Tensor{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 3}}}, Outputs: []oip.Tensor{{Name: "y"}}}
	back, err := ParseGraph(AppendGraph(nil, g))
	if diff := cmp.Diff(g, back); err != nil || diff != "" {
		t.Errorf("graph: %v %s", err, diff)
	}
}

func TestFailuresComeBackAsFailures(t *testing.T) {
	var failure *Failure
	if _, err := ParseAnswer(AppendError(nil, "no")); !errors.As(err, &failure) || failure.Reason != "no" {
		t.Errorf("answer: %v", err)
	}
	failure = nil
	if _, err := ParseGraph(AppendNoGraph(nil, "nothing")); !errors.As(err, &failure) || failure.Reason != "nothing" {
		t.Errorf("graph: %v", err)
	}
}

func TestTensorsThatDoNotFitTheirShapeAreRefused(t *testing.T) {
	for _, c := range []oip.Tensor{
		{Datatype: "FP32", Shape: []int64{2}, Raw: make([]byte, 7)},
		{Datatype: "FP32", Shape: []int64{-1}},
		{Datatype: "FP32", Shape: []int64{1 << 20, 1 << 20}},
		{Datatype: "FP32", Shape: []int64{1 << 62, 1 << 62, 1 << 62}},
		{Datatype: "FP32", Shape: make([]int64, 33)},
		{Datatype: "FP99", Shape: []int64{0}},
		{Datatype: "", Shape: []int64{0}},
		{Datatype: "BYTES", Shape: []int64{1}, Raw: []byte{2, 0, 0, 0, 'a'}},
		{Datatype: "BYTES", Shape: []int64{1}, Raw: []byte{1, 0, 0, 0, 'a', 'b'}},
		{Datatype: "BYTES", Shape: []int64{2}, Raw: []byte{1, 0, 0, 0, 'a'}},
		{Datatype: "BYTES", Shape: []int64{1}, Raw: []byte{255, 255, 255, 255, 'a'}},
	} {
		if err := c.Check(); err == nil {
			t.Errorf("%s of %d with %d bytes passed", c.Datatype, c.Shape, len(c.Raw))
		}
		if _, _, err := ParseRequest(AppendRequest(nil, []oip.Tensor{c}, nil)); err == nil {
			t.Errorf("%s of %d with %d bytes was read", c.Datatype, c.Shape, len(c.Raw))
		}
	}
}

func TestFramesAreBoundedAndWhole(t *testing.T) {
	frame, err := End(append(Begin(nil), "hello"...))
	if err != nil {
		t.Fatal(err)
	}
	both := bytes.NewReader(append(append([]byte{}, frame...), frame...))
	for range 2 {
		got, err := ReadFrame(both, nil, 5)
		if err != nil || string(got) != "hello" {
			t.Errorf("%q %v", got, err)
		}
	}
	if _, err := ReadFrame(both, nil, 5); err != io.EOF {
		t.Errorf("%v, expected the end", err)
	}
	if _, err := ReadFrame(bytes.NewReader(frame), nil, 4); err == nil || !strings.Contains(err.Error(), "the limit is 4") {
		t.Errorf("%v", err)
	}
	for n := 1; n < len(frame); n++ {
		if _, err := ReadFrame(bytes.NewReader(frame[:n]), nil, 5); err == nil || err == io.EOF {
			t.Errorf("%d bytes of a frame: %v", n, err)
		}
	}
}

// FuzzMessages sees that no message makes a reader panic, and that what is read
// is written and read again as it was.
func FuzzMessages(f *testing.F) {
	f.Add(AppendRequest(nil, sample(), []string{"y"}))
	f.Add(AppendAnswer(nil, sample()))
	f.Add(AppendError(nil, "no"))
	f.Add(AppendNoGraph(nil, "no"))
	f.Add(AppendGraph(nil, Graph{Runtime: "r", Inputs: sample()}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if inputs, outputs, err := ParseRequest(data); err == nil {
			again, names, err := ParseRequest(AppendRequest(nil, inputs, outputs))
			if err != nil || len(again) != len(inputs) || len(names) != len(outputs) {
				t.Fatalf("%v: %d and %d tensors, %d and %d names", err, len(inputs), len(again), len(outputs), len(names))
			}
		}
		_, _ = ParseAnswer(data)
		_, _ = ParseGraph(data)
	})
}
