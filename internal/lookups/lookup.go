// Package lookups finds the rows of keys in services outside the log. It batches many keys into one
// call, limits the time of calls, and caches recent rows. The result depends on the state of the
// service at the time of the call. So the caller must record the row before a result depends on it.
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

// Options sets the limits of a Finder. The zero value is a good default.
type Options struct {
	Size      int              // maximum keys in a call; 0 is 100, or 1 if the source is Single
	Calls     int              // maximum concurrent calls; 0 is 16
	Timeout   time.Duration    // timeout of a call; 0 is 1 s
	Keep      time.Duration    // how long a row, or its absence, is cached; 0 is not at all
	KeepBytes int              // maximum size of cached rows and keys; 0 is 64 MiB
	Now       func() time.Time // nil is time.Now
}

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int64
	}{{"Size", int64(o.Size)}, {"Calls", int64(o.Calls)}, {"Timeout", int64(o.Timeout)}, {"Keep", int64(o.Keep)}, {"KeepBytes", int64(o.KeepBytes)}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: use 0 for the default, or more", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// Finder finds rows in a source. It is safe for concurrent use.
type Finder struct {
	source  lookup.Source
	options Options
	slots   chan struct{} // holds an element for each call in flight

	mu    sync.Mutex // guards the fields below
	cache cache
	stats Stats
}

// Stats holds the counters of a Finder.
type Stats struct {
	Keys  uint64 `json:"keys"`       // requested keys
	Kept  uint64 `json:"cache_hits"` // of these, keys answered from the cache
	Calls uint64 `json:"calls"`
	Bytes int    `json:"cache_bytes"` // current size of the cache
}

// Plus returns the sum of two Stats.
func (s Stats) Plus(o Stats) Stats {
	return Stats{s.Keys + o.Keys, s.Kept + o.Kept, s.Calls + o.Calls, s.Bytes + o.Bytes}
}

// CheckKey is the key for a test call to a source if no key is known. It is also a valid int.
const CheckKey = "0"

// New returns a finder. It panics if the options are invalid.
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

// AtOnce returns how many keys can be found with only concurrent calls, and so within the time of
// one call.
func (f *Finder) AtOnce() int { return f.options.Size * f.options.Calls }

// Check calls the source's method Check, which tests whether rows can be found and changes nothing
// in the service. It returns nil if the source has no such method. The error is often a *Mistake.
func (f *Finder) Check(ctx context.Context) error {
	if source, ok := f.source.(interface{ Check(context.Context) error }); ok {
		return source.Check(ctx)
	}
	return nil
}

// Stats returns the counters so far.
func (f *Finder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Bytes = f.cache.bytes()
	return s
}

// Found is the result for a key: its row, nil if it has none, or an error.
type Found struct {
	Row []byte
	Err error
}

// Find returns the result for each key, in order. It requests equal keys once. If the source
// refuses a call, Find repeats it with halves of the keys, so that each refused key has its own
// error. An error of Find is a failure of the source: it is down, too slow or returns invalid
// answers. The results are then unusable.
func (f *Finder) Find(ctx context.Context, keys []string) ([]Found, error) {
	all := make([]Found, len(keys))
	places := make(map[string][]int, len(keys))
	var asked []string // keys that are not cached
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
		return nil, fmt.Errorf("%d calls are in flight: %w", f.options.Calls, ctx.Err())
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
