package control_test

import (
	"fmt"
	"log"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

func ExampleGate() {
	gate, err := control.NewGate(control.GateOptions{Max: 200, High: 150, Low: 50})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Unix(0, 0)
	for _, depth := range []int{100, 150, 100, 50} {
		now = now.Add(time.Second)
		switch gate.Observe(now, depth) {
		case control.Pause:
			fmt.Println(depth, "pause the source")
		case control.Resume:
			fmt.Println(depth, "resume it")
		case control.Stay:
			fmt.Println(depth, gate.State(now))
		}
	}
	// Output:
	// 100 full-rate
	// 150 pause the source
	// 100 throttled
	// 50 resume it
}
