package oracle

import (
	"math"
	"math/big"
	"slices"
)

// Feature is one feature of a key.
type Feature struct {
	Name       string
	Value      *Expr // nil counts events
	When       *Expr // nil is always
	Per        *Expr // the group of an entry; nil if there are no groups
	Take       int   // values of a list or map, or groups; 0 is the default
	Windows    []Window
	Keep       int // the newest values: `last` of the pipeline file
	Elapsed    bool
	Aggregates []string
	AnyKind    bool // values are kept unchanged: of the kind of Value
	Decimals   int  // -1: as they are
	Empty      float64
	HalfLife   int64  // of ewma, microseconds
	Last       string // the name that it waits for if it is fed back, else ""
}

// Window is a window of event time, in microseconds. Pane is 0 if it is exact.
type Window struct {
	Text, Label string
	Size, Pane  int64
}

// key is the state of a key.
type key struct {
	latest int64 // event time of its newest event
	memory map[string]*memory
}

// memory is the state of a feature for a key.
type memory struct {
	entries []entry // of windows, in the order of arrival
	last    []entry // the newest values, of time 0
	before  int64   // event time of the newest event that counted
}

type entry struct {
	at    int64
	value float64 // in units of the last decimal
	any   Value   // as it is
	group string
}

const thirtyDays = 30 * 24 * 3600 * 1_000_000

// key returns the state of a key at the watermark, before the event at time at.
func (s *state) key(name string, at int64) *key {
	k := s.keys[name]
	if k == nil || s.watermark() >= k.latest+max(thirtyDays, s.longest()) {
		k = &key{latest: never, memory: map[string]*memory{}}
		s.keys[name] = k
	}
	if k.latest != never && s.watermark() >= k.latest+s.longest() {
		for _, m := range k.memory {
			m.entries = nil
		}
	}
	k.latest = max(k.latest, at)
	return k
}

// longest is the longest window of the pipeline.
func (p *Pipeline) longest() (size int64) {
	for _, f := range p.all() {
		for _, w := range f.Windows {
			size = max(size, w.Size)
		}
	}
	return size
}

// all returns the features of all steps.
func (p *Pipeline) all() (list []*Feature) {
	for i := range p.Steps {
		list = append(list, p.Steps[i].Features...)
	}
	return list
}

// fedBack returns the features that wait for a name.
func (p *Pipeline) fedBack() []*Feature {
	return slices.DeleteFunc(p.all(), func(f *Feature) bool { return f.Last == "" })
}

func (k *key) of(f *Feature) *memory {
	m := k.memory[f.Name]
	if m == nil {
		m = &memory{before: never}
		k.memory[f.Name] = m
	}
	return m
}

// features adds the event to the features of a step, to all of them or to none, and
// reads them. One that is fed back is read alone.
func (t *turn) features(list []*Feature) string {
	kept := map[string]memory{}
	for _, f := range list {
		m := *t.of(f)
		kept[f.Name] = m
	}
	undo := func() string {
		for _, f := range list {
			*t.of(f) = kept[f.Name]
		}
		return "features"
	}
	for _, f := range list {
		if f.Elapsed && f.Last == "" { // the time since the event before
			t.values[f.Name] = t.elapsed(f)
		}
		if f.Last == "" {
			t.previous(f)
		}
		if f.Last == "" && !t.write(f) {
			return undo()
		}
	}
	for _, f := range list {
		if !t.read(f) {
			return undo()
		}
	}
	return done
}

// write adds the event to a feature, and reports whether it fits.
func (t *turn) write(f *Feature) bool {
	if f.When != nil {
		holds, ok := f.When.eval(t.values)
		if !ok {
			return false
		}
		if !holds.Bool {
			return true
		}
	}
	value, v := 0.0, Value{}
	if f.Value != nil {
		var ok bool
		if v, ok = f.Value.eval(t.values); !ok {
			return false
		}
		if !f.AnyKind {
			value = v.float()
		}
	}
	if f.Decimals >= 0 && !f.counts() {
		value = math.RoundToEven(value * math.Pow10(f.Decimals))
		if !(math.Abs(value) <= 1<<53) {
			return false
		}
	}
	group := ""
	if f.Per != nil {
		of, ok := f.Per.eval(t.values)
		if group = of.text(); !ok || !f.grouped(value) {
			return false
		}
	}
	m := t.of(f)
	m.before = max(m.before, t.at)
	if f.Keep > 0 {
		m.last = append(slices.Clone(m.last), entry{0, value, v, group})
		m.last = m.last[max(0, len(m.last)-f.Keep):]
	}
	if len(f.Windows) > 0 {
		m.entries = append(slices.Clone(m.entries), entry{t.at, value, v, group})
	}
	return f.fits(m, t.at)
}

// fits reports whether the sums of the windows with an entry of time at are in range, as of the
// newest entry.
func (f *Feature) fits(m *memory, at int64) bool {
	newest := at
	for _, e := range m.entries {
		newest = max(newest, e.at)
	}
	for _, w := range f.Windows {
		has := newest-w.Size < at
		if w.Pane > 0 {
			has = floorDiv(newest, w.Pane)-w.Size/w.Pane < floorDiv(at, w.Pane)
		}
		if has && f.Per == nil && f.sums() && math.IsInf(f.sum(m.within(f, w, newest)).Number, 0) {
			return false
		}
	}
	return true
}

