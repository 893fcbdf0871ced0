package feature

// Value is the result of an aggregate. It is a number, a value of the feature's kind (for
// Aggregates that are Valued), or a list of such values (for those that are Many). With Per it is a
// list with the result for each group. Numbers of entries and values are in Int too.
type Value struct {
	Number  float64
	Int     int64
	Text    []byte // valid until the next Add
	Present bool   // the value exists
	Items   []Value
	Count   int    // number of entries of an item of Top
	Group   []byte // group of an item, with Per; valid until the next Add
}

// Kind returns the kind of the values of feature i.
func (s *Set) Kind(i int) Kind { return s.features[i].unit.values }

// AnyKind reports whether feature i must be read by ReadValues, because not all its columns are
// numbers.
func (s *Set) AnyKind(i int) bool {
	f := &s.features[i]
	return f.unit.values != Numbers || f.many || f.per
}

// Per reports whether the entries of feature i belong to groups.
func (s *Set) Per(i int) bool { return s.features[i].per }

// Before reports whether feature i has columns that are read before the event is added: by
// ReadBefore, or by ReadValues with before.
func (s *Set) Before(i int) bool { return s.features[i].before }

// ColumnBefore reports whether a column of feature i is read before the event is added.
func (s *Set) ColumnBefore(i, column int) bool {
	f := &s.features[i]
	return f.before && f.aggregates[column%len(f.aggregates)] == Previous
}

// ReadBefore writes the values of the previous event to the columns of Previous. Read leaves these
// columns unchanged.
func (s *Set) ReadBefore(c *Cell, i int, t int64, out []float64) {
	s.look(c, &s.features[i], clampTime(t), true, columns{numbers: out})
}

// ReadValues does what Read does, or ReadBefore if before is set, for a feature of any kind. A
// missing value is absent. It reuses the items that out already has. It reports whether a window
// has more groups than the feature returns.
func (s *Set) ReadValues(c *Cell, i int, t int64, before bool, out []Value) (more bool) {
	return s.look(c, &s.features[i], clampTime(t), before, columns{values: out})
}
