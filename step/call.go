package step

import (
	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/value"
)

// Call calls a function in Go.
type Call struct {
	Index    int    // among the pipeline's calls
	Name     string // of the function
	Function *Function
	When     *expression.Program
	Inputs   []value.Slot
	Outputs  []value.Slot
	Topics   []string
	Writes   []int // in Plan.Outputs, by topic
}
