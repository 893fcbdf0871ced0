package steps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// columnsOf returns the input of the model that each column of a row belongs to.
func columnsOf(info model.Info) []model.Input {
	var columns []model.Input
	for _, in := range info.Inputs {
		for range in.Size() {
			columns = append(columns, in)
		}
	}
	return columns
}

// alike reports whether all columns accept the same values.
func alike(columns []model.Input) bool {
	return len(columns) > 0 && !slices.ContainsFunc(columns, func(in model.Input) bool {
		return in.Type != columns[0].Type || in.Categories != nil
	})
}

// fits checks that a value has a type that the model takes.
func fits(r *lang.Resources, g lang.Given, in model.Input) bool {
	kind := g.Slot.Type.Kind
	switch {
	case kind == value.Vector && in.Type == model.Number && in.Categories != nil:
		r.Fail(g.Path, "%q is of type %v: input %s of the model is a category", g.Slot.Name, g.Slot.Type, in.Name)
		r.Hint("give each input of the model a separate name")
	case in.Type == model.Number && (kind <= value.Number || kind == value.Vector || kind == value.String && in.Categories != nil):
		return true
	case in.Type == model.Number:
		r.Fail(g.Path, "%q is of type %v: the model takes a number here", g.Slot.Name, g.Slot.Type)
		if kind == value.String {
			r.Mistyped(g.Slot.Name, value.Number)
		}
		key := g.Slot.Name
		if g.Slot.Type.Optional {
			key += ` ?? ""`
		}
		if kind.IsList() || kind.IsMap() {
			r.Hint("take one number of it in a let, such as len(" + g.Slot.Name + ")")
			return false
		}
		r.Hint(map[value.Kind]string{
			value.String: "look it up in a table of constants: TABLE[" + key + "] ?? -1",
			value.Time:   "write int(" + g.Slot.Name + "), microseconds since 1970",
		}[kind])
	case kind == value.List|value.String:
		r.Fail(g.Path, "%q is of type %v: the model takes one text here", g.Slot.Name, g.Slot.Type)
		r.Hint("write join(" + g.Slot.Name + ", \" \")")
	case kind != value.String && kind != value.Bytes && kind != value.Content:
		r.Fail(g.Path, "%q is of type %v: the model takes %s here", g.Slot.Name, g.Slot.Type, map[model.Type]string{model.String: "a text", model.Bytes: "bytes"}[in.Type])
		if kind <= value.Time && in.Type == model.String {
			r.Hint("write string(" + g.Slot.Name + ")")
		}
	default:
		return true
	}
	return false
}

// assignInputs assigns the slots to the columns of the model's rows.
func assignInputs(stage *operator.Score, slots []value.Slot, columns []model.Input) {
	at := 0
	for _, slot := range slots {
		in := columns[at]
		at += max(slot.Type.Size, 1)
		if in.Type != model.Number {
			stage.Texts = append(stage.Texts, slot)
			continue
		}
		stage.Inputs, stage.Codes = append(stage.Inputs, slot), append(stage.Codes, category.NewCodes(in.Categories))
	}
}

// checkOrder reports a list that names the model's features in another order. A check of the count
// would not find this mistake. If only some names are the model's, it warns of the others.
func checkOrder(r *lang.Resources, path string, m lang.Loaded, slots []value.Slot, names []string) {
	plain := func(s string) string { return strings.ReplaceAll(s, ".", "_") }
	given, taken := make([]string, len(slots)), make([]string, len(names))
	for i := range slots {
		given[i] = plain(slots[i].Name)
	}
	for i := range names {
		taken[i] = plain(names[i])
	}
	if slices.Equal(given, taken) {
		return
	}
	sortedGiven, sortedTaken := slices.Sorted(slices.Values(given)), slices.Sorted(slices.Values(taken))
	if slices.Equal(sortedGiven, sortedTaken) {
		for i := range given {
			if given[i] != taken[i] {
				r.Fail(path, "the model's input %d is %q, the pipeline gives %q", i, names[i], slots[i].Name)
				r.Hint("it takes, in order: " + strings.Join(names, ", "))
				return
			}
		}
	}
	same := 0
	var others []string
	for i := range given {
		if len(taken) != len(given) || given[i] == taken[i] {
			same++
		} else {
			others = append(others, fmt.Sprintf("%s as %s", slots[i].Name, names[i]))
		}
	}
	if same > 0 && len(others) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("model %s gets %s: if it was trained on other features, its scores are wrong; assign them by name with inputs: {name: name}", m.Name, strings.Join(others, ", ")))
	}
}
