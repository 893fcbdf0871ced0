// Package lookups finds the rows of keys outside of the log: many keys a call, in
// time, and those found a moment ago without a call. What it finds depends on the
// world at the call, so the caller records what was found before a result depends on it.
package lookups

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/lookup"
)

// Options bound what a Finder asks and keeps. The zero value is a good default.
type Options struct {
	Size      int              // most keys of a call; 0 is 100, and 1 where the source says that it is Single
	Calls     int              // most calls at once; 0 is 16
	Timeout   time.Duration    // of a call; 0 is 1 s
	Keep      time.Duration    // how long a row, or that there is none, is used without a call; 0 is not at all
	KeepBytes int              // of rows and keys kept, at most; 0 is 64 MiB
	Now       func() time.Time // nil is time.Now
}

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int64
	}{{"Size", int64(o.Size)}, {"Calls", int64(o.Calls)}, {"Timeout", int64(o.Timeout)}, {"Keep", int64(o.Keep)}, {"KeepBytes", int64(o.KeepBytes)}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: it is a bound, 0 is its default", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// Finder finds rows in a source. It is safe for concurrent use.
type Finder struct {
	source  lookup.Source
	options Options
	slots   chan struct{} // one for each call under way

	mu    sync.Mutex // guards what follows
	cache cache
	stats Stats
}

// Stats counts what a Finder did.
type Stats struct {
	Keys  uint64 `json:"keys"`       // asked for
	Kept  uint64 `json:"cache_hits"` // of them, answered without a call
	Calls uint64 `json:"calls"`
	Bytes int    `json:"cache_bytes"` // kept
}

// Plus adds up what two finders did.
func (s Stats) Plus(o Stats) Stats {
	return Stats{s.Keys + o.Keys, s.Kept + o.Kept, s.Calls + o.Calls, s.Bytes + o.Bytes}
}

// CheckKey is the key of a test call to a source without a known key. It is also an
// int.
const CheckKey = "0"

// New returns a finder. It panics where the options are invalid.
func New(source lookup.Source, o Options) *Finder {
	if err := o.Validate(); err != nil {
		panic(fmt.Sprintf("lookup.New: %v", err))
	}
	if single, ok := source.(lookup.Single); ok && single.Single() {
		o.Size = 1
	}
	if o.Size == 0 {
		o.Size = 100
	}
	if o.Calls == 0 {
		o.Calls = 16
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.KeepBytes == 0 {
		o.KeepBytes = 64 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Finder{source: source, options: o, slots: make(chan struct{}, o.Calls), cache: newCache(o.KeepBytes)}
}

// AtOnce returns how many keys are found by calls at the same time alone, so within
// the time of one.
func (f *Finder) AtOnce() int { return f.options.Size * f.options.Calls }

// Check asks a source that has a method Check whether rows can be found as they are
// asked for, which changes nothing there; of another one it returns nil. Many an
// error is a *Mistake.
func (f *Finder) Check(ctx context.Context) error {
	if source, ok := f.source.(interface{ Check(context.Context) error }); ok {
		return source.Check(ctx)
	}
	return nil
}

// Stats returns what was done so far.
func (f *Finder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Bytes = f.cache.bytes()
	return s
}

// Found is what is known of a key: its row, nil where it has none, or why it
// cannot be known.
type Found struct {
	Row []byte
	Err error
}

// Find returns what is found of each key, in their order. Equal keys are asked for
// once. Keys that are refused are asked for again by halves, so that each has an
// error of its own. The error is the source's: it is down, late or answers
// nonsense, and what was found is not to be used.
func (f *Finder) Find(ctx context.Context, keys []string) ([]Found, error) {
	all := make([]Found, len(keys))
	places := make(map[string][]int, len(keys))
	var asked []string // that are not kept
	f.mu.Lock()
	f.stats.Keys += uint64(len(keys))
	now := f.options.Now()
	for i, key := range keys {
		row, kept := f.cache.get(key, now)
		if kept {
			all[i].Row = row
			f.stats.Kept++
			continue
		}
		if places[key] == nil {
			asked = append(asked, key)
		}
		places[key] = append(places[key], i)
	}
	f.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.options.Calls)
	for len(asked) > 0 {
		piece := asked[:min(len(asked), f.options.Size)]
		asked = asked[len(piece):]
		group.Go(func() error {
			return f.ask(ctx, piece, func(i int, found Found) {
				for _, at := range places[piece[i]] {
					all[at] = found
				}
			})
		})
	}
	return all, group.Wait()
}

// ask finds keys in the source, and calls note for each.
func (f *Finder) ask(ctx context.Context, keys []string, note func(i int, found Found)) error {
	rows, err := f.call(ctx, keys)
	switch {
	case err != nil && !calling.Refused(err):
		return err
	case err != nil && len(keys) > 1:
		half := len(keys) / 2
		if err := f.ask(ctx, keys[:half], note); err != nil {
			return err
		}
		return f.ask(ctx, keys[half:], func(i int, found Found) { note(half+i, found) })
	case err != nil:
		note(0, Found{Err: err})
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	until := f.options.Now().Add(f.options.Keep)
	for i, row := range rows {
		note(i, Found{Row: row})
		if f.options.Keep > 0 {
			f.cache.put(keys[i], row, until)
		}
	}
	return nil
}

func (f *Finder) call(ctx context.Context, keys []string) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.Timeout)
	defer cancel()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%d calls are under way: %w", f.options.Calls, ctx.Err())
	}
	f.mu.Lock()
	f.stats.Calls++
	f.mu.Unlock()
	rows, err := f.source.Rows(ctx, keys)
	if err == nil && len(rows) != len(keys) {
		err = &lookup.Error{Failed: true, Err: fmt.Errorf("%d rows for %d keys", len(rows), len(keys))}
	}
	return rows, err
}
