package step

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Identifier reports whether a name has letters, digits and '_' alone, and no digit first.
func Identifier(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}

// Call calls a function in Go.
type Call struct {
	Index    int    // among the pipeline's calls
	Name     string // of the function
	As       string // ends the ids of its outputs, as Emit.Name
	Function *Function
	When     *expression.Program
	Inputs   []value.Slot
	Outputs  []value.Slot
	Topics   []string
	Writes   []int // in Plan.Outputs, by topic
}
