package spec

import "time"

// Share is a part of the events within a time.
type Share struct {
	Of  float64 // between 0 and 1
	Per time.Duration
}

// Constant is a name for a scalar (bool, int64, float64 or string) or for a
// table from string to scalars of one kind, used as table[key] ?? default.
type Constant struct {
	Name  string
	Value any // scalar, or nil where Table is set
	Table map[string]any
}
