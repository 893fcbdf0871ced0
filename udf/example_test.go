package udf_test

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/udf"
)

// A function is called with a Context, and what it did is returned only where
// it succeeded. Example_customStep of package afterbay shows one in a pipeline.
func ExampleFunction() {
	schema := &value.Schema{}
	amount, _ := schema.Add("amount", value.Type{Kind: value.Number})
	total, _ := schema.Add("cents", value.Type{Kind: value.Int})
	row := &schema.NewRows(1)[0]
	row.SetNumber(amount, 12.5)

	f := udf.Function{Version: 1, Keyed: true, Event: func(c *udf.Context) error {
		c.SetInt("cents", int64(c.Number("amount")*100))
		c.Put("last", []byte(c.ID))
		c.SetTimer("forget", c.Time.Add(time.Hour))
		return nil
	}}
	effects, err := f.Run(udf.NewContext(udf.Invocation{
		ID: "visits/0@41", Key: "ann", Time: time.Unix(0, 0), Offset: 41,
		Row: row, Inputs: []value.Slot{amount}, Outputs: []value.Slot{total}, State: &udf.Keyed{},
	}))
	fmt.Println(row.Int(total), string(effects.State.Values["last"]), effects.State.Timers[0].Name, err)
	// Output: 1250 visits/0@41 forget <nil>
}
