package memory

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// view reads the state of a share: for its owner, whose error it returns once
// the share is not its own, or for an Inspector.
type view struct {
	log    *Log
	share  *share
	reader *session // nil for an Inspector
}

// Get implements stream.View.
func (v *view) Get(key []byte) ([]byte, error) {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	if err := v.check(); err != nil {
		return nil, err
	}
	return bytes.Clone(v.share.state[string(key)]), nil
}

// Scan implements stream.View. It copies what it yields first.
func (v *view) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		entries, err := v.entries(string(prefix))
		if err != nil {
			yield(stream.Entry{}, err)
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (v *view) entries(prefix string) ([]stream.Entry, error) {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	if err := v.check(); err != nil {
		return nil, err
	}
	var entries []stream.Entry
	for key, value := range v.share.state {
		if strings.HasPrefix(key, prefix) {
			entries = append(entries, stream.Entry{Key: []byte(key), Value: bytes.Clone(value)})
		}
	}
	slices.SortFunc(entries, func(a, b stream.Entry) int { return bytes.Compare(a.Key, b.Key) })
	return entries, nil
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
