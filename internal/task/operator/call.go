package operator

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/udf"
)

// Call calls a function in Go.
type Call struct {
	Index    int    // among the pipeline's calls
	Name     string // of the function
	As       string // ends the ids of its outputs, as Emit.Name
	Function *udf.Function
	When     *expression.Program
	Inputs   []value.Slot
	Outputs  []value.Slot
	Topics   []string
	Writes   []int // in Plan.Outputs, by topic
}
