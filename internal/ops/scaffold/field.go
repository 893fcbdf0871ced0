package scaffold

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// fits is the share of a field's values that must have its type. Events with other values become
// dead letters.
const fits = 0.95

// Field is a field of the events with statistics of its values.
type Field struct {
	Name     string        // in the pipeline
	Path     []decode.Part // in the data or the envelope
	Origin   decode.Origin // the root of Path
	Type     value.Type    // in the pipeline; the zero value if the field is left out
	Left     string        // why it is left out; "" if it is not
	Present  int           // events with a value other than null
	Distinct int           // different values
	Misfits  int           // values of another type
	Example  string        // a value, as JSON; may be cut

	cells   []cell
	counts  map[string]int // number of events with each value
	kinds   [value.Bytes + 1]int
	parent  *Field
	inner   inner       // members of an object
	items   *elements   // elements of an array
	of      *value.Kind // kind of a list made from a member of each object of a list
	group   bool        // its members are read instead of it
	plain   bool        // expressions can use the name
	unnamed bool        // only its name prevents its use

	inSchema
}

// inner counts the members of a field's objects and arrays.
type inner struct {
	open   byte // '{' for objects, '[' for arrays, '?' for both
	names  int  // number of different names
	values int
}

// inSchema is the declaration of a field in the schema of the events.
type inSchema struct {
	declared *decode.Declared // nil if the schema does not declare it
	unread   string           // why no field can read the declared values
	above    bool             // the schema declares values inside it
}

// cell is one value of a field.
type cell struct {
	event  int32
	kind   value.Kind // 0 for an object, an array, or a number outside float64
	int    int64      // value of an int, or a time in microseconds
	number float64    // also set for an int
	text   string     // as JSON; a string without quotes and escapes
}

func newField(path []decode.Part, of decode.Origin) *Field {
	return &Field{Path: path, Origin: of, counts: map[string]int{}}
}

// At returns the path of the field as text.
func (f *Field) At() string { return decode.PathText(f.Path) }

// short reports whether the name of the field is also its path.
func (f *Field) short() bool {
	return f.Origin == decode.FromData && len(f.Path) == 1 && f.Path[0].Name == f.Name
}

func (f *Field) add(c cell) {
	f.Present++
	f.kinds[c.kind]++
	f.counts[c.text]++
	if c.kind != 0 {
		f.cells = append(f.cells, c)
	}
	if f.Example == "" {
		f.Example = c.text
		if c.kind == value.String || c.kind == value.Time {
			f.Example = quote(c.text)
		} else if c.kind == 0 {
			f.Example = map[byte]string{'{': "{...}", '[': "[...]"}[c.text[0]]
		}
	}
}

// decide finds the field's type, or why it has none. events is the number of events in the sample.
func (f *Field) decide(events int) {
	f.Distinct = len(f.counts)
	numbers, texts := f.kinds[value.Int]+f.kinds[value.Number], f.kinds[value.String]+f.kinds[value.Time]
	most := max(f.kinds[value.Bool], numbers, texts, f.kinds[0])
	switch {
	case f.Name == "":
		f.Left, f.unnamed = fmt.Sprintf("its name has no letters or digits: choose a name, NAME: {path: %s, type: TYPE}", scalar(f.At())), true
	case f.parent != nil && (f.parent.Left != "" || f.parent.typed()) && !f.parent.group:
		f.group = true // its object is left out, so it is too
		return
	case f.of != nil:
		f.Type.Kind = value.List | *f.of
	case f.unread != "":
		f.Left = f.unread
	case f.Present == 0 && f.above:
		f.group = true // the schema declares its members
		return
	case f.Present == 0:
		f.Left = "it is always null"
	case most == f.kinds[0] && float64(most) >= fits*float64(f.Present) && f.inner.open == '{':
		f.object()
	case most == f.kinds[0] && float64(most) >= fits*float64(f.Present) && f.inner.open == '[':
		f.list()
	case most == f.kinds[0] && f.inner.open == 0:
		f.Left = "its numbers are out of range"
	case float64(most) < fits*float64(f.Present), most == f.kinds[0]:
		f.Left = "its type differs: " + f.mixture()
	case most == f.kinds[value.Bool]:
		f.Type.Kind = value.Bool
	case most == numbers && f.kinds[value.Number] == 0:
		f.Type.Kind = value.Int
	case most == numbers:
		f.Type.Kind = value.Number
	case f.kinds[value.String] == 0:
		f.Type.Kind = value.Time
	default:
		f.Type.Kind = value.String
	}
	f.declare()
	if f.Left != "" {
		f.cells = nil
		return
	}
	switch {
	case f.typed() && f.Type.Kind&(value.List|value.Map) == 0:
		for _, c := range f.cells {
			if f.holds(c.kind) {
				f.Misfits--
			}
		}
		f.Misfits += f.Present
	case f.of == nil && !f.typed():
		f.Misfits = f.Present - most
	}
	f.Type.Optional = f.Present < events || f.declared != nil && f.declared.Optional
	f.plain = usable(f.Name)
	if f.Misfits == 0 {
		return
	}
	f.cells = slices.DeleteFunc(f.cells, func(c cell) bool { return !f.holds(c.kind) })
	f.counts = map[string]int{}
	for _, c := range f.cells {
		f.counts[c.text]++
	}
	f.Distinct = len(f.counts)
}

