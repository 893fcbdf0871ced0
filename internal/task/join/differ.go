package join

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Stored is an event that waits for its pair, in the form of the state.
type Stored struct {
	Join, Key, ID string
	Right         bool
	row           row
}

// StoredOf returns the event of an entry; ok is false if the entry cannot be read.
func StoredOf(stored, data []byte) (s Stored, ok bool) {
	var key []byte
	if s.Join, _, key, s.Right, _, ok = statekey.JoinOf(stored); !ok || s.row.parse(data) != nil {
		return s, false
	}
	s.Key, s.ID = string(key), s.row.data.ID
	return s, true
}

// Difference returns the first name that differs between two events, and both values. It returns ""
// if they are equal. It does not compare positions in the partition, since copies may come in
// another order.
func (s *Stored) Difference(j *operator.Join, o *Stored) (name, mine, other string) {
	a, b := s.row.data, o.row.data
	for _, one := range [][3]string{
		{"meta.id", a.ID, b.ID}, {"source", a.Source, b.Source}, {"client", fmt.Sprintf("%q", a.Client), fmt.Sprintf("%q", b.Client)},
		{"meta.time", fmt.Sprint(s.row.time), fmt.Sprint(o.row.time)},
		{"matched", fmt.Sprint(s.row.matched), fmt.Sprint(o.row.matched)}, {"count", fmt.Sprint(a.count), fmt.Sprint(b.count)},
		{"id of its best right", a.best.id, b.best.id}, {"source of its best right", a.best.source, b.best.source},
		{"time of its best right", timeOf(s.row.best), timeOf(o.row.best)},
	} {
		if one[1] != one[2] {
			if !strings.Contains(one[0], ".") {
				one[0] = j.Name + "." + one[0]
			}
			return one[0], one[1], one[2]
		}
	}
	prefix := ""
	if s.Right {
		prefix = j.Name + "."
	}
	if name, mine, other = differ(prefix, a.row, b.row); name != "" {
		return name, mine, other
	}
	return differ(j.Name+".", a.best.row, b.best.row)
}

func timeOf(p *place) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(p.time)
}

// differ compares two rows of names and values.
func differ(prefix string, a, b []byte) (name, mine, other string) {
	x, y := named(a), named(b)
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if x[name] != y[name] {
			return prefix + name, x[name], y[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(y)) {
		if x[name] != y[name] {
			return prefix + name, x[name], y[name]
		}
	}
	return "", "", ""
}

// named returns the values of a row as text, by name. It omits the values that depend on the
// position of the row.
func named(data []byte) map[string]string {
	values := map[string]string{}
	whole := operator.EachNamed(data, func(name []byte, kind value.Kind, held []byte) {
		switch text := string(name); {
		case text == "meta.partition" || text == "meta.offset":
		case kind == value.Number:
			values[text] = fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(held)))
		case kind.Text():
			values[text] = fmt.Sprintf("%v %q", kind, held)
		default:
			values[text] = fmt.Sprint(int64(binary.LittleEndian.Uint64(held)))
		}
	})
	if !whole {
		values["row"] = fmt.Sprintf("%q", data)
	}
	return values
}
