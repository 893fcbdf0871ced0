package text

import (
	"fmt"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/internal/runes"
)

// Flags of the rune that a code point is folded to.
const (
	inRun   = 1 << iota // part of a run that may be a token
	noToken             // prevents its run from being a token
	isSpace
)

// Classes of the code points of the original text, in the order of classes.
const (
	classWord = 1 << iota
	classSpace
	classDecimal
	classCased
	classIgnorable
)

const (
	lowerMax    = 1 << 14 // characters with another lower case; Unicode has 1,500
	replacesMax = 32
)

const (
	capitalSigma = 0x3A3
	smallSigma   = 0x3C3
	finalSigma   = 0x3C2
)

// folder does what Python's str.lower and scikit-learn's accent strippers do,
// code point by code point.
type folder struct {
	table   *runes.Map
	ascii   [256]uint16 // for a byte below 128: the folded byte, and the flags above 8 bits
	classes []uint8     // of all code points

	sigma      rune // the letter with a lower case that depends on its neighbours; 0 if that does not matter
	finalFlags uint32
}

// tables holds the characters of a file, and the readings built from them.
type tables struct {
	characters *characters
	classes    []uint8
	readings   map[reading]*read
}

// reading says how a block folds a text and finds its tokens.
type reading struct {
	words     bool
	pattern   string
	lowercase bool
	accents   string
}

type read struct {
	pattern *pattern
	folder  *folder
}

const (
	readingsMax = 16  // limit, because each reading folds all of Unicode
	patternsMax = 400 // bytes of patterns: each class of a pattern is evaluated for all of Unicode
)

func newTables(c *characters) (*tables, error) {
	classes, err := c.classes()
	return &tables{c, classes, map[reading]*read{}}, err
}

// reading returns the pattern of words and the folder of a block. Blocks with the same reading
// share them.
func (t *tables) reading(how reading) (*pattern, *folder, error) {
	if known := t.readings[how]; known != nil {
		return known.pattern, known.folder, nil
	}
	if len(t.readings) == readingsMax {
		return nil, nil, fmt.Errorf("blocks read texts in more than %d ways: use the same lowercase, strip_accents and token_pattern for several", readingsMax)
	}
	patterns := len(how.pattern)
	for other := range t.readings {
		patterns += len(other.pattern)
	}
	if patterns > patternsMax {
		return nil, nil, fmt.Errorf("token_pattern: all different ones have %d bytes, more than %d", patterns, patternsMax)
	}
	flags := func(r rune) uint32 {
		if t.classes[r]&classSpace != 0 {
			return isSpace
		}
		return 0
	}
	made := &read{}
	var err error
	if how.words {
		if made.pattern, err = parsePattern(how.pattern, t.classes); err != nil {
			return nil, nil, err
		}
		if made.pattern.expression == nil {
			flags = made.pattern.flags
		}
	}
	if made.folder, err = t.characters.fold(how.lowercase, how.accents, t.classes, flags); err != nil {
		return nil, nil, err
	}
	t.readings[how] = made
	return made.pattern, made.folder, nil
}

// classes lays out the sets of characters by code point.
func (c *characters) classes() ([]uint8, error) {
	sets := []runes.Ranges{c.Word, c.Space, c.Decimal, c.Cased, c.Ignorable}
	for i, set := range sets {
		if !set.Valid() {
			name := [...]string{"word", "space", "decimal", "cased", "ignorable"}[i]
			return nil, fmt.Errorf("characters.%s: not pairs of code points in ascending order", name)
		}
	}
	return runes.Classes(sets...), nil
}

// single returns the one rune of a key of a table.
func single(table, key string) (rune, error) {
	r, n := utf8.DecodeRuneInString(key)
	if n == 0 || n != len(key) || r == utf8.RuneError && n == 1 {
		return 0, fmt.Errorf("characters.%s: %q is not one character", table, clip(key))
	}
	return r, nil
}

// several returns the characters that replace one character. In Unicode there are at most 18.
func several(table, key, to string) ([]rune, error) {
	if utf8.RuneCountInString(to) > replacesMax {
		return nil, fmt.Errorf("characters.%s: %q becomes more than %d characters", table, key, replacesMax)
	}
	return []rune(to), nil
}

