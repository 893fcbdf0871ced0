package header_test

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

func ExampleAppendForeign() {
	decision := stream.Record{Headers: []stream.Header{
		{Key: header.ID, Value: []byte("fraud:payments/0@17:decisions")}, {Key: "trace", Value: []byte("4bf9")}, {Key: header.Stage, Value: []byte("let")},
	}}
	fmt.Println(header.Get(&decision, header.ID))
	for _, h := range header.AppendForeign(nil, decision.Headers) {
		fmt.Println("a dead letter keeps", h.Key)
	}
	for _, h := range header.AppendCarried(nil, decision.Headers) {
		fmt.Println("a copy keeps", h.Key)
	}
	// Output:
	// fraud:payments/0@17:decisions
	// a dead letter keeps trace
	// a copy keeps afterbay-id
	// a copy keeps trace
}