// typed reports whether the schema of the events declares types for the field.
func (f *Field) typed() bool { return f.declared != nil && !f.declared.Any }

// declare gives the field a type that can read the declared values.
func (f *Field) declare() {
	if f.typed() && f.unread == "" && f.Name != "" {
		f.Left, f.group = "", false
		f.Type.Kind = f.declared.Fits(f.Type.Kind)
	}
}

// holds reports whether the field's type accepts values of a kind.
func (f *Field) holds(kind value.Kind) bool {
	switch f.Type.Kind {
	case value.Number:
		return kind == value.Int || kind == value.Number
	case value.String:
		return kind == value.String || kind == value.Time
	case value.Bytes:
		return kind == value.String
	}
	return kind == f.Type.Kind
}

// mixture lists the kinds of the field's values.
func (f *Field) mixture() string {
	var list []string
	for kind, n := range f.kinds {
		if n == 0 {
			continue
		}
		name := "an object or array"
		if kind != 0 {
			name = value.Kind(kind).String()
		}
		list = append(list, fmt.Sprintf("%s %s times", name, thousands(n)))
	}
	return strings.Join(list, ", ")
}

// reserved are names with a meaning in expressions.
var reserved = []string{"meta", "event", "null"}

// identifier reports whether a pipeline accepts a name for a field.
func identifier(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= nameMax && !slices.Contains(reserved, name)
}

// usable reports whether expressions can use a name. Keywords of the expression language cannot be
// used.
func usable(name string) bool {
	program, err := expression.Compile(name, only(name))
	return err == nil && len(program.Uses()) == 1
}

// only is the single name that an expression knows.
type only string

// Slot implements expression.Names.
func (o only) Slot(name string) (value.Slot, bool) {
	return value.Slot{Name: name, Type: value.Type{Kind: value.Number}}, name == string(o)
}

// Constant implements expression.Names.
func (o only) Constant(string) (expression.Constant, bool) { return expression.Constant{}, false }

// Known implements expression.Names.
func (o only) Known() []string { return []string{string(o)} }

// numbers returns the values of an int or number field, sorted.
func (f *Field) numbers() []float64 {
	list := make([]float64, len(f.cells))
	for i, c := range f.cells {
		list[i] = c.number
	}
	slices.Sort(list)
	return list
}

// decimals returns the largest number of decimals of the values, or -1 if it is more than two.
func (f *Field) decimals() int {
	most := 0
	for _, c := range f.cells {
		scaled := c.number * 100
		switch {
		case math.Abs(c.number) > 1e9 || math.Abs(scaled-math.Round(scaled)) > 1e-6:
			return -1
		case math.Round(scaled) != 100*math.Round(c.number):
			most = 2
		}
	}
	return most
}

// symbols returns the values of an enum that the schema declares, or nil if the field is no enum.
func (f *Field) symbols() []string {
	if f.declared == nil {
		return nil
	}
	return f.declared.Symbols
}

// coded returns the values to map to numbers: the most frequent first, then the other values of an
// enum.
func (f *Field) coded() []string {
	list := f.common()
	for _, symbol := range f.symbols() {
		if f.counts[symbol] == 0 {
			list = append(list, symbol)
		}
	}
	return list
}

// common returns the values of a string field, the most frequent first.
func (f *Field) common() []string {
	list := make([]string, 0, len(f.counts))
	for text := range f.counts {
		list = append(list, text)
	}
	slices.SortFunc(list, func(a, b string) int {
		if n := f.counts[b] - f.counts[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return list
}

// words splits a name at "_" and before capitals: userID becomes user and id.
func words(name string) []string {
	var list []string
	var word []rune
	letters := []rune(name)
	end := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	upper := func(i int) bool { return i >= 0 && i < len(letters) && letters[i] >= 'A' && letters[i] <= 'Z' }
	lower := func(i int) bool { return i >= 0 && i < len(letters) && letters[i] >= 'a' && letters[i] <= 'z' }
	for i, r := range letters {
		if r == '_' {
			end()
			continue
		}
		if upper(i) && (!upper(i-1) || lower(i+1)) {
			end()
		}
		word = append(word, r)
	}
	end()
	return list
}

// quote formats text as an ASCII string, and cuts it if it is long.
func quote(text string) string {
	const most = 24
	if characters := []rune(text); len(characters) > most {
		return strconv.QuoteToASCII(string(characters[:most-3])) + "..."
	}
	return strconv.QuoteToASCII(text)
}

// cut formats JSON as one ASCII line, and cuts it if it is long.
func cut(text string) string {
	const most = 40
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		return text[:most-3] + "..."
	}
	return text
}

// thousands formats a count with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
