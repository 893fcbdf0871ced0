package serving_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/model"
)

// loud is a model that answers a text with its length, the text in capitals, a
// vector and bytes that are no text; with no capitals where there are none.
type loud struct{ spam }

func (loud) Info() model.Info {
	return described([]model.Output{
		{Name: "length", Size: 1}, {Name: "said", Size: 1, Type: model.String}, {Name: "vector", Size: 2}, {Name: "raw", Size: 1, Type: model.Bytes},
	}, model.Input{Name: "text", Type: model.String})
}

func (loud) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

func (loud) Answer(_ context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	for i, text := range rows.Bytes {
		copy(scores[3*i:], []float32{float32(len(text)), 0.5, -1})
		if texts[2*i] = bytes.ToUpper(text); bytes.Equal(text, texts[2*i]) {
			texts[2*i] = nil
		}
		texts[2*i+1] = []byte{0xff, byte(len(text))}
	}
	return nil
}

// word is loud without anything but its words.
type word struct{ loud }

func (m word) Info() model.Info {
	info := m.loud.Info()
	info.Outputs = info.Outputs[1:2]
	return info
}

func (word) Answer(_ context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	for i, text := range rows.Bytes {
		texts[i] = bytes.ToUpper(text)
	}
	return nil
}

func startLoud(t *testing.T) string {
	return start(t, []serving.Named{{Name: "loud", Model: loud{}}, {Name: "word", Model: word{}}}, serving.ServerOptions{})
}

func TestTextsAreAnsweredLineByLine(t *testing.T) {
	url := startLoud(t)
	body := "{\"text\":\"a\\u00e9,\"}\n{\"text\":7}\n{\"text\":\"A\"}\n"
	wantLines(t, "lines", stream(t, url+"/v1/models/loud:predict-stream", "application/x-ndjson", body),
		`{"index":0,"prediction":{"length":4,"said":"AÉ,","vector":[0.5,-1],"raw":"/wQ="}}`,
		`{"index":1,"error":{"code":"bad_record","message":"text: not a string","line":2,"retryable":false}}`,
		`{"index":2,"prediction":{"length":1,"said":null,"vector":[0.5,-1],"raw":"/wE="}}`,
		`{"done":true,"records":3,"ok":2,"errors":1,"model":"loud@1"}`)
	wantLines(t, "cells", stream(t, url+"/v1/models/loud:predict-stream", "application/x-ndjson", body, "Accept", "text/csv"),
		"index,id,length,said,vector_0,vector_1,raw,error",
		"0,,4,\"AÉ,\",0.5,-1,/wQ=,",
		"1,,,,,,,bad_record: line 2: text: not a string",
		"2,,1,,0.5,-1,/wE=,",
		`done,,,,,,,"{""done"":true,""records"":3,""ok"":2,""errors"":1,""model"":""loud@1""}"`)
	wantLines(t, "one text", stream(t, url+"/v1/models/word:predict-stream", "application/x-ndjson", "{\"text\":\"a\"}\n"),
		`{"index":0,"prediction":"A"}`, `{"done":true,"records":1,"ok":1,"errors":0,"model":"word@1"}`)
}

func TestTextsAreAnsweredByTensors(t *testing.T) {
	url := startLoud(t)
	response, text := ask(t, http.MethodGet, url+"/v2/models/loud", "")
	wantText(t, "metadata", response, text, 200, `{"inputs":[{"name":"text","datatype":"BYTES","shape":[-1,1]}],"name":"loud","outputs":[{"name":"length","datatype":"FP32","shape":[-1,1]},`+
		`{"name":"said","datatype":"BYTES","shape":[-1,1]},{"name":"vector","datatype":"FP32","shape":[-1,2]},{"name":"raw","datatype":"BYTES","shape":[-1,1]}],"platform":"afterbay_test","versions":["1"]}`)
	const inputs = `"inputs":[{"name":"text","shape":[2],"datatype":"BYTES","data":["a","B"]}]`
	response, text = ask(t, http.MethodPost, url+"/v2/models/loud/infer", "{"+inputs+"}", "Content-Type", jsonType)
	wantText(t, "JSON", response, text, 200, `{"model_name":"loud","model_version":"1","outputs":[{"name":"length","datatype":"FP32","shape":[2,1],"data":[1,1]},`+
		`{"name":"said","datatype":"BYTES","shape":[2,1],"data":["A",""]},{"name":"vector","datatype":"FP32","shape":[2,2],"data":[0.5,-1,0.5,-1]},`+
		`{"name":"raw","datatype":"BYTES","shape":[2,1],"parameters":{"content_type":"base64"},"data":["/wE=","/wE="]}]}`)
	response, text = ask(t, http.MethodPost, url+"/v2/models/loud/infer",
		"{"+inputs+`,"outputs":[{"name":"raw","parameters":{"binary_data":true}},{"name":"vector","parameters":{"binary_data":true}}]}`, "Content-Type", jsonType)
	n, err := strconv.Atoi(response.Header.Get("Inference-Header-Content-Length"))
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v: %s %s", err, response.Status, text)
	}
	want := `{"model_name":"loud","model_version":"1","outputs":[{"name":"vector","datatype":"FP32","shape":[2,2],"parameters":{"binary_data_size":16}},` +
		`{"name":"raw","datatype":"BYTES","shape":[2,1],"parameters":{"binary_data_size":12}}]}`
	if text[:n] != want || !strings.HasSuffix(text, "\x02\x00\x00\x00\xff\x01\x02\x00\x00\x00\xff\x01") || math.Float32frombits(binary.LittleEndian.Uint32([]byte(text[n:]))) != 0.5 {
		t.Errorf("%q\nwant %s", text, want)
	}
	response, text = ask(t, http.MethodPost, url+"/v1/embeddings", `{"model":"word","input":"a"}`, "Content-Type", jsonType)
	if response.StatusCode != 400 || !strings.Contains(text, "wrong_model") {
		t.Errorf("embeddings: %s %s", response.Status, text)
	}
}

// TestTextsServedHereCanBeAskedAsRemoteModels asks in each encoding of the protocol
// that package internal/models/remote speaks.
func TestTextsServedHereCanBeAskedAsRemoteModels(t *testing.T) {
	url := startLoud(t)
	for _, o := range []remote.Options{{URL: "grpc://" + strings.TrimPrefix(url, "http://")}, {URL: url}, {URL: url, JSON: true}} {
		o.Model, o.Inputs, o.Outputs = "loud", loud{}.Info().Inputs, loud{}.Info().Outputs
		m, err := remote.Load(t.Context(), o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		scores, texts := make([]float32, 6), make([][]byte, 4)
		err = calling.Ask(t.Context(), m, model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte("ab"), []byte("C")}, N: 2}, scores, texts)
		if err != nil || !slices.Equal(scores, []float32{2, 0.5, -1, 1, 0.5, -1}) || string(bytes.Join(texts, []byte{' '})) != "AB \xff\x02  \xff\x01" {
			t.Errorf("%+v: %v, %q, %v", o, scores, texts, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
