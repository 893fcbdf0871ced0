package faultserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Fault is the fault of a call.
type Fault string

// The faults, and none.
const (
	None     Fault = ""
	Slow     Fault = "slow"
	Hang     Fault = "hang"
	Fail     Fault = "fail"
	Reset    Fault = "reset"
	Half     Fault = "half"
	Wrong    Fault = "wrong"
	Down     Fault = "down"     // the server flaps
	Poisoned Fault = "poisoned" // a row is refused
)

// Call is one call as the server recorded it, before it answered.
type Call struct {
	At     int64    `json:"at"` // Unix time in microseconds
	Path   string   `json:"path"`
	Name   string   `json:"name,omitempty"` // its Idempotency-Key
	Rows   []string `json:"rows"`           // digest of each row: equal rows have equal digests
	Fault  Fault    `json:"fault,omitempty"`
	Paid   bool     `json:"paid,omitempty"`   // the call took effect
	Repeat bool     `json:"repeat,omitempty"` // its key was paid for before, so it is not paid again
	Flying int      `json:"flying"`           // calls in flight, including this one
}

// ReadCalls returns the calls that servers recorded in a file, or no calls if the file does not
// exist. It ignores an incomplete last line, which a kill may leave.
func ReadCalls(name string) ([]Call, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var calls []Call
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil
		}
		if err != nil {
			return nil, err
		}
		var c Call
		if err := json.Unmarshal(bytes.TrimSpace(line), &c); err != nil {
			return nil, fmt.Errorf("call %d of %s: %w", len(calls), name, err)
		}
		calls = append(calls, c)
	}
}

// Counts sums calls up.
type Counts struct {
	Calls    int
	Paid     int // calls
	Rows     int // paid for
	Distinct int // of those
	Repeats  int
	Flying   int // most calls in flight at a time
	Faults   map[Fault]int
	Names    map[string]int // calls that were paid for by their name
}

// Count sums calls up.
func Count(calls []Call) Counts {
	sum := Counts{Calls: len(calls), Faults: map[Fault]int{}, Names: map[string]int{}}
	distinct := map[string]struct{}{}
	for i := range calls {
		c := &calls[i]
		sum.Flying = max(sum.Flying, c.Flying)
		if c.Fault != None {
			sum.Faults[c.Fault]++
		}
		if c.Repeat {
			sum.Repeats++
		}
		if !c.Paid {
			continue
		}
		sum.Paid++
		sum.Rows += len(c.Rows)
		for _, row := range c.Rows {
			distinct[c.Path+" "+row] = struct{}{}
		}
		if c.Name != "" {
			sum.Names[c.Name]++
		}
	}
	sum.Distinct = len(distinct)
	return sum
}
