package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Refuse returns the answer to a client's frame that was rejected. If possible it includes the id
// of the request or event, because the client may have many in flight.
func Refuse(data []byte, problem *Error) *ErrorFrame {
	var of struct {
		ID            int64  `json:"id"`
		EventID       string `json:"eventId"`
		CorrelationID string `json:"correlationId"`
	}
	_ = json.Unmarshal(data, &of) // fields with another type are ignored
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

// inFrames describes a Go kind in terms of JSON.
var inFrames = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Uint64: "a whole number",
	reflect.String: "a string", reflect.Bool: "true or false", reflect.Struct: "an object", reflect.Pointer: "an object",
}

// explain describes an error in the JSON of a frame in terms of the protocol. The messages of
// encoding/json would name Go types of this package.
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
		return "a time is not RFC 3339: write it as 2006-01-02T15:04:05Z"
	}
	return strings.TrimPrefix(text, "json: ")
}
