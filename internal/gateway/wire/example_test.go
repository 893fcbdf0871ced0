package wire_test

import (
	"encoding/json"
	"fmt"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

func ExampleParseClient() {
	frame, _ := wire.ParseClient([]byte(`{"type":"event","eventId":"01J","payload":{"text":"hi"}}`))
	event := frame.(*wire.Submission).Event("acme", "c42")
	fmt.Println(event.Validate(), string(wire.Submit("chat.inbox", &event).Key))

	result := wire.Result{Tenant: "acme", Client: "c42", Seq: 1, Event: "01J", Status: wire.StatusOK, Payload: json.RawMessage(`{"flag":false}`)}
	data, _ := wire.Encode(wire.FrameOf(&result, "AQ"))
	fmt.Println(string(data))
	// Output:
	// <nil> acme/c42
	// {"type":"result","seq":1,"cursor":"AQ","eventId":"01J","status":"ok","payload":{"flag":false}}
}
