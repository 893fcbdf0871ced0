// Package feature turns the events of a key into features: aggregates over
// windows of event time, over the newest values, and the time since the newest
// event. It is pure: no clock and no I/O; what it keeps of a key, a Cell, is a
// function of the key's events in their order, and so are the bytes stored.
//
// Set.Add puts an event into a feature, and Set.Read reads the feature. A window keeps
// every entry (exact), or sums of entries (panes).
package feature

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Spec describes a feature: exactly one of Windows, Last and Elapsed is set.
type Spec struct {
	Name       string      // not empty, one of its kind in the set
	Windows    []Window    // by event time, with different names
	Last       int         // the newest values by arrival, 1 to 1,000
	Elapsed    bool        // seconds since the newest event before
	Aggregates []Aggregate // of Windows and Last, in the order of the columns
	Decimals   int         // 0 to 9: values are rounded to so many and sums are exact; -1: floats
	Empty      float64     // mean, max and min of nothing, and elapsed before the first event

	Max      int      // entries of exact windows of a key, 64 to 1,048,576, 16 bytes each; 0 is 65,536
	Overflow Overflow // what becomes of exact windows beyond Max
}

const (
	maxLast     = 1000
	maxDecimals = 9

	// Of Spec.Max. A list shorter than a block would keep more than it may; one
	// of the most entries takes 16 MB of one key and goes over to panes in some
	// 10 ms.
	leastEntries   = blockLen
	mostEntries    = 1 << 20
	defaultEntries = 1 << 16
)

// Overflow is what becomes of the exact windows of a key and feature that has
// more entries than it may.
type Overflow uint8

// The overflow policies of the pipeline file.
const (
	OverflowPane Overflow = iota // they go over to panes of a sixtieth each: see Set.Approximate
	OverflowDead                 // they take no entry until there is room: see ErrFull
)

// ErrFull says that a feature of OverflowDead takes no more entries of a key.
// The error names the feature, the limit and what to do.
var ErrFull = errors.New("exact windows are full")

// String returns the policy as the pipeline file writes it.
func (o Overflow) String() string {
	switch o {
	case OverflowPane:
		return "pane"
	case OverflowDead:
		return "dlq"
	}
	return fmt.Sprintf("Overflow(%d)", uint8(o))
}

// ParseOverflow reads a policy as the pipeline file writes it: pane or dlq; ""
// is pane.
func ParseOverflow(text string) (Overflow, error) {
	switch text {
	case "", "pane":
		return OverflowPane, nil
	case "dlq":
		return OverflowDead, nil
	}
	return 0, fmt.Errorf("unknown overflow %q: use pane or dlq", text)
}

// Set is the features of a pipeline, in their order. It never changes and may
// be used by many goroutines; a Cell is used by one at a time.
type Set struct {
	features []feature
	elapsed  int // number of elapsed features
	lasts    int // of last features
	panes    int // of windows in panes
	exacts   int // of features with exact windows
	longest  int64
	digest   string
	layout   layout
}

type kind uint8

const (
	kindWindows kind = iota
	kindLast
	kindElapsed
)

// feature is a Spec made ready: what it is read as, and what is kept for that.
type feature struct {
	reading
	name    string
	columns []string

	kind    kind
	elapsed elapsed // the one of its kind is in use
	last    last
	windows windows
}

// NewSet checks the specs and makes them ready. The error names every spec that
// is wrong.
func NewSet(specs []Spec) (*Set, error) {
	s := &Set{features: make([]feature, 0, len(specs))}
	var errs []error
	names := map[string]bool{}
	for _, spec := range specs {
		err := spec.check()
		if err == nil && names[spec.Name] {
			err = errors.New("the name is taken")
		}
		names[spec.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("feature %q: %w", spec.Name, err))
			continue
		}
		s.add(&spec)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	s.layout.plan()
	s.digest = s.sum()
	return s, nil
}

// check returns what is wrong with the spec.
func (spec *Spec) check() error {
	if err := spec.checkMax(); err != nil {
		return err
	}
	kinds := 0
	for _, set := range []bool{len(spec.Windows) > 0, spec.Last != 0, spec.Elapsed} {
		if set {
			kinds++
		}
	}
	switch {
	case spec.Name == "":
		return errors.New("a feature needs a name")
	case kinds != 1:
		return errors.New("a feature has exactly one of windows, last and elapsed")
	case !value.Finite(spec.Empty):
		return fmt.Errorf("empty is %v: use a finite number", spec.Empty)
	case spec.Elapsed && len(spec.Aggregates) > 0:
		return errors.New("elapsed is one number: leave out the aggregates")
	case spec.Elapsed:
		return nil
	case spec.Last < 0 || spec.Last > maxLast:
		return fmt.Errorf("last is %d: use 1 to 1,000", spec.Last)
	case spec.Decimals < -1 || spec.Decimals > maxDecimals:
		return fmt.Errorf("decimals are %d: use 0 to 9", spec.Decimals)
	case len(spec.Aggregates) == 0:
		return errors.New("name at least one aggregate: count, sum, mean, max or min")
	}
	for k, a := range spec.Aggregates {
		if a < Count || a > Min {
			return fmt.Errorf("%v is unknown", a)
		}
		if slices.Contains(spec.Aggregates[:k], a) {
			return fmt.Errorf("aggregate %v is there twice", a)
		}
	}
	return checkWindows(spec.Windows)
}

