// Package reload holds values that are loaded from files, such as tokens and certificates, and
// loads them again when a file changes.
package reload

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Every is the maximum time until a changed file is noticed.
const Every = time.Second

// Value is a value loaded from files. It starts no goroutine: Get checks the files, at most once in
// Every. Create one with New. It is safe for concurrent use.
type Value[T any] struct {
	load   func() (value T, files []string, err error)
	what   string
	logger *slog.Logger

	now    atomic.Pointer[T]
	looked atomic.Int64 // time of the last check, in nanoseconds
	stale  atomic.Bool  // the files have changed but could not be loaded

	mu    sync.Mutex // guards the fields below
	files []string
	state []byte // digest of the files when they were loaded
}

// New loads a value. load returns the value and the files that it was loaded from; it also returns
// the files with an error. what names the value in the log.
func New[T any](what string, logger *slog.Logger, load func() (value T, files []string, err error)) (*Value[T], error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	v := &Value[T]{load: load, what: what, logger: logger}
	value, files, err := load()
	if err != nil {
		return nil, err
	}
	v.now.Store(&value)
	v.files, v.state = files, stateOf(files)
	v.looked.Store(time.Now().UnixNano())
	return v, nil
}

// Get returns the newest value that could be loaded. If the new files are invalid, the previous
// value stays, and the log says why.
func (v *Value[T]) Get() T {
	looked := v.looked.Load()
	if now := time.Now().UnixNano(); now-looked >= int64(Every) && v.looked.CompareAndSwap(looked, now) {
		v.look()
	}
	return *v.now.Load()
}

// Stale reports whether the newest files could not be loaded, so that Get returns an older value.
func (v *Value[T]) Stale() bool {
	v.Get()
	return v.stale.Load()
}

func (v *Value[T]) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := stateOf(v.files)
	if bytes.Equal(state, v.state) {
		return
	}
	v.state = state // taken before loading, so that a change during the load is loaded next time
	value, files, err := v.load()
	if len(files) > 0 {
		v.files, v.state = files, joined(v.files, v.state, files)
	}
	v.stale.Store(err != nil)
	if err != nil {
		v.logger.Error("a changed file is not valid; the earlier content stays in use", "of", v.what, "error", err)
		return
	}
	v.now.Store(&value)
	v.logger.Info("read again, since a file changed", "of", v.what)
}

// joined returns the state for a value that was loaded. If the value has the same files as before,
// that is the state from before the load.
func joined(before []string, state []byte, after []string) []byte {
	if len(before) == len(after) {
		same := true
		for i := range before {
			same = same && before[i] == after[i]
		}
		if same {
			return state
		}
	}
	return stateOf(after)
}

// stateOf returns a digest of the contents of files. An unreadable file has a digest too.
func stateOf(files []string) []byte {
	digest := sha256.New()
	for _, path := range files {
		content, err := os.ReadFile(path)
		sum := sha256.Sum256(content)
		digest.Write(sum[:])
		if err != nil {
			digest.Write([]byte(err.Error()))
		}
	}
	return digest.Sum(nil)
}
