package report

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

func TestTailNamesTheEventThatAClientGaveUp(t *testing.T) {
	r := &stream.Record{Headers: []stream.Header{{Key: header.ID, Value: []byte("e/cancel")}, {Key: header.Cancel, Value: []byte("acme/ann/\x1be")}}}
	if got := string(AppendRecord(nil, r, false)); got != `{"x-client-cancel":"acme/ann/\u001be"}` {
		t.Error(got)
	}
}
