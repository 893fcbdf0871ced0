package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Refuse returns the answer to a frame of a client that is not taken. It says which request or
// event it is of, where that can be read: its sender may have many on their way.
func Refuse(data []byte, problem *Error) *ErrorFrame {
	var of struct {
		ID            int64  `json:"id"`
		EventID       string `json:"eventId"`
		CorrelationID string `json:"correlationId"`
	}
	_ = json.Unmarshal(data, &of) // fields that are of another type are passed over
	if ValidID(of.EventID) {
		problem.EventID = of.EventID
	}
	answer := &ErrorFrame{ID: of.ID, Error: problem}
	if ValidCorrelation(of.CorrelationID) {
		answer.CorrelationID = of.CorrelationID
	}
	return answer
}

func badFrame(format string, args ...any) *Error {
	return &Error{Code: CodeBadFrame, Message: fmt.Sprintf(format, args...)}
}

// inFrames says what a value of Go is in a frame.
var inFrames = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Uint64: "a whole number",
	reflect.String: "a string", reflect.Bool: "true or false", reflect.Struct: "an object", reflect.Pointer: "an object",
}

// explain says what is wrong with the JSON of a frame in the words of its protocol,
// where those of encoding/json are about the types of this package.
func explain(err error) string {
	text := err.Error()
	var mismatch *json.UnmarshalTypeError
	var clock *time.ParseError
	switch {
	case errors.As(err, &mismatch) && mismatch.Field == "":
		return "found " + mismatch.Value
	case errors.As(err, &mismatch):
		return fmt.Sprintf("%s: found %s, use %s", mismatch.Field, mismatch.Value, inFrames[mismatch.Type.Kind()])
	case errors.As(err, &clock), strings.HasPrefix(text, "Time.UnmarshalJSON"):
		return "a time is none of RFC 3339: write it as 2006-01-02T15:04:05Z"
	}
	return strings.TrimPrefix(text, "json: ")
}
