package due_test

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/task/due"
)

func ExampleLane() {
	var q due.Lane
	for _, e := range []due.Entry{{At: 30, Key: "ann"}, {At: 10, Key: "cem"}, {At: 10, Key: "bob"}} {
		q.Push(e)
	}
	for q.Until(20) {
		fmt.Println(q.Pop())
	}
	fmt.Println(q.Len(), "left")
	// Output:
	// {10 bob}
	// {10 cem}
	// 1 left
}
