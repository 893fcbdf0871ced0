package timer_test

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/task/timer"
)

func ExampleQueue() {
	var q timer.Queue
	for _, e := range []timer.Entry{{At: 30, Key: "ann"}, {At: 10, Key: "cem"}, {At: 10, Key: "bob"}} {
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
