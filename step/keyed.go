package step

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Timer is a point of event time at which a function is to be called for a key.
type Timer struct {
	Name  string
	At    int64 // microseconds since 1970 UTC
	After int64 // it is due at events with offsets above this one
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

// Keyed is what a function keeps of one key.
type Keyed struct {
	Values map[string][]byte
	Timers []Timer // by time and name; one of a name
}

// Empty reports that there is nothing to keep.
func (k *Keyed) Empty() bool { return len(k.Values) == 0 && len(k.Timers) == 0 }

// Bytes returns about how much memory k takes.
func (k *Keyed) Bytes() int {
	n := 64
	for name, v := range k.Values {
		n += 64 + len(name) + len(v)
	}
	for i := range k.Timers {
		n += 32 + len(k.Timers[i].Name)
	}
	return n
}

func (k *Keyed) clone() *Keyed {
	next := &Keyed{Values: maps.Clone(k.Values), Timers: slices.Clone(k.Timers)}
	if next.Values == nil {
		next.Values = map[string][]byte{}
	}
	return next
}

func (k *Keyed) stop(name string) {
	k.Timers = slices.DeleteFunc(k.Timers, func(t Timer) bool { return t.Name == name })
}

// Without returns k without the timer of that index.
func (k *Keyed) Without(i int) *Keyed {
	return &Keyed{Values: k.Values, Timers: slices.Delete(slices.Clone(k.Timers), i, i+1)}
}

func (k *Keyed) check() error {
	size := 0
	for name, v := range k.Values {
		size += len(name) + len(v)
	}
	if size > StateMaxBytes {
		return fmt.Errorf("the key's state takes %d bytes; at most %d", size, StateMaxBytes)
	}
	return nil
}

// Append appends k as it is stored: the number of timers; of each the time, as
// the difference to the one before, the offset and the name; then names and
// values, by name. Numbers are varints, texts have their length before them.
func (k *Keyed) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(k.Timers)))
	before := int64(0)
	for _, t := range k.Timers {
		dst = binary.AppendVarint(binary.AppendVarint(dst, t.At-before), t.After)
		dst = appendText(dst, t.Name)
		before = t.At
	}
	for _, name := range slices.Sorted(maps.Keys(k.Values)) {
		dst = appendText(appendText(dst, name), string(k.Values[name]))
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

var errKeyed = errors.New("the stored state of a function is damaged")

// Parse reads what Append wrote. Nothing is an empty state.
func Parse(data []byte) (*Keyed, error) {
	k := &Keyed{}
	if len(data) == 0 {
		return k, nil
	}
	r := keyedReader{data: data}
	timers := r.number()
	if timers > TimersMax {
		return nil, errKeyed
	}
	before := int64(0)
	for range timers {
		before += r.signed()
		k.Timers = append(k.Timers, Timer{At: before, After: r.signed(), Name: r.text()})
	}
	for len(r.data) > 0 && !r.bad {
		if k.Values == nil {
			k.Values = map[string][]byte{}
		}
		name := r.text()
		k.Values[name] = []byte(r.text())
	}
	if r.bad || !slices.IsSortedFunc(k.Timers, Timer.Compare) {
		return nil, errKeyed
	}
	return k, nil
}

type keyedReader struct {
	data []byte
	bad  bool
}

func (r *keyedReader) take(n int) {
	if r.bad = r.bad || n <= 0; !r.bad {
		r.data = r.data[n:]
	}
}

func (r *keyedReader) number() uint64 {
	v, n := binary.Uvarint(r.data)
	r.take(n)
	return v
}

func (r *keyedReader) signed() int64 {
	v, n := binary.Varint(r.data)
	r.take(n)
	return v
}

func (r *keyedReader) text() string {
	n := r.number()
	if r.bad = r.bad || n > uint64(len(r.data)); r.bad {
		return ""
	}
	text := string(r.data[:n])
	r.data = r.data[n:]
	return text
}
