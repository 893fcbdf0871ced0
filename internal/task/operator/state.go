package operator

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/udf"
)

// Timer is an event time at which to call a function for a key.
type Timer struct {
	Name  string
	At    int64 // microseconds since 1970 UTC
	After int64 // it is due at events with offsets above this one
	SetBy Hash  // hash of the id of the event or timer that set it
}

// Hash is the first bytes of a SHA-256.
type Hash [8]byte

// HashOf returns the hash of an id.
func HashOf(id string) Hash {
	sum := sha256.Sum256([]byte(id))
	return Hash(sum[:8])
}

// Compare orders timers by time and name.
func (t Timer) Compare(o Timer) int {
	switch {
	case t.At < o.At:
		return -1
	case t.At > o.At:
		return 1
	}
	return strings.Compare(t.Name, o.Name)
}

// State is the state of a function for one key.
type State struct {
	Values map[string][]byte
	Timers []Timer // by time and name; at most one of each name
}

// Empty reports whether there is no state to store.
func (k *State) Empty() bool { return len(k.Values) == 0 && len(k.Timers) == 0 }

// Bytes returns about how much memory k takes.
func (k *State) Bytes() int {
	n := 64
	for name, v := range k.Values {
		n += 64 + len(name) + len(v)
	}
	for i := range k.Timers {
		n += 40 + len(k.Timers[i].Name)
	}
	return n
}

func (k *State) clone() *State {
	next := &State{Values: maps.Clone(k.Values), Timers: slices.Clone(k.Timers)}
	if next.Values == nil {
		next.Values = map[string][]byte{}
	}
	return next
}

func (k *State) stop(name string) {
	k.Timers = slices.DeleteFunc(k.Timers, func(t Timer) bool { return t.Name == name })
}

// Without returns k without the timer of that index.
func (k *State) Without(i int) *State {
	return &State{Values: k.Values, Timers: slices.Delete(slices.Clone(k.Timers), i, i+1)}
}

func (k *State) check() error {
	size := 0
	for name, v := range k.Values {
		size += len(name) + len(v)
	}
	if size > udf.StateMaxBytes {
		return fmt.Errorf("the key's state takes %d bytes; at most %d", size, udf.StateMaxBytes)
	}
	return nil
}

// Append appends the stored form of k. It begins with the number of timers. For each timer follow
// its time, as the difference to the previous one, its offset, its name, and SetBy. Then follow the
// names and values, sorted by name. Numbers are varints. Texts are preceded by their length.
func (k *State) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(k.Timers)))
	before := int64(0)
	for _, t := range k.Timers {
		dst = binary.AppendVarint(binary.AppendVarint(dst, t.At-before), t.After)
		dst = append(packed.AppendText(dst, t.Name), t.SetBy[:]...)
		before = t.At
	}
	for _, name := range slices.Sorted(maps.Keys(k.Values)) {
		dst = packed.AppendText(packed.AppendText(dst, name), k.Values[name])
	}
	return dst
}

var errState = errors.New("the stored state of a function is damaged")

// ParseState parses the output of Append. Empty data is an empty state.
func ParseState(data []byte) (*State, error) {
	k := &State{}
	if len(data) == 0 {
		return k, nil
	}
	r := packed.Reader{Rest: data}
	timers := r.Number()
	if timers > udf.TimersMax {
		return nil, errState
	}
	before := int64(0)
	for range timers {
		before += r.Signed()
		t := Timer{At: before, After: r.Signed(), Name: string(r.Text())}
		copy(t.SetBy[:], r.Bytes(uint64(len(t.SetBy))))
		k.Timers = append(k.Timers, t)
	}
	for len(r.Rest) > 0 {
		if k.Values == nil {
			k.Values = map[string][]byte{}
		}
		name := string(r.Text())
		k.Values[name] = bytes.Clone(r.Text())
	}
	if r.Bad || !slices.IsSortedFunc(k.Timers, Timer.Compare) {
		return nil, errState
	}
	return k, nil
}
