// Package reload keeps a value that is made of files, and makes it again when a file
// changes: tokens, certificates.
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

// Every is how long a change of a file may go unnoticed.
const Every = time.Second

// Value is a value made of files. It starts no goroutine: the files are looked at by
// Get, at most once in Every. Make one with New. It is safe for concurrent use.
type Value[T any] struct {
	load   func() (value T, files []string, err error)
	what   string
	logger *slog.Logger

	now    atomic.Pointer[T]
	looked atomic.Int64 // when, in nanoseconds
	stale  atomic.Bool  // the files changed and are wrong

	mu    sync.Mutex // guards the rest
	files []string
	state []byte // of the files when they were read
}

// New loads a value. load returns it with the files that it was made of, and the
// files also with an error. what names the value in the log.
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

// Get returns the value of the newest files that could be loaded. If the new files
// are wrong, the value stays as it was, and the log says why.
func (v *Value[T]) Get() T {
	looked := v.looked.Load()
	if now := time.Now().UnixNano(); now-looked >= int64(Every) && v.looked.CompareAndSwap(looked, now) {
		v.look()
	}
	return *v.now.Load()
}

// Stale reports whether the newest files could not be loaded, so that Get returns the
// value from before.
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
	v.state = state // before they are loaded: what changes meanwhile is loaded next time
	value, files, err := v.load()
	if len(files) > 0 {
		v.files, v.state = files, joined(v.files, v.state, files)
	}
	v.stale.Store(err != nil)
	if err != nil {
		v.logger.Error("a file changed and is wrong; what was read before stays in use", "of", v.what, "error", err)
		return
	}
	v.now.Store(&value)
	v.logger.Info("read again, since a file changed", "of", v.what)
}

// joined returns the state of the files that a value was made of: the one from before
// it was loaded where they are the same.
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

// stateOf returns a digest of what files hold. One that cannot be read has a state
// too.
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
