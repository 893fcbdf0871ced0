package oip

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

// protocol returns a function that makes messages of the protocol by the protobuf library.
func protocol(t *testing.T) func(name string) *dynamicpb.Message {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{ProtoName: Proto})}}
	files, err := compiler.Compile(t.Context(), ProtoName)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) *dynamicpb.Message {
		return dynamicpb.NewMessage(files[0].Messages().ByName(protoreflect.Name(name)))
	}
}

// again reads data as a message of the protocol, and writes it.
func again(m *dynamicpb.Message, data []byte) ([]byte, error) {
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	if err := protorange.Range(m, func(p protopath.Values) error {
		if p.Index(-1).Step.Kind() == protopath.UnknownAccessStep {
			return errors.New("a field is not in the protocol: " + p.Path.String())
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

var (
	word    = rapid.StringMatching(`[a-zäö]{0,5}`)
	tensors = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Tensor {
		return Tensor{
			Name: word.Draw(t, "name"), Datatype: word.Draw(t, "datatype"),
			Shape: rapid.SliceOfN(rapid.Int64Min(-1), 0, dimensionsMax).Draw(t, "shape"),
		}
	}), 0, 3)
)

func withRaw(t *rapid.T, list []Tensor) []Tensor {
	for i := range list {
		list[i].Raw = rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "raw")
	}
	return list
}

// TestMessagesAreThoseOfTheProtocol compares with the protobuf library: it reads what this package
// writes, and the other way round.
func TestMessagesAreThoseOfTheProtocol(t *testing.T) {
	of := protocol(t)
	same := func(t *rapid.T, name string, data []byte, parse func([]byte) (any, error), want any) {
		written, err := again(of(name), data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := parse(written)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%s: %v, %s", name, err, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		request := Request{
			Model: word.Draw(t, "model"), Version: word.Draw(t, "version"), ID: word.Draw(t, "id"),
			Inputs: withRaw(t, tensors.Draw(t, "inputs")), Outputs: rapid.SliceOfN(word, 0, 3).Draw(t, "outputs"),
		}
		same(t, "ModelInferRequest", request.Append(nil), func(b []byte) (any, error) { return ParseRequest(b) }, request)
		response := Response{Model: request.Model, Version: request.Version, ID: request.ID, Error: word.Draw(t, "error"), Outputs: request.Inputs}
		same(t, "ModelInferResponse", response.Append(nil), func(b []byte) (any, error) { return ParseResponse(b) }, response)
		metadata := Metadata{
			Name: request.Model, Versions: request.Outputs, Platform: request.Version, Error: response.Error,
			Inputs: tensors.Draw(t, "inputs"), Outputs: tensors.Draw(t, "outputs"),
		}
		same(t, "ModelMetadataResponse", metadata.Append(nil), func(b []byte) (any, error) { return ParseMetadata(b) }, metadata)
		names := func(b []byte) (any, error) {
			model, version, err := ParseMetadataRequest(b)
			return [2]string{model, version}, err
		}
		for _, name := range []string{"ModelMetadataRequest", "ModelReadyRequest"} {
			same(t, name, AppendMetadataRequest(nil, request.Model, request.Version), names, [2]string{request.Model, request.Version})
		}
	})
	for _, want := range []bool{true, false} {
		m := of("ModelReadyResponse")
		m.Set(m.Descriptor().Fields().ByNumber(1), protoreflect.ValueOfBool(want))
		data, err := proto.Marshal(m)
		if got, failed := ParseReady(data); err != nil || failed != nil || got != want {
			t.Errorf("ready: %v, not %v: %v, %v", got, want, err, failed)
		}
	}
}

// TestTypedContentsAreThoseOfTheProtocol reads contents that the protobuf library writes.
func TestTypedContentsAreThoseOfTheProtocol(t *testing.T) {
	of := protocol(t)
	for datatype, c := range map[string]struct {
		field  string
		values []float64
	}{
		"BOOL": {"boolContents", []float64{1, 0, 1}}, "INT8": {"intContents", []float64{-128, 0, 127}}, "INT16": {"intContents", []float64{-1, 300, -300}},
		"INT32": {"intContents", []float64{-1 << 31, 7, 1<<31 - 1}}, "INT64": {"int64Contents", []float64{-1 << 40, 0, 1 << 40}},
		"UINT8": {"uintContents", []float64{0, 255, 1}}, "UINT16": {"uintContents", []float64{65535, 0, 1}}, "UINT32": {"uintContents", []float64{1<<32 - 1, 0, 1}},
		"UINT64": {"uint64Contents", []float64{1 << 63, 0, 1}}, "FP32": {"fp32Contents", []float64{-0.5, 1.5, 3}}, "FP64": {"fp64Contents", []float64{-0.1, 1e300, 3}},
	} {
		list := make([]string, len(c.values))
		for i, value := range c.values {
			if list[i] = fmt.Sprintf("%g", value); datatype == "BOOL" {
				list[i] = fmt.Sprint(value == 1)
			} else if Size(datatype) > 0 && datatype[0] != 'F' {
				list[i] = fmt.Sprintf("%.0f", value)
			}
		}
		text := fmt.Sprintf(`{"outputs":[{"name":"x","datatype":%q,"shape":["3"],"contents":{%q:[%s,%s,%s]}}]}`, datatype, c.field, list[0], list[1], list[2])
		values := make([]float64, 3)
		got := parsed(t, of, text)
		if err := Floats(&got.Outputs[0], values); err != nil || !cmp.Equal(values, c.values) {
			t.Errorf("%s: %v, not %v: %v", datatype, values, c.values, err)
		}
	}
	bytesOf, _ := json.Marshal([][]byte{[]byte("a"), {}, []byte("bc")})
	got := parsed(t, of, `{"outputs":[{"name":"x","datatype":"BYTES","shape":["3"],"contents":{"bytesContents":`+string(bytesOf)+`}}]}`)
	if list, err := got.Outputs[0].Split(); err != nil || len(list) != 3 || string(list[0]) != "a" || len(list[1]) != 0 || string(list[2]) != "bc" {
		t.Errorf("BYTES: %q, %v", list, err)
	}
}

// parsed reads a ModelInferResponse that is given as JSON.
func parsed(t *testing.T, of func(string) *dynamicpb.Message, text string) Response {
	t.Helper()
	m := of("ModelInferResponse")
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseResponse(data)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// TestTensorsOfAMessageAreBounded sends tensors of two bytes. Each takes 100 bytes in memory.
func TestTensorsOfAMessageAreBounded(t *testing.T) {
	request := func(b []byte) error { _, err := ParseRequest(b); return err }
	response := func(b []byte) error { _, err := ParseResponse(b); return err }
	metadata := func(b []byte) error { _, err := ParseMetadata(b); return err }
	for _, c := range []struct {
		name  string
		field byte
		parse func([]byte) error
	}{
		{"inputs", 5, request}, {"outputs", 6, request}, {"raw contents", 7, request},
		{"outputs", 5, response}, {"raw contents", 6, response}, {"inputs", 4, metadata}, {"outputs", 5, metadata},
	} {
		for _, n := range []int{tensorsMax, tensorsMax + 1} {
			err := c.parse(bytes.Repeat([]byte{c.field<<3 | 2, 0}, n))
			bounded := err != nil && err.Error() == fmt.Sprintf("more than %d %s", tensorsMax, c.name)
			if bounded != (n > tensorsMax) {
				t.Errorf("%d %s: %v", n, c.name, err)
			}
		}
	}
}
