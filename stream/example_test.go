package stream_test

import (
	"fmt"

	"github.com/afterbay/afterbay/stream"
)

func ExamplePlace() {
	fmt.Println(stream.Partition{Topic: "payments", Index: stream.Place([]byte("card 4711"), 4)})
	// Output: payments/2
}
