package tree

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// depthMax bounds the nesting of a document. A model nests 8 deep. Skipping fields recurses, so the
// bound keeps the stack small.
const depthMax = 64

// A document is a cursor over one JSON or UBJSON value. Each method consumes one whole value; a
// value of another type is a *formatError. A method allocates memory only after it has read the
// bytes that need it.
type document interface {
	object(visit func(key []byte) error) error
	array(visit func(index int) error) error
	text() (string, error)
	number() (float32, error) // rounded once, from the digits of the file
	integer() (int64, error)  // booleans are 0 and 1
	skip() error
	end() error // fails if anything follows the value
	offset() int
}

// open distinguishes JSON from UBJSON by content: in UBJSON the brace of an object is followed by
// the type of its first key's length.
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

// A formatError is an error in a document, and its place.
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

// within prepends a step to the path of an error.
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
