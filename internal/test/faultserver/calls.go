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

// Fault is what happened to a call.
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

// Call is one call as the server noted it, before it answered.
type Call struct {
	At     int64    `json:"at"` // microseconds of Unix
	Path   string   `json:"path"`
	Name   string   `json:"name,omitempty"` // its Idempotency-Key
	Rows   []string `json:"rows"`           // what each stands for: equal rows have the same
	Fault  Fault    `json:"fault,omitempty"`
	Paid   bool     `json:"paid,omitempty"`   // its effect took place
	Repeat bool     `json:"repeat,omitempty"` // its name was paid for: it is not again
	Flying int      `json:"flying"`           // calls under way, this one among them
}

// ReadCalls returns the calls that servers noted in a file; none where it is not
// there. What is behind the last whole line was cut off by a kill.
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
	Flying   int // the most calls under way at a time
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
