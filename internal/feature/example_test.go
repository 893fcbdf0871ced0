package feature_test

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/feature"
)

func Example() {
	minute, err := feature.ParseWindow("60s")
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := feature.NewSet([]feature.Spec{
		{Name: "spend", Windows: []feature.Window{minute}, Aggregates: []feature.Aggregate{feature.Count, feature.Sum}, Decimals: 2},
		{Name: "gap", Elapsed: true, Empty: -1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cell := set.NewCell()
	for _, event := range []struct {
		time   int64 // microseconds
		amount float64
	}{{0, 9.99}, {40_000_000, 0.01}, {70_000_000, 5}} {
		var spend [2]float64
		var gap [1]float64
		set.Read(cell, 1, event.time, gap[:]) // elapsed is read before the event is added
		for feature := range set.Len() {
			if err := set.Add(cell, feature, event.time, event.amount); err != nil {
				fmt.Println(err)
				return
			}
		}
		set.Read(cell, 0, event.time, spend[:])
		fmt.Println(set.Columns(0), spend, gap)
	}

	// A cell is stored as a few entries, and only those that changed.
	stored := map[string][]byte{}
	set.Changes(cell, nil, func(sub, value []byte) { stored[string(sub)] = append([]byte(nil), value...) })
	again, err := set.Load(func(sub []byte) ([]byte, error) { return stored[string(sub)], nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	last, _ := again.Last()
	fmt.Println(len(stored), last)
	// Output:
	// [count_60s sum_60s] [1 9.99] [-1]
	// [count_60s sum_60s] [2 10] [40]
	// [count_60s sum_60s] [2 5.01] [30]
	// 1 70000000
}
