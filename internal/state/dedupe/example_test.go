package dedupe_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/state/dedupe"
)

func Example() {
	spec := dedupe.Spec{Window: time.Minute, Max: 1000}
	if err := spec.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	const second = 1_000_000
	set := dedupe.New(spec)
	fmt.Println(set.Seen("tx-1", 0, 0), set.Seen("tx-1", 59*second, 59*second), set.Seen("tx-2", 59*second, 59*second))

	// What is remembered is stored as a few entries, and outlives a restart.
	stored := map[string][]byte{}
	set.Changes(func(key, value []byte) { stored[string(key)] = append([]byte(nil), value...) })
	again := dedupe.New(spec)
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if err := again.Add([]byte(key), stored[key]); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(again.Seen("tx-1", 60*second, 60*second), again.Seen("tx-2", 60*second, 60*second))
	// Output:
	// false true false
	// false true
}