// counts reports that the feature only counts. It then keeps no value, so it accepts any value.
func (f *Feature) counts() bool { return slices.Equal(f.Aggregates, []string{"count"}) }

// sums reports that the feature has a sum, which may be out of range.
func (f *Feature) sums() bool {
	return slices.ContainsFunc(f.Aggregates, func(a string) bool { return slices.Contains([]string{"sum", "mean", "variance", "stddev", "slope"}, a) })
}

// read sets the columns of a feature. It reports whether all of them are numbers.
func (t *turn) read(f *Feature) bool {
	m := t.of(f)
	switch {
	case f.Elapsed:
		if f.Last != "" {
			t.values[f.Name] = t.elapsed(f)
		}
	case f.Keep > 0:
		return t.aggregate(f, f.Name+".", "", m.last)
	default:
		for _, w := range f.Windows {
			entries := m.within(f, w, t.at)
			if !t.aggregate(f, f.Name+".", "_"+w.Label, entries) {
				return false
			}
			if w.Pane > 0 {
				t.percentiles(f, "_"+w.Label, entries)
			}
		}
	}
	return true
}

func (t *turn) elapsed(f *Feature) Value {
	m := t.of(f)
	if m.before == never {
		return Value{Kind: Number, Number: f.Empty}
	}
	return Value{Kind: Number, Number: float64(max(0, t.at-m.before)) / 1_000_000}
}

// within returns the values of window w as of time at.
func (m *memory) within(f *Feature, w Window, at int64) (values []entry) {
	newest, longest := int64(never), int64(0)
	for _, e := range m.entries {
		newest = max(newest, e.at)
	}
	for _, o := range f.Windows {
		if o.Pane == 0 {
			longest = max(longest, o.Size)
		}
	}
	for _, e := range m.entries {
		if w.Pane > 0 {
			pane := floorDiv(e.at, w.Pane)
			if pane > floorDiv(max(newest, at), w.Pane)-w.Size/w.Pane && pane <= floorDiv(at, w.Pane) {
				values = append(values, e)
			}
		} else if e.at > at-w.Size && e.at <= at && e.at > newest-longest {
			values = append(values, e)
		}
	}
	return values
}

func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}

// valuesOf returns the values of entries.
func valuesOf(entries []entry) (values []float64) {
	for _, e := range entries {
		values = append(values, e.value)
	}
	return values
}

// aggregate sets the columns of some values. It reports whether each is a number.
func (t *turn) aggregate(f *Feature, prefix, suffix string, entries []entry) bool {
	if f.Per != nil {
		t.groups(f, prefix, suffix, entries, false)
		return true
	}
	values := valuesOf(entries)
	scale := 1.0
	if f.Decimals > 0 {
		scale = math.Pow10(f.Decimals)
	}
	var sum Value
	if f.sums() {
		sum = f.sum(entries)
	}
	if math.IsInf(sum.Number, 0) {
		return false
	}
	for _, a := range f.Aggregates {
		v := Value{Kind: Number, Number: f.Empty}
		switch n := len(values); {
		case a == "count":
			v.Number = float64(n)
		case a == "sum":
			v = sum
		case a == "previous" && f.Last == "":
			continue // it was read before
		case looks[a]:
			v = f.look(a, entries, scale)
		case n == 0:
		case a == "ewma":
			v = f.ewma(entries, t.at, scale)
		case a == "slope":
			v = f.slope(entries, scale)
		case a == "variance":
			v = f.variance(values, scale)
		case a == "stddev":
			v = f.variance(values, scale)
			v.Number, v.Tolerance = math.Sqrt(v.Number), math.Sqrt(v.Number)*0x1p-49
		case a == "mean":
			v = Value{Kind: Number, Number: sum.Number / float64(n), Tolerance: sum.Tolerance}
		case a == "max":
			v.Number = slices.Max(values) / scale
		case a == "min":
			v.Number = slices.Min(values) / scale
		}
		t.values[prefix+a+suffix] = v
	}
	return true
}

// sum adds values in unbounded precision. If additions of float64 may round, the tolerance is the
// largest loss of any order of additions.
func (f *Feature) sum(entries []entry) Value {
	values := valuesOf(entries)
	total, size, exact := new(big.Float).SetPrec(2400), new(big.Float).SetPrec(2400), true
	for _, v := range values {
		total.Add(total, big.NewFloat(v))
		size.Add(size, big.NewFloat(math.Abs(v)))
		exact = exact && v*8 == math.Trunc(v*8)
	}
	sum, _ := total.Float64()
	all, _ := size.Float64()
	if f.Decimals >= 0 {
		if !total.IsInt() || total.MinPrec() > 63 && math.Abs(sum) >= 1<<63 {
			return Value{Kind: Number, Number: math.Inf(1)}
		}
		return Value{Kind: Number, Number: sum / math.Pow10(f.Decimals)}
	}
	v := Value{Kind: Number, Number: sum}
	if !exact || all*8 >= 1<<53 {
		v.Tolerance = all * float64(len(values)) * 0x1p-52
	}
	return v
}
