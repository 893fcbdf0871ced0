package tree

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/category"
)

// setWords returns the words of a set in flat.sets: its length and its bits. Bit 0 is for missing
// values, and bit c+1 is for category c.
func setWords(largest int32) int64 { return 2 + (int64(largest)+1)/32 }

// coding is the rule that turns a value into a category.
type coding uint8

const (
	xgboostCodes  coding = iota // the whole part; negative values, -0.5 included, and too large ones have no category
	lightgbmCodes               // the whole part, so -0.5 is category 0; other negative values and those over 31 bits have no category
)

// none is the code of a value without a category.
const none = math.MaxInt32

// code returns the slot of a categorical input: which bit of a set to look at.
func (c coding) code(value float32) uint32 {
	switch {
	case value != value:
		return 0
	case c == xgboostCodes && (value < 0 || value >= categoriesMax), value <= -1, value >= none:
		return none
	}
	return uint32(int32(value)) + 1
}

// set returns the index in flat.sets of a split's set.
func (b *builder[T]) set(from split) uint32 {
	if at, known := b.offsets[from.set.from]; known {
		return uint32(at) // another part of the same tree has it
	}
	listed := b.listed[from.set.from:from.set.to]
	at, words := len(b.sets), setWords(listed[len(listed)-1])
	b.offsets[from.set.from] = int32(at)
	b.sets = append(b.sets, make([]uint32, words)...)
	b.sets[at] = uint32(words - 1)
	bits := b.sets[at+1:]
	if !from.defaultLeft {
		bits[0] = 1
	}
	for _, category := range listed {
		bits[(category+1)/32] |= 1 << (uint32(category+1) % 32)
	}
	return uint32(at)
}

// setMargin is margin for trees with categorical splits. The last slots hold codes. A node that
// reads a code has the index of its set in below.
func (f *flat[T]) setMargin(slots []uint32, sum T, trees []span) T {
	var at [lanes]uint32
	for len(trees) > 0 {
		n := min(lanes, len(trees))
		depth := int32(0)
		for i, t := range trees[:n] {
			at[i], depth = t.first, max(depth, t.depth)
		}
		for range depth {
			for i := range at[:n] {
				at[i] += f.nextSet(f.nodes[at[i]], slots)
			}
		}
		for _, i := range at[:n] {
			sum += f.leaves[i]
		}
		trees = trees[n:]
	}
	return sum
}

// nextSet is next for a node of either kind.
func (f *flat[T]) nextSet(n node, slots []uint32) uint32 {
	value := slots[n.input]
	var right uint32
	if int(n.input) < f.codesAt() {
		if value > n.below {
			right = 1
		}
	} else if word := value / 32; word < f.sets[n.below] {
		right = f.sets[n.below+1+word] >> (value % 32) & 1
	}
	return uint32(n.step) + right
}

// categoryLabels reads the meaning of the codes of the categorical inputs. XGBoost 3.1 and later
// write it if they were trained on data frames.
func (d *decoder) categoryLabels() error {
	return d.record(field{"enc", func() error {
		return d.array(func(i int) error {
			var offsets []int32
			var values []int64
			err := d.record(field{"offsets", d.integersTo(&offsets)}, field{"values", func() error {
				return d.array(func(int) error {
					value, err := d.integer()
					values = append(values, value)
					return err
				})
			}})
			if err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
			labels, valid := labelsOf(offsets, values)
			if !valid {
				return within(fmt.Sprintf("[%d].offsets", i), d.fault("not the places of texts"))
			}
			if err := category.Check(labels); err != nil {
				return within(fmt.Sprintf("[%d]", i), d.fault("%v", err))
			}
			d.labels = append(d.labels, labels)
			return nil
		})
	}})
}

// labelsOf returns numbers, or texts that are concatenated in values. For texts beyond ASCII it
// returns no labels: XGBoost 3.2 takes their lengths from pandas in characters but cuts bytes, so
// they differ from the texts seen in training.
func labelsOf(offsets []int32, values []int64) (labels []string, valid bool) {
	if len(offsets) == 0 {
		for _, value := range values {
			labels = append(labels, strconv.FormatInt(value, 10))
		}
		return labels, true
	}
	text, ascii := make([]byte, len(values)), true
	for i, value := range values {
		text[i] = byte(value)
		ascii = ascii && text[i] < utf8.RuneSelf
	}
	for i := range offsets[1:] {
		from, to := int64(offsets[i]), int64(offsets[i+1])
		if from < 0 || from > to || to > int64(len(text)) {
			return nil, false
		}
		labels = append(labels, string(text[from:to]))
	}
	if !ascii {
		return nil, true
	}
	return labels, true
}