// lower returns the lower case of the characters that str.lower changes. For the capital sigma it
// is the letter inside a word.
func (c *characters) lower() (map[rune][]rune, error) {
	changed := map[rune][]rune{}
	for _, l := range c.Lower {
		first, last, step, difference := l[0], l[1], l[2], l[3]
		if first < 0 || last >= runes.End || step < 1 || step > runes.End || first+difference < 0 || int64(last)+int64(difference) >= runes.End {
			return nil, fmt.Errorf("characters.lower: %v leaves Unicode", l)
		}
		for r := first; r <= last; r += step {
			if len(changed) == lowerMax {
				return nil, fmt.Errorf("characters.lower: more than %d characters", lowerMax)
			}
			if _, twice := changed[r]; twice { // this check also bounds the work
				return nil, fmt.Errorf("characters.lower: %v overlaps an earlier range at %q: export the model again", l, r)
			}
			changed[r] = []rune{r + difference}
		}
	}
	for key, to := range c.LowerText {
		r, err := single("lower_text", key)
		if err != nil {
			return nil, err
		}
		if changed[r], err = several("lower_text", key, to); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// accents returns the results of stripping accents: a table, and the rule for characters that are
// not in the table.
func (c *characters) accents(kind string) (map[rune][]rune, func(rune) []rune, error) {
	table, rest := c.Unicode, runes.Hangul
	switch kind {
	case "":
		return nil, nil, nil
	case "unicode":
	case "ascii":
		table, rest = c.ASCII, func(r rune) []rune {
			if r < utf8.RuneSelf {
				return []rune{r}
			}
			return nil
		}
	default:
		return nil, nil, fmt.Errorf("strip_accents %q is not one of unicode, ascii", clip(kind))
	}
	if len(table) == 0 {
		return nil, nil, fmt.Errorf("characters.strip_%s is missing", kind)
	}
	changed := map[rune][]rune{}
	for key, to := range table {
		r, err := single("strip_"+kind, key)
		if err != nil {
			return nil, nil, err
		}
		if changed[r], err = several("strip_"+kind, key, to); err != nil {
			return nil, nil, err
		}
	}
	return changed, rest, nil
}

// fold builds the folder of a vectorizer. flags returns the flags of a rune of the folded text.
func (c *characters) fold(lowercase bool, accents string, classes []uint8, flags func(rune) uint32) (*folder, error) {
	lower := map[rune][]rune{}
	if lowercase {
		var err error
		if lower, err = c.lower(); err != nil {
			return nil, err
		}
	}
	strip, rest, err := c.accents(accents)
	if err != nil {
		return nil, err
	}
	changed := make([]bool, runes.End) // a slice, because a million map lookups are slow
	for _, table := range []map[rune][]rune{lower, strip} {
		for r := range table {
			changed[r] = true
		}
	}
	var one [1]rune
	become := func(r rune) []rune {
		one[0] = r
		if !changed[r] && (rest == nil || accents == "unicode" && !runes.IsHangul(r)) {
			return one[:]
		}
		to, ok := lower[r]
		if !ok {
			to = one[:]
		}
		if rest == nil {
			return to
		}
		var all []rune
		for _, r := range to {
			if stripped, ok := strip[r]; ok {
				all = append(all, stripped...)
			} else {
				all = append(all, rest(r)...)
			}
		}
		return all
	}
	if lowercase && classes[capitalSigma]&classIgnorable != 0 { // each sigma looks beyond ignorable characters
		return nil, fmt.Errorf("characters.ignorable: it has %q, which has a lower case", rune(capitalSigma))
	}
	f := &folder{table: runes.Build(become, flags), classes: classes}
	if lowercase && accents != "ascii" {
		f.sigma, f.finalFlags = capitalSigma, flags(finalSigma)
	}
	for b := range f.ascii[:utf8.RuneSelf] {
		r := f.table.Get(rune(b))
		to := r.Value(rune(b))
		if r.Many() || to >= utf8.RuneSelf {
			return nil, fmt.Errorf("characters: %q becomes something that is not ASCII", rune(b))
		}
		f.ascii[b] = uint16(to) | uint16(r.Flags())<<8
	}
	return f, nil
}

// sigmaAt returns the lower case of the capital sigma at i, as str.lower does. It is the final
// sigma after a cased letter, unless a cased letter follows. Ignorable characters on both sides are
// skipped.
func (f *folder) sigmaAt(text string, i int) rune {
	cased := func(r rune) (bool, bool) {
		class := f.classes[r]
		return class&classCased != 0, class&classIgnorable == 0
	}
	before, stop := false, false
	for at := i; at > 0 && !stop; {
		r, n := utf8.DecodeLastRuneInString(text[:at])
		at -= n
		before, stop = cased(r)
	}
	if !before || !stop {
		return smallSigma
	}
	after, stop := false, false
	for at := i + 2; at < len(text) && !stop; {
		r, n := utf8.DecodeRuneInString(text[at:])
		at += n
		after, stop = cased(r)
	}
	if after && stop {
		return smallSigma
	}
	return finalSigma
}
