package feature

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Spec describes a feature: exactly one of Windows, Last and Elapsed is set.
type Spec struct {
	Name       string        // not empty, unique in the set
	Windows    []Window      // by event time, with different names
	Last       int           // the newest values by arrival, 1 to 1,000
	Elapsed    bool          // seconds since the previous event
	Aggregates []Aggregate   // of Windows and Last, in the order of the columns
	Decimals   int           // 0 to 9: values are rounded to this many decimals and sums are exact; -1: floats
	Empty      float64       // result without entries (count and sum: always 0), and of elapsed before the first event
	Kind       Kind          // kind of the values; numeric aggregates require Numbers
	HalfLife   time.Duration // of EWMA, 1 ms to 366 days
	Take       int           // values of List, 1 to 1,000, and of Top, 1 to 100; 0 is 10. With Per groups, 1 to 1,000; 0 is 100
	Per        bool          // Split assigns entries to groups, and an aggregate is a map from group to result

	Max      int      // entries of exact windows per key, 64 to 1,048,576, 16 bytes each; 0 is 65,536. If entries are looked at, at most 16,384
	Overflow Overflow // what happens to exact windows beyond Max
}

const (
	maxLast     = 1000
	maxDecimals = 9

	// Bounds of Spec.Max. A list shorter than a block would keep more entries than allowed. A list
	// of the most entries takes 16 MB per key and turns into panes in some 10 ms.
	leastEntries   = blockLen
	mostEntries    = 1 << 20
	defaultEntries = 1 << 16

	// If entries are looked at, a read takes some nanoseconds per entry.
	defaultLooked = 1 << 10
	mostLooked    = 1 << 14

	defaultTake   = 10
	defaultGroups = 100
	mostListed    = 1000 // or groups
	mostTop       = 100
)

// Overflow says what happens to the exact windows of a key and feature that reach the limit of
// entries.
type Overflow uint8

// The overflow policies of the pipeline file.
const (
	OverflowPane   Overflow = iota // they turn into panes of a sixtieth each: see Set.Approximate
	OverflowDead                   // they refuse entries until there is room: see ErrFull
	OverflowOldest                 // the oldest entries by arrival are removed, 64 at a time
)

// ErrFull reports that a feature with OverflowDead takes no more entries of a key. The error names
// the feature, the limit and what to do.
var ErrFull = errors.New("exact windows are full")

// String returns the policy as the pipeline file writes it.
func (o Overflow) String() string {
	switch o {
	case OverflowPane:
		return "pane"
	case OverflowDead:
		return "dlq"
	case OverflowOldest:
		return "oldest"
	}
	return fmt.Sprintf("Overflow(%d)", uint8(o))
}

// ParseOverflow parses a policy as the pipeline file writes it: pane, oldest or dlq; "" means pane.
func ParseOverflow(text string) (Overflow, error) {
	switch text {
	case "", "pane":
		return OverflowPane, nil
	case "dlq":
		return OverflowDead, nil
	case "oldest":
		return OverflowOldest, nil
	}
	return 0, fmt.Errorf("unknown overflow %q: use pane, oldest or dlq", text)
}

// check returns the errors of the spec.
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
	case spec.Elapsed && spec.Per:
		return errors.New("elapsed is one number: leave out per")
	case spec.Elapsed && len(spec.Aggregates) > 0:
		return errors.New("elapsed is one number: leave out the aggregates")
	case spec.Elapsed:
		return nil
	case spec.Last < 0 || spec.Last > maxLast:
		return fmt.Errorf("last is %d: use 1 to 1,000", spec.Last)
	case spec.Decimals < -1 || spec.Decimals > maxDecimals:
		return fmt.Errorf("decimals are %d: use 0 to 9", spec.Decimals)
	case len(spec.Aggregates) == 0:
		return fmt.Errorf("name at least one aggregate: %s", aggregateList())
	}
	if err := spec.checkLooks(); err != nil {
		return err
	}
	for k, a := range spec.Aggregates {
		if !a.known() {
			return fmt.Errorf("%v is unknown", a)
		}
		if a == Slope && spec.Last > 0 {
			return errors.New("slope needs times, and last keeps no times: use windows")
		}
		if slices.Contains(spec.Aggregates[:k], a) {
			return fmt.Errorf("aggregate %v occurs twice", a)
		}
	}
	return checkWindows(spec.Windows)
}

