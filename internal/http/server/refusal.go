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

// Refusal is the reason why a request is refused, and the reply.
type Refusal struct {
	Status  int
	Code    string // too_many, over_memory, too_large, too_slow, bad_encoding, unsupported_encoding
	Message string
	Hint    string        // what to do next
	After   time.Duration // when to send the request again; 0 means never
}

// Error returns the message and the hint.
func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + ": " + r.Hint
}

// Write sends the refusal: {"error": ..., "hint": ...}.
func (r *Refusal) Write(w http.ResponseWriter) {
	r.SetHeader(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
		Hint  string `json:"hint,omitempty"`
	}{r.Message, r.Hint})
}

// SetHeader sets Retry-After if the request may be sent again.
func (r *Refusal) SetHeader(h http.Header) {
	if r.After > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.After.Seconds()))))
	}
}

// AsRefusal returns the reply for an error of reading a body or charging an Account: a *Refusal, a
// body over its http.MaxBytesReader, or a deadline. ok is false for other errors.
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
			Message: fmt.Sprintf("the body arrived too slowly: after %v each second must bring %s, or a %dth of the memory of the request if that is more", readGrace, Size(PaceBytes), heldFor/time.Second),
			Hint:    "send it again, all at once, or send several smaller requests",
		}, true
	}
	return nil, false
}

// Size returns a number of bytes in human-readable form.
func Size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
