package tree

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// depthMax bounds the nesting of a document. A model nests 8 deep; skipping
// what is not needed recurses, so the bound keeps the stack small.
const depthMax = 64

// A document is a cursor over one JSON or UBJSON value. Each method consumes
// one whole value; a value of another type is a *formatError. Nothing is
// allocated before the bytes that justify it were seen.
type document interface {
	object(visit func(key []byte) error) error
	array(visit func(index int) error) error
	text() (string, error)
	number() (float32, error) // rounded once, from the digits of the file
	integer() (int64, error)  // booleans are 0 and 1
	skip() error
	end() error // nothing may follow the value
	offset() int
}

// open tells JSON from UBJSON by content: behind the brace of a UBJSON object
// stands the type of its first key's length.
func open(data []byte) (document, error) {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, errors.New("the file is empty")
	}
	if trimmed[0] != '{' {
		return nil, errors.New("neither JSON, UBJSON, text of LightGBM nor ONNX (hint: save the model as .json or .ubj of XGBoost, .txt of LightGBM, .json of CatBoost or .onnx; binary formats of XGBoost and CatBoost are not supported)")
	}
	if len(data) > 1 && data[0] == '{' && strings.IndexByte("iUIlL", data[1]) >= 0 {
		return &ubjDocument{data: data}, nil
	}
	return &jsonDocument{data: data}, nil
}

// A formatError is one thing wrong with a document and the place of it.
type formatError struct {
	path   string // "learner.objective.name"
	offset int    // in bytes, where reading stopped
	text   string
}

// Error returns path, message and byte offset.
func (e *formatError) Error() string {
	if e.path == "" {
		return fmt.Sprintf("%s at byte %d", e.text, e.offset)
	}
	return fmt.Sprintf("%s: %s at byte %d", e.path, e.text, e.offset)
}

// within puts a step of the path before the path of an error.
func within(step string, err error) error {
	if fault, ok := err.(*formatError); ok {
		if fault.path != "" && fault.path[0] != '[' {
			step += "."
		}
		fault.path = step + fault.path
	}
	return err
}

// clip shortens a name of the file for a message.
func clip(name []byte) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(string(name[:64]), "?") + "..."
	}
	return strings.ToValidUTF8(string(name), "?")
}
