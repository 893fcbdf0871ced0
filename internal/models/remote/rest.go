package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// lengthHeader has the length of the JSON of a body. The binary tensors follow it.
const lengthHeader = "Inference-Header-Content-Length"

// rest calls over HTTP, with binary tensors or JSON.
type rest struct {
	web
	base string // URL up to the model and its version
	json bool
}

func newREST(o *Options, to *url.URL) *rest {
	base := *to
	base.Path, base.RawPath = "", ""
	path := strings.TrimSuffix(to.EscapedPath(), "/") + "/v2/models/" + url.PathEscape(o.Model)
	if o.Version != "" {
		path += "/versions/" + url.PathEscape(o.Version)
	}
	return &rest{web: newWeb(o), base: base.String() + path, json: o.JSON}
}

// metadataJSON is the answer to GET on a model.
type metadataJSON struct {
	Name     string
	Versions []string
	Platform string
	Inputs   []tensorJSON
	Outputs  []tensorJSON
}

// tensorJSON is a tensor in any message.
type tensorJSON struct {
	Name       string          `json:"name"`
	Datatype   string          `json:"datatype,omitempty"`
	Shape      []int64         `json:"shape,omitempty"`
	Parameters map[string]any  `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

type requestJSON struct {
	Parameters map[string]any `json:"parameters,omitempty"`
	Inputs     []tensorJSON   `json:"inputs"`
	Outputs    []tensorJSON   `json:"outputs,omitempty"`
}

type responseJSON struct {
	ModelName    string `json:"model_name"`
	ModelVersion string `json:"model_version"`
	ID           string `json:"id"`
	Outputs      []readJSON
}

// readJSON is a tensor with its values in data, or in the given number of bytes after the JSON.
type readJSON struct {
	Name       string
	Datatype   string
	Shape      []int64
	Parameters struct {
		Size        *int64 `json:"binary_data_size"`
		ContentType string `json:"content_type"`
	}
	Data json.RawMessage
}

func (r *rest) metadata(ctx context.Context) (oip.Metadata, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base, nil)
	if err != nil {
		return oip.Metadata{}, &Error{Fault: Failed, Err: err}
	}
	body, _, err := r.do(request, metadataBytesMax)
	if err != nil {
		return oip.Metadata{}, err
	}
	var answer metadataJSON
	if err := json.Unmarshal(body, &answer); err != nil {
		return oip.Metadata{}, fault(Malformed, "metadata: %w", err)
	}
	tensors := func(list []tensorJSON) []oip.Tensor {
		var out []oip.Tensor
		for _, t := range list {
			out = append(out, oip.Tensor{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
		}
		return out
	}
	return oip.Metadata{
		Name: answer.Name, Versions: answer.Versions, Platform: answer.Platform,
		Inputs: tensors(answer.Inputs), Outputs: tensors(answer.Outputs),
	}, nil
}

func (r *rest) isReady(ctx context.Context) error {
	known, err := r.knows(ctx, http.MethodGet, r.base+"/ready")
	if !known {
		return errUnknown
	}
	return err
}

func (r *rest) infer(ctx context.Context, q *oip.Request, answerBytesMax int64) (oip.Response, error) {
	body, header, err := r.encode(q)
	if err != nil {
		return oip.Response{}, &Error{Fault: Refused, Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/infer", bytes.NewReader(body))
	if err != nil {
		return oip.Response{}, &Error{Fault: Failed, Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	if !r.json {
		request.Header.Set("Content-Type", "application/octet-stream")
		request.Header.Set(lengthHeader, strconv.Itoa(header))
	}
	name(request, body)
	answer, headers, err := r.do(request, answerBytesMax)
	if err != nil {
		return oip.Response{}, err
	}
	response, err := decode(answer, headers.Get(lengthHeader))
	if err != nil {
		return response, &Error{Fault: Malformed, Err: err}
	}
	return response, nil
}

// encode returns a body and the length of its JSON.
func (r *rest) encode(q *oip.Request) ([]byte, int, error) {
	var head requestJSON
	for i := range q.Inputs {
		t := &q.Inputs[i]
		out := tensorJSON{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape}
		if r.json {
			data, err := text(t)
			if err != nil {
				return nil, 0, err
			}
			out.Data = data
		} else {
			out.Parameters = map[string]any{"binary_data_size": len(t.Raw)}
		}
		head.Inputs = append(head.Inputs, out)
	}
	for _, name := range q.Outputs {
		out := tensorJSON{Name: name}
		if !r.json {
			out.Parameters = map[string]any{"binary_data": true}
		}
		head.Outputs = append(head.Outputs, out)
	}
	if !r.json && len(q.Outputs) == 0 {
		head.Parameters = map[string]any{"binary_data_output": true}
	}
	body, err := json.Marshal(head)
	if err != nil {
		return nil, 0, err
	}
	length := len(body)
	if !r.json {
		for i := range q.Inputs {
			body = append(body, q.Inputs[i].Raw...)
		}
	}
	return body, length, nil
}

// text returns the values of a tensor as a flat array of JSON. Numbers are the shortest decimals
// that parse to the same value.
func text(t *oip.Tensor) (json.RawMessage, error) {
	if t.Datatype == "BYTES" {
		elements, err := t.Split()
		if err != nil {
			return nil, err
		}
		list := make([]string, len(elements))
		for i, element := range elements {
			list[i] = string(element)
		}
		return json.Marshal(list)
	}
	n, err := oip.Elements(t.Shape)
	if err != nil {
		return nil, err
	}
	values := make([]float64, n)
	if err := oip.Floats(t, values); err != nil {
		return nil, err
	}
	out := []byte{'['}
	for i, value := range values {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case t.Datatype == "BOOL":
			out = strconv.AppendBool(out, value != 0)
		case math.IsNaN(value) || math.IsInf(value, 0):
			return nil, fmt.Errorf("tensor %s has %g, which JSON has no place for", t.Name, value)
		case strings.HasPrefix(t.Datatype, "FP"):
			bits := 32
			if t.Datatype == "FP64" {
				bits = 64
			}
			out = strconv.AppendFloat(out, value, 'g', -1, bits)
		default:
			out = strconv.AppendFloat(out, value, 'f', 0, 64) // no exponent: an integer
		}
	}
	return append(out, ']'), nil
}

// checkText returns nil if JSON can represent a row that the tensors can, else the reason.
func checkText(l *oip.Layout, values []float64, bytes [][]byte) error {
	for i, value := range values {
		switch {
		case math.IsNaN(value):
			return &model.InputError{Name: l.Name(i, false), Err: errors.New("it is missing, which JSON has no place for: give a number in its place, or use gRPC or binary tensors")}
		case math.IsInf(value, 0):
			return &model.InputError{Name: l.Name(i, false), Err: fmt.Errorf("it is %g, which JSON has no place for: use gRPC or binary tensors", value)}
		}
	}
	for i, element := range bytes {
		if !utf8.Valid(element) {
			return &model.InputError{Name: l.Name(i, true), Err: errors.New("it is not UTF-8, which JSON wants: use gRPC or binary tensors")}
		}
	}
	return nil
}

// decode reads an answer. If length is set, the JSON ends after that many bytes.
func decode(body []byte, length string) (oip.Response, error) {
	head, binaries, err := split(body, length)
	if err != nil {
		return oip.Response{}, err
	}
	var answer responseJSON
	if err := json.Unmarshal(head, &answer); err != nil {
		return oip.Response{}, fmt.Errorf("the answer's JSON: %w", err)
	}
	response := oip.Response{Model: answer.ModelName, Version: answer.ModelVersion, ID: answer.ID}
	response.Outputs, err = tensorsOf(answer.Outputs, binaries)
	return response, err
}

// split cuts a body into its JSON and the bytes after it.
func split(body []byte, length string) (head, binaries []byte, err error) {
	if length == "" {
		return body, nil, nil
	}
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(body) {
		return nil, nil, fmt.Errorf("%s: %s of %d bytes", lengthHeader, brief(length), len(body))
	}
	return body[:n], body[n:], nil
}

// tensorsOf gives tensors their values.
func tensorsOf(list []readJSON, binaries []byte) ([]oip.Tensor, error) {
	var tensors []oip.Tensor
	for _, from := range list {
		t := oip.Tensor{Name: from.Name, Datatype: from.Datatype, Shape: from.Shape}
		if size := from.Parameters.Size; size != nil {
			if *size < 0 || *size > int64(len(binaries)) {
				return nil, fmt.Errorf("tensor %s of %d bytes, where %d are left", t.Name, *size, len(binaries))
			}
			t.Raw, binaries = binaries[:*size], binaries[*size:]
		} else if oip.Size(t.Datatype) > 0 {
			var err error
			if t, err = fromText(t, from.Data); err != nil {
				return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
			}
		} else if t.Datatype == "BYTES" {
			var list any
			if err := json.Unmarshal(from.Data, &list); err == nil {
				t.Raw = appendTexts(nil, list, from.Parameters.ContentType == "base64")
			}
		}
		tensors = append(tensors, t)
	}
	if len(binaries) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last tensor", len(binaries))
	}
	return tensors, nil
}

// appendTexts appends the texts of a list of JSON, nested by dimension or flat, in the encoding of
// BYTES. It omits elements that are not texts, so that the count is wrong and the caller notices.
func appendTexts(raw []byte, value any, coded bool) []byte {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			raw = appendTexts(raw, element, coded)
		}
	case string:
		text := []byte(value)
		if coded {
			var err error
			if text, err = base64.StdEncoding.DecodeString(value); err != nil {
				return raw
			}
		}
		raw = oip.AppendBytes(raw, text)
	}
	return raw
}

// fromText reads values from JSON, nested by dimension or flat, as FP32, the type of scores.
func fromText(t oip.Tensor, data json.RawMessage) (oip.Tensor, error) {
	n, err := oip.Elements(t.Shape)
	if err != nil {
		return t, err
	}
	t.Datatype = "FP32"
	t.Raw = slices.Grow(t.Raw, min(4*n, 2*len(data)+4))
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		value := 0.0
		switch token := token.(type) {
		case json.Delim:
			if token == '{' {
				return t, errors.New("an object among its values")
			}
			continue
		case float64:
			value = token
		case bool:
			if token {
				value = 1
			}
		default:
			return t, fmt.Errorf("%v among its values is not a number", token)
		}
		t.Raw = binary.LittleEndian.AppendUint32(t.Raw, math.Float32bits(float32(value)))
	}
}
