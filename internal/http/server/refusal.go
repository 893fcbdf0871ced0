package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Refusal is why a request is not answered, and the reply that says so.
type Refusal struct {
	Status  int
	Code    string // too_many, over_memory, too_large, too_slow, bad_encoding, unsupported_encoding
	Message string
	Hint    string        // what to do next
	After   time.Duration // when to send the request again; 0 is never
}

// Error returns the message and the hint.
func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + ": " + r.Hint
}

// Write answers with the refusal: {"error": ..., "hint": ...}.
func (r *Refusal) Write(w http.ResponseWriter) {
	r.SetHeader(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	// The error of a client that is gone has no reader.
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
		Hint  string `json:"hint,omitempty"`
	}{r.Message, r.Hint})
}

// SetHeader sets Retry-After where the request may be sent again.
func (r *Refusal) SetHeader(h http.Header) {
	if r.After > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.After.Seconds()))))
	}
}

// AsRefusal finds the reply to an error of reading a body or of charging an Account: a
// *Refusal, a body over its http.MaxBytesReader, a deadline. ok is false for
// other errors.
func AsRefusal(err error) (why *Refusal, ok bool) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &why):
		return why, true
	case errors.As(err, &large):
		return &Refusal{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: "the body is larger than " + Size(large.Limit), Hint: "send several requests"}, true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Refusal{
			Status: http.StatusRequestTimeout, Code: "too_slow", After: time.Second,
			Message: fmt.Sprintf("the body came too slowly: after %v each second has to bring %s, or a %dth of the memory that the request holds if that is more", readGrace, Size(PaceBytes), heldFor/time.Second),
			Hint:    "send it again, all at once, or send several smaller requests",
		}, true
	}
	return nil, false
}

// Size writes a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