// checkMax checks Max and Overflow, which are of exact windows.
func (spec *Spec) checkMax() error {
	exact := slices.ContainsFunc(spec.Windows, func(w Window) bool { return w.Pane == 0 })
	switch {
	case spec.Overflow > OverflowDead:
		return fmt.Errorf("%v is unknown: use pane or dlq", spec.Overflow)
	case !exact && (spec.Max != 0 || spec.Overflow != OverflowPane):
		return errors.New("max and overflow are of exact windows, and there is none: leave them out")
	case spec.Max != 0 && spec.Max < leastEntries:
		return fmt.Errorf("max is %d: use 64 or more, as entries are kept in blocks of 64", spec.Max)
	case spec.Max > mostEntries:
		return fmt.Errorf("max is %d entries, %.0f MB of one key: use at most 1,048,576 (16 MB), or write the window in panes, size/pane", spec.Max, float64(spec.Max)*16/(1<<20))
	}
	return nil
}

func checkWindows(windows []Window) error {
	for k, w := range windows {
		if err := w.check(); err != nil {
			return fmt.Errorf("window %q: %w", w.Name, err)
		}
		if slices.ContainsFunc(windows[:k], func(o Window) bool { return o.Name == w.Name }) {
			return fmt.Errorf("window %q is there twice", w.Name)
		}
	}
	return nil
}

// add makes a checked spec ready.
func (s *Set) add(spec *Spec) {
	f := feature{name: spec.Name, reading: readingOf(spec)}
	switch {
	case spec.Elapsed:
		f.kind, f.elapsed = kindElapsed, elapsed{s.layout.front(none)}
		f.columns = []string{""}
		s.elapsed++
	case spec.Last > 0:
		f.kind, f.last = kindLast, newLast(spec, &f.reading, &s.layout)
		f.columns = f.names(nil, "")
		s.lasts++
	default:
		f.kind, f.windows = kindWindows, newWindows(spec, &f.reading, &s.layout)
		for k := range f.windows.list {
			w := &f.windows.list[k]
			f.columns = f.names(f.columns, "_"+w.name)
			s.longest = max(s.longest, w.size)
		}
		s.panes += len(f.windows.list) - f.windows.exacts
		if f.windows.exacts > 0 {
			f.windows.entries.at = s.exacts
			s.exacts++
		}
	}
	s.features = append(s.features, f)
}

// Len returns the number of features.
func (s *Set) Len() int { return len(s.features) }

// Columns returns the names of feature i's columns after the feature's own:
// for windows every aggregate of every window in the order of the spec,
// "sum_60s"; for last the aggregates; for elapsed "", the feature's own name.
func (s *Set) Columns(i int) []string { return slices.Clone(s.features[i].columns) }

// Retention returns the longest window. A key that has been silent for it has
// nothing in any window.
func (s *Set) Retention() time.Duration { return time.Duration(s.longest) * time.Microsecond }

// KeepsForever reports whether a feature keeps something of a silent key for
// ever: the newest values, or the time of the newest event.
func (s *Set) KeepsForever() bool { return s.elapsed+s.lasts > 0 }

// Digest returns a text that differs where stored cells mean something else:
// where a feature has another name, place, kind, size, limit or kept values. State
// must be read by a set of the digest that wrote it. What a feature is computed
// from is not in it.
func (s *Set) Digest() string { return s.digest }

func (s *Set) sum() string {
	var text strings.Builder
	fmt.Fprintf(&text, "feature cells %d\n", format)
	for i := range s.features {
		f := &s.features[i]
		fmt.Fprintf(&text, "%q kind %d decimals %d last %d", f.name, f.kind, f.decimals, f.last.most)
		if f.kind == kindWindows {
			form := &f.windows.list[0].paneForm
			fmt.Fprintf(&text, " entry %d sum %d max %d min %d", f.windows.entry, cmp.Compare(form.sumAt, 0), cmp.Compare(form.maxAt, 0), cmp.Compare(form.minAt, 0))
		}
		if e := &f.windows.entries; f.kind == kindWindows && (e.dead || e.limit != defaultEntries) {
			fmt.Fprintf(&text, " max %d dead %t", e.limit, e.dead)
		}
		for _, w := range f.windows.list {
			fmt.Fprintf(&text, " window %d/%d exact %t", w.size, w.length, w.exact)
		}
		text.WriteByte('\n')
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}
