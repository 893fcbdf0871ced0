package simulate_test

import (
	"fmt"
	"log"
	"time"

	"github.com/afterbay/afterbay/internal/lab/simulate"
)

// A source that is twice as fast as its worker, a queue of 200 with marks at 150
// and 50.
func Example() {
	options, err := simulate.Preset("textbook")
	if err != nil {
		log.Fatal(err)
	}
	result, err := simulate.Run(options, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("produced %d, scored %d, dropped %d, peak %d\n", result.Produced, result.Scored, result.Dropped, result.PeakDepth)
	fmt.Printf("throttled in %.0f %% of the ticks, %d switches\n", 100*result.ThrottledShare(), result.Switches)
	// Output:
	// produced 1078, scored 1000, dropped 0, peak 151
	// throttled in 67 % of the ticks, 5 switches
}

// 50,000 events a second through calls of 64 that take 5 ms.
func ExampleLoad_Resolve() {
	plan, err := simulate.Load{Rate: 50_000, Batch: 64, BatchTime: 5 * time.Millisecond, Redundancy: 2, Cores: 8}.Resolve()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f events/s a worker, %d workers at least, %d with redundancy\n", plan.PerWorker, plan.Least.Workers, plan.Redundant.Workers)
	// Output:
	// 12800 events/s a worker, 4 workers at least, 8 with redundancy
}
