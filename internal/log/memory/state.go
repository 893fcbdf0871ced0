package memory

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// State is the state beside a partition as a map, by key. It shares no memory with
// what it returns and takes, and is not safe for concurrent use.
type State map[string][]byte

var _ stream.View = State(nil)

// Get implements stream.View.
func (s State) Get(key []byte) ([]byte, error) { return bytes.Clone(s[string(key)]), nil }

// Scan implements stream.View.
func (s State) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(s)) {
			if strings.HasPrefix(key, string(prefix)) && !yield(stream.Entry{Key: []byte(key), Value: bytes.Clone(s[key])}, nil) {
				return
			}
		}
	}
}

// Apply writes what a step changes.
func (s State) Apply(changes ...stream.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s, string(c.Key))
		} else {
			s[string(c.Key)] = bytes.Clone(c.Value)
		}
	}
}

// view reads the state of a share: for its owner, whose error it returns once
// the share is not its own, or for an Inspector.
type view struct {
	log    *Log
	share  *share
	reader *member // nil for an Inspector
}

// Get implements stream.View.
func (v *view) Get(key []byte) ([]byte, error) {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	if err := v.check(); err != nil {
		return nil, err
	}
	return v.share.state.Get(key)
}

// Scan implements stream.View. It copies what it yields first.
func (v *view) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		part, err := v.copy(string(prefix))
		if err != nil {
			yield(stream.Entry{}, err)
			return
		}
		part.Scan(prefix)(yield)
	}
}

func (v *view) copy(prefix string) (State, error) {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	if err := v.check(); err != nil {
		return nil, err
	}
	part := State{}
	for key, value := range v.share.state {
		if strings.HasPrefix(key, prefix) {
			part[key] = value // which nothing writes into
		}
	}
	return part, nil
}

func (v *view) check() error {
	switch {
	case v.log.closed:
		return stream.ErrClosed
	case v.reader == nil:
		return nil
	case v.reader.err != nil:
		return v.reader.err
	case v.share.owner != v.reader:
		return stream.ErrFenced
	}
	return nil
}
