// Package runes maps code points to their normalized form. The tables come with a model or with the
// program, because the tables of Go change with its version and the answers of a model must not.
package runes

// Rune is the result for a code point: Value, the code point itself if Value is 0, or several or no
// runes. Flags give the kinds of the result. The builder of the table defines their meaning.
type Rune uint32

const (
	valueMask = 1<<21 - 1
	many      = 1 << 21

	// FlagShift is the position of the lowest flag in a Rune. There are ten flags.
	FlagShift = 22
	// End is the first number beyond the code points.
	End = 0x110000

	pageBits = 8
	pageSize = 1 << pageBits
)

// Value returns the rune that c becomes. It is only defined if Many is false.
func (r Rune) Value(c rune) rune {
	if v := rune(r & valueMask); v != 0 {
		return v
	}
	return c
}

// Many reports whether the result is not exactly one rune. Map.Text returns it.
func (r Rune) Many() bool { return r&many != 0 }

// Flags returns the flags that the table was built with.
func (r Rune) Flags() uint32 { return uint32(r >> FlagShift) }

// Map is a table over all code points. It is immutable.
type Map struct {
	index [End / pageSize]uint16
	pages [][pageSize]Rune
	texts [][]Rune
}

// Get returns the result for c, which must be a code point.
func (m *Map) Get(c rune) Rune {
	return m.pages[m.index[uint32(c)>>pageBits]][c&(pageSize-1)]
}

// Text returns the runes that replace a code point if its Rune is Many. Each has a non-zero value
// and its own flags.
func (m *Map) Text(r Rune) []Rune { return m.texts[r&valueMask] }

// Build builds the table. For each code point, become returns the runes that replace it, and flags
// returns the flags of a rune. A single rune equal to c means no change. Build reads the slice
// before it calls become again.
func Build(become func(c rune) []rune, flags func(c rune) uint32) *Map {
	m := &Map{texts: [][]Rune{nil}}
	known := map[[pageSize]Rune]uint16{}
	for first := rune(0); first < End; first += pageSize {
		var page [pageSize]Rune
		for i := range page {
			page[i] = m.rune(first+rune(i), become(first+rune(i)), flags)
		}
		at, ok := known[page]
		if !ok {
			at = uint16(len(m.pages))
			known[page] = at
			m.pages = append(m.pages, page)
		}
		m.index[first>>pageBits] = at
	}
	return m
}

func (m *Map) rune(c rune, become []rune, flags func(c rune) uint32) Rune {
	// 0 means the code point itself, so NUL is stored as a text unless c is NUL.
	if len(become) == 1 && (become[0] != 0 || c == 0) {
		result := Rune(flags(become[0])) << FlagShift
		if become[0] != c {
			result |= Rune(become[0])
		}
		return result
	}
	text := make([]Rune, len(become))
	for i, to := range become {
		text[i] = Rune(to) | Rune(flags(to))<<FlagShift
	}
	if len(text) == 0 {
		return many // one shared entry for the many removed code points
	}
	m.texts = append(m.texts, text)
	return Rune(len(m.texts)-1) | many
}

// Ranges is a set of code points: pairs of first and last, ascending.
type Ranges []rune

// Classes returns a byte for each code point. Bit i is set if the code point is in set i.
func Classes(sets ...Ranges) []uint8 {
	classes := make([]uint8, End)
	for i, set := range sets {
		for j := 0; j < len(set); j += 2 {
			for c := set[j]; c <= set[j+1]; c++ {
				classes[c] |= 1 << i
			}
		}
	}
	return classes
}

// Valid reports whether r is pairs of code points in ascending order that neither overlap nor
// touch.
func (r Ranges) Valid() bool {
	if len(r)%2 != 0 {
		return false
	}
	last := rune(-1)
	for i := 0; i < len(r); i += 2 {
		if r[i] <= last || r[i+1] < r[i] || r[i+1] >= End {
			return false
		}
		last = r[i+1]
	}
	return true
}

const (
	hangul      = 0xAC00
	hangulCount = 19 * 21 * 28
)

// IsHangul reports whether Hangul decomposes r.
func IsHangul(r rune) bool { return r >= hangul && r < hangul+hangulCount }

// Hangul decomposes a syllable by the arithmetic of the Unicode standard, section 3.12. It returns
// other runes unchanged.
func Hangul(r rune) []rune {
	const leads, vowels, trails = 0x1100, 0x1161, 0x11A7
	if !IsHangul(r) {
		return []rune{r}
	}
	i := r - hangul
	parts := []rune{leads + i/(21*28), vowels + i/28%21}
	if i%28 != 0 {
		parts = append(parts, trails+i%28)
	}
	return parts
}
