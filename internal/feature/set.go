// Package feature turns the events of a key into features: aggregates over windows of event time,
// aggregates over the newest values, and the time since the newest event. It is pure: no clock and
// no I/O. A Cell, the state of a key, is a function of the key's events in their order, and so are
// the stored bytes.
//
// Set.Add adds an event to a feature, and Set.Read reads the feature. A window keeps every entry
// (exact), or sums of entries (panes).
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
)

// Set holds the features of a pipeline, in their order. It is immutable and safe for concurrent
// use; a Cell is not.
type Set struct {
	features []feature
	elapsed  int // number of elapsed features
	lasts    int // number of last features
	panes    int // number of windows in panes
	exacts   int // number of features with exact windows
	longest  int64
	digest   string
	layout   layout
	looks    looks
}

type kind uint8

const (
	kindWindows kind = iota
	kindLast
	kindElapsed
)

// feature is a compiled Spec: how it is read, and which state it keeps.
type feature struct {
	reading
	name    string
	columns []string

	kind    kind
	elapsed elapsed // the one of its kind is in use
	last    last
	windows windows
}

// NewSet checks and compiles the specs. The error names every spec that is wrong.
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

// add compiles a checked spec.
func (s *Set) add(spec *Spec) {
	f := feature{name: spec.Name, reading: readingOf(spec)}
	switch {
	case spec.Elapsed:
		f.kind, f.elapsed = kindElapsed, elapsed{s.layout.front(none)}
		f.columns = []string{""}
		s.elapsed++
	case spec.Last > 0 && (f.values == Texts || f.per):
		f.kind, f.windows = kindWindows, newWindows(spec, &f.reading, &s.layout)
		f.columns = f.names(nil, "")
		f.windows.entries.at = s.exacts
		s.exacts++
		s.lasts++
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
		if f.windows.exacts > 0 || f.windows.sketchForm.any() {
			f.windows.entries.at = s.exacts
			s.exacts++
		}
	}
	s.features = append(s.features, f)
}

// Len returns the number of features.
func (s *Set) Len() int { return len(s.features) }

// Columns returns the suffixes of feature i's columns, which follow the feature's name. For windows
// it is every aggregate of every window in the order of the spec, such as "sum_60s". For last it is
// the aggregates. For elapsed it is "", the feature's own name.
func (s *Set) Columns(i int) []string { return slices.Clone(s.features[i].columns) }

// Retention returns the longest window. If a key has no event for that long, all its windows are
// empty.
func (s *Set) Retention() time.Duration { return time.Duration(s.longest) * time.Microsecond }

// KeepsForever reports whether a feature keeps state of a key without expiry: the newest values, or
// the time of the newest event.
func (s *Set) KeepsForever() bool { return s.elapsed+s.lasts > 0 }

// Digest returns a text that differs if stored cells have another meaning: if a feature has another
// name, place, kind, size, limit or kept values. Only a set with the digest that wrote the state
// may read it. The digest does not cover the inputs of a feature.
func (s *Set) Digest() string { return s.digest }

func (s *Set) sum() string {
	var text strings.Builder
	fmt.Fprintf(&text, "feature cells %d\n", format)
	for i := range s.features {
		f := &s.features[i]
		fmt.Fprintf(&text, "%q kind %d decimals %d last %d", f.name, f.kind, f.decimals, f.last.most)
		if f.values != Numbers {
			fmt.Fprintf(&text, " values %d last %d", f.values, f.windows.newestN)
		}
		if f.per {
			fmt.Fprintf(&text, " per %d last %d", f.windows.groupAt, f.windows.newestN)
		}
		if f.kind == kindWindows && f.windows.newestN == 0 {
			form := &f.windows.list[0].paneForm
			fmt.Fprintf(&text, " entry %d sum %d max %d min %d", f.windows.entry, cmp.Compare(form.sumAt, 0), cmp.Compare(form.maxAt, 0), cmp.Compare(form.minAt, 0))
		}
		if f.kind == kindWindows && f.squares && f.windows.newestN == 0 {
			fmt.Fprintf(&text, " moments %d", f.windows.list[0].momentWords())
		}
		if e := &f.windows.entries; f.kind == kindWindows && (e.dead || e.limit != defaultEntries) {
			fmt.Fprintf(&text, " max %d dead %t", e.limit, e.dead)
		}
		if f.windows.oldest {
			text.WriteString(" oldest")
		}
		if f.windows.sketchForm.any() {
			fmt.Fprintf(&text, " bins %t members %t", f.windows.bins, f.windows.members)
		}
		for _, w := range f.windows.list {
			fmt.Fprintf(&text, " window %d/%d exact %t", w.size, w.length, w.exact)
		}
		text.WriteByte('\n')
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}
