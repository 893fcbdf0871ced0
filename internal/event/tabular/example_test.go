package tabular_test

import (
	"fmt"
	"os"

	"github.com/afterbay/afterbay/internal/event/tabular"
	"github.com/afterbay/afterbay/internal/event/value"
)

func Example() {
	var schema value.Schema
	id, _ := schema.Add("meta.id", value.Type{Kind: value.String})
	spend, _ := schema.Add("spend.mean_1h", value.Type{Kind: value.Number})
	age, _ := schema.Add("age", value.Type{Kind: value.Int, Optional: true})

	w, err := tabular.New(os.Stdout, tabular.CSV, []value.Slot{id, spend, age})
	if err != nil {
		fmt.Println(err)
		return
	}
	row := schema.NewRows(1)[0]
	row.SetText(id, "fraud:0:17")
	row.SetNumber(spend, 10.0/3)
	if err := w.Write(&row); err != nil {
		fmt.Println(err)
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// meta.id,spend.mean_1h,age
	// "fraud:0:17",3.3333333333333335,
}