// checkMax checks Max and Overflow, which apply to exact windows.
func (spec *Spec) checkMax() error {
	exact := slices.ContainsFunc(spec.Windows, func(w Window) bool { return w.Pane == 0 })
	switch {
	case spec.Overflow > OverflowOldest:
		return fmt.Errorf("%v is unknown: use pane, oldest or dlq", spec.Overflow)
	case !exact && (spec.Max != 0 || spec.Overflow != OverflowPane):
		return errors.New("max and overflow are for exact windows, and this feature has no such window: leave them out")
	case spec.Max != 0 && spec.Max < leastEntries:
		return fmt.Errorf("max is %d: use 64 or more, as entries are kept in blocks of 64", spec.Max)
	case spec.Max > mostEntries:
		return fmt.Errorf("max is %d entries, %.0f MB of one key: use at most 1,048,576 (16 MB), or write the window in panes, size/pane", spec.Max, float64(spec.Max)*16/(1<<20))
	}
	return nil
}

// Looks reports whether a read scans each entry of a window, as Per and some of the aggregates
// require.
func (spec *Spec) Looks() bool {
	return spec.Per || slices.ContainsFunc(spec.Aggregates, Aggregate.looks)
}

// checkLooks checks the requirements of aggregates that look at entries, and of values of other
// kinds.
func (spec *Spec) checkLooks() error {
	panes := slices.IndexFunc(spec.Windows, func(w Window) bool { return w.Pane != 0 })
	ewma := slices.Contains(spec.Aggregates, EWMA)
	for _, a := range spec.Aggregates {
		of := a.String()
		if spec.Per {
			of = "per"
		}
		switch entries := spec.Per || a.looks() && !a.sketched(); {
		case entries && panes >= 0:
			return fmt.Errorf("%s looks at the entries of a window, and panes have none: write window %s without a pane", of, spec.Windows[panes].Name)
		case entries && len(spec.Windows) > 0 && spec.Overflow == OverflowPane:
			return fmt.Errorf("%s looks at the entries of a window, and panes have none: use overflow oldest or dlq", of)
		case spec.Per && a.Many():
			return fmt.Errorf("with per, an aggregate is a map of single values, and %v has many values: write it in a separate feature", a)
		case a == EWMA && spec.Last > 0:
			return errors.New("ewma needs times, and last keeps no times: use windows")
		case spec.Kind != Numbers && a.Numeric():
			return fmt.Errorf("%v needs numbers", a)
		case a != Count && !a.looks() && spec.many():
			return fmt.Errorf("%v cannot be combined with list and top, which read entries: write it in a separate feature", a)
		}
	}
	if err := spec.checkTake(); err != nil {
		return err
	}
	switch {
	case spec.Kind > Texts:
		return errors.New("unknown kind of values")
	case (spec.Kind == Texts || spec.Per) && spec.Last >= blockLen:
		return fmt.Errorf("last is %d: of texts, and with per, use 1 to 63", spec.Last)
	case spec.Looks() && spec.Max > mostLooked:
		return fmt.Errorf("max is %d: use at most 16,384, as each read looks at all of these entries", spec.Max)
	case ewma != (spec.HalfLife != 0):
		return errors.New("half_life goes with ewma: write both, or leave out half_life")
	case ewma && (spec.HalfLife < time.Millisecond || spec.HalfLife > maxSize):
		return fmt.Errorf("half-life is %v: use 1ms to 366d", spec.HalfLife)
	}
	return nil
}

func (spec *Spec) many() bool { return slices.ContainsFunc(spec.Aggregates, Aggregate.Many) }

// checkTake checks Take.
func (spec *Spec) checkTake() error {
	top := slices.Contains(spec.Aggregates, Top)
	switch {
	case spec.Take != 0 && !spec.many() && !spec.Per:
		return errors.New("take is for list, top and per: leave it out")
	case spec.Take < 0 || spec.Take > mostListed:
		return fmt.Errorf("take is %d: use 1 to 1,000", spec.Take)
	case top && spec.Take > mostTop:
		return fmt.Errorf("take is %d: use 1 to 100 with top", spec.Take)
	}
	return nil
}

func checkWindows(windows []Window) error {
	for k, w := range windows {
		if err := w.check(); err != nil {
			return fmt.Errorf("window %q: %w", w.Name, err)
		}
		if slices.ContainsFunc(windows[:k], func(o Window) bool { return o.Name == w.Name }) {
			return fmt.Errorf("window %q occurs twice", w.Name)
		}
	}
	return nil
}
