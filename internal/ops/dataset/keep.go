package dataset

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
)

// negativesSalt is the salt of the hash that selects negatives. Do not change it: another salt
// selects other rows.
const negativesSalt = "afterbay.dataset.negatives"

// negatives keeps a share of the rows without a positive label (absent, false or 0). The hash of
// --on selects the rows.
type negatives struct {
	labels *labels
	below  int64 // hashes
	key    []byte
}

// newNegatives returns nil for a share of "".
func newNegatives(share string, l *labels) (*negatives, error) {
	if share == "" {
		return nil, nil
	}
	below, ok := hash.Share(share)
	switch {
	case !ok:
		return nil, failure.Usage("--negatives %s: write a share from 0%% to 100%%, such as 5%%", share)
	case l == nil:
		return nil, failure.Usage("--negatives %s: without labels no row is negative: add --labels, or use --keep", share)
	case l.slot.Type.Kind.Text():
		return nil, failure.Usage("--negatives %s: label %s is a %s, which is not positive or negative: use --keep", share, l.slot.Name, l.slot.Type.Kind)
	}
	return &negatives{labels: l, below: below}, nil
}

// takes reports whether a row is kept.
func (n *negatives) takes(row *value.Row) bool {
	slot := n.labels.slot
	if row.Has(slot) && row.AsNumber(slot) != 0 {
		return true
	}
	if n.key = n.key[:0]; row.Has(n.labels.on) {
		n.key = row.AppendKey(n.key, n.labels.on)
	}
	return hash.Of(n.key, negativesSalt) < n.below
}

// keep is the condition of --keep.
type keep struct{ *expression.Program }

// newKeep returns nil for "".
func newKeep(source string, schema *value.Schema) (*keep, error) {
	if source == "" {
		return nil, nil
	}
	program, err := expression.Compile(source, names{schema})
	if err == nil {
		err = program.Fits(value.Type{Kind: value.Bool})
	}
	if err != nil {
		return nil, failure.Usage("--keep: %v", err)
	}
	return &keep{program}, nil
}

func (k *keep) takes(row *value.Row) (bool, error) {
	row.Begin()
	taken, err := k.Bool(row)
	if err != nil {
		return false, failure.Usage("--keep: %v", err)
	}
	return taken, nil
}

// names are the names that a condition may use.
type names struct{ *value.Schema }

// Slot implements expression.Names.
func (n names) Slot(name string) (value.Slot, bool) { return n.Lookup(name) }

// Constant implements expression.Names.
func (n names) Constant(string) (expression.Constant, bool) { return expression.Constant{}, false }

// Known implements expression.Names.
func (n names) Known() (list []string) {
	for _, slot := range n.Slots {
		if slot.Name[0] != 0 {
			list = append(list, slot.Name)
		}
	}
	return list
}
