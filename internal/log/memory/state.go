package memory

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// State is the state of a partition as a map, by key. It copies the slices that it takes and
// returns. It is not safe for concurrent use.
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

// Apply applies the state changes of a transaction.
func (s State) Apply(changes ...stream.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s, string(c.Key))
		} else {
			s[string(c.Key)] = bytes.Clone(c.Value)
		}
	}
}

// view reads the state of a share, for its owner or for an Inspector. If the owner has lost the
// share, view returns the owner's error.
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

// Scan implements stream.View. It copies the entries before it yields them.
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
			part[key] = value // values are never modified
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
