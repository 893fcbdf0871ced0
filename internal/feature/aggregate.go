package feature

import (
	"fmt"
	"strings"
)

// Aggregate is a function over the entries of a window or over the newest values.
type Aggregate uint8

// The aggregates of the pipeline file.
const (
	Count Aggregate = iota + 1
	Sum
	Mean
	Max
	Min
	Variance
	Stddev
	Slope
	FirstValue
	LastValue
	Previous
	Changes
	Distinct
	P50
	P95
	P99
	EWMA
	List
	Top
)

// looks reports whether the aggregate reads each entry.
func (a Aggregate) looks() bool { return a >= FirstValue && a <= Top }

// sketched reports whether panes keep sketches for the aggregate.
func (a Aggregate) sketched() bool { return a >= Distinct && a <= P99 }

// Numeric reports whether the aggregate takes numbers only. The others take values of any kind.
func (a Aggregate) Numeric() bool { return a != Count && (a < FirstValue || a >= P50 && a <= EWMA) }

// Valued reports whether the result is one of the values, and so has their kind.
func (a Aggregate) Valued() bool { return a == FirstValue || a == LastValue || a == Previous }

// Counts reports whether the result is a number of entries or values.
func (a Aggregate) Counts() bool { return a == Count || a == Changes || a == Distinct }

// Many reports whether the result is a list or map of at most Spec.Take values.
func (a Aggregate) Many() bool { return a == List || a == Top }

// About describes an aggregate: a row of the reference page.
type About struct {
	Name   string
	Of     string // definition
	Empty  string // result without entries
	Panes  string // words of 8 bytes that a pane keeps for it, in addition to its index and count
	Cost   string // cost of a read, in addition to finding the entries
	Error  string
	Source string // source of the method
}

const (
	exactUnits = "none with `decimals`; else that of adding floats in a fixed order"
	ofMoments  = "2^-51 of the result with `decimals`. Else 2^-52 times the number of parts that are merged, times (1 + mean²/variance)^½"
	ofNone     = "`empty`; absent if values are not numbers"
	noPanes    = "-"
	ofMembers  = "none, also of panes with up to 512 different values each. If a pane has more, a standard error of 1.63 %, and the output is marked"
	ofBins     = "none. Of panes at most 2^-7 (0.78 %) of the value; none if it is less than 128 units of `decimals`. If a pane has more than 1,024 bins, values of its lowest bins read too high, and the output is marked"
	chan1979   = "Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances (1979)"
)

// aggregates describes Aggregate a at index a-1.
var aggregates = [...]About{
	{"count", "number of entries", "0", "0", "none", "none", ""},
	{"sum", "sum of the values", "0", "1", "none", exactUnits, ""},
	{"mean", "sum/count", "`empty`", "1", "none", exactUnits, ""},
	{"max", "largest value", "`empty`", "1", "none", "none", ""},
	{"min", "smallest value", "`empty`", "1", "none", "none", ""},
	{"variance", "mean of (value - mean)², as numpy's `var`; that of one entry is 0", "`empty`", "3", "the entries of up to 17 blocks once more", ofMoments, chan1979},
	{"stddev", "square root of the variance", "`empty`", "3", "as variance", ofMoments, chan1979},
	{"slope", "change of the value in a second of event time: least squares of value over time. Of windows only", "`empty`, also if all entries have one time", "9", "as variance", ofMoments + ". It counts for the value's deviation, not for a slope near 0", chan1979},
	{"first_value", "value of the first entry by (time, position)", ofNone, noPanes, "spans of blocks, one block", "none", ""},
	{"last_value", "value of the last entry by (time, position), the event's own if it counts", ofNone, noPanes, "as first_value", "none", ""},
	{"previous", "the `last_value` that the key had before this event", ofNone, noPanes, "as first_value", "none", ""},
	{"changes", "how many entries have another value than the one before, by (time, position)", "0", noPanes, "each entry; sorts them if one is late", "none", ""},
	{"distinct", "number of different values", "0", "1 for each different value in the pane, at most 512", "each entry. Of panes none; an estimate reads all panes once a pane", ofMembers, "a hash table with linear probing; of panes Ertl: New cardinality estimation algorithms for HyperLogLog sketches (2017)"},
	{"p50", "the smallest value v such that at least half of the values are at most v: numpy's `percentile` with `inverted_cdf`", "`empty`", "1 for each different bin of values in the pane, at most 1,024", "each entry, about 4 times. Of panes the bins of the window", ofBins, "nearest rank; Hoare: Algorithm 65, Find (1961). Of panes Masson, Rim, Lee: DDSketch (2019)"},
	{"p95", "as p50, with 95 % of the values", "`empty`", "as p50, shared", "as p50", "as p50", "as p50"},
	{"p99", "as p50, with 99 % of the values", "`empty`", "as p50, shared", "as p50", "as p50", "as p50"},
	{"ewma", "mean with weights 2^-(age/`half_life`), the age in event time at the read. Of windows only", "`empty`", noPanes, "each entry, a power of 2", "2^-52 times the number of entries, of the mean of magnitudes", ""},
	{"list", "the last `take` entries by (time, position), the oldest first: a list of the values", "`[]`", noPanes, "each entry; sorts them if one is late", "none", ""},
	{"top", "the `take` most frequent values, each with its number of entries: a map of int with the values, as texts, as keys. Values with equal numbers are in value order", "`{}`", noPanes, "as distinct, and a sort of the different values", "none", "as distinct"},
}

// Aggregates returns the descriptions of all aggregates of the pipeline file.
func Aggregates() []About { return aggregates[:] }

// AggregateNames returns the names of all aggregates as the pipeline file writes them.
func AggregateNames() (names []string) {
	for i := range aggregates {
		names = append(names, aggregates[i].Name)
	}
	return names
}

func (a Aggregate) known() bool { return a > 0 && int(a) <= len(aggregates) }

// String returns the aggregate as the pipeline file writes it.
func (a Aggregate) String() string {
	if !a.known() {
		return fmt.Sprintf("Aggregate(%d)", uint8(a))
	}
	return aggregates[a-1].Name
}

// ParseAggregate reads an aggregate as the pipeline file writes it.
func ParseAggregate(text string) (Aggregate, error) {
	for i := range aggregates {
		if aggregates[i].Name == text {
			return Aggregate(i + 1), nil
		}
	}
	return 0, fmt.Errorf("unknown aggregate %q: use %s", text, aggregateList())
}

// aggregateList returns all names as one text, for errors.
func aggregateList() string {
	names := AggregateNames()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
