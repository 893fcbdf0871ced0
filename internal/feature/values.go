package feature

// Value is what an aggregate is: a number, of Aggregates that are Valued one of the kind of the
// feature, or of those that are Many a list of such. With Per it is a list of what it is of
// each group: numbers of entries and values are in Int too.
type Value struct {
	Number  float64
	Int     int64
	Text    []byte // until the next Add
	Present bool   // there is one
	Items   []Value
	Count   int    // entries with an item of Top
	Group   []byte // of an item, with Per: until the next Add
}

// Kind returns the kind of the values of feature i.
func (s *Set) Kind(i int) Kind { return s.features[i].unit.values }

// AnyKind reports whether feature i is read by ReadValues: its columns are not all numbers.
func (s *Set) AnyKind(i int) bool {
	f := &s.features[i]
	return f.unit.values != Numbers || f.many || f.per
}

// Per reports whether entries of feature i are in groups.
func (s *Set) Per(i int) bool { return s.features[i].per }

// Before reports whether columns of feature i are read before the event is added: by
// ReadBefore, or ReadValues with before.
func (s *Set) Before(i int) bool { return s.features[i].before }

// ColumnBefore reports whether a column of feature i is one of those.
func (s *Set) ColumnBefore(i, column int) bool {
	f := &s.features[i]
	return f.before && f.aggregates[column%len(f.aggregates)] == Previous
}

// ReadBefore puts what the event before said into the columns of Previous. Read leaves them
// as they are.
func (s *Set) ReadBefore(c *Cell, i int, t int64, out []float64) {
	s.look(c, &s.features[i], clampTime(t), true, columns{numbers: out})
}

// ReadValues is Read of a feature of any kind, or with before ReadBefore. A value that is not
// there is absent. Items are put where out has had some before. It reports whether a window has
// more groups than are taken.
func (s *Set) ReadValues(c *Cell, i int, t int64, before bool, out []Value) (more bool) {
	return s.look(c, &s.features[i], clampTime(t), before, columns{values: out})
}
