package operator

import (
	"reflect"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

func TestAnEventMadeOfOthersHasTheHeadersOfTheirClient(t *testing.T) {
	client := stream.Header{Key: header.ClientEvent, Value: []byte("tenant/client/7")}
	correlation := stream.Header{Key: header.Correlation, Value: []byte("c")}
	source := stream.Header{Key: header.Source, Value: []byte("orders/1@5")}
	id, copied := stream.Header{Key: header.ID, Value: []byte("id")}, stream.Header{Key: header.Copied, Value: []byte("orders/1@5")}
	for _, c := range []struct{ of, want []stream.Header }{
		{nil, []stream.Header{id}},
		{[]stream.Header{correlation}, []stream.Header{id}}, // no client: it is of another kind
		{[]stream.Header{client}, []stream.Header{id, client}},
		{[]stream.Header{source, correlation, client}, []stream.Header{id, copied, client, correlation}},
	} {
		kept := IdentityOf("id", &stream.Record{Headers: c.of})
		r := packed.Reader{Rest: kept.Append(nil)}
		read := ReadIdentity(&r, kept.Client.Sent())
		if got := read.Headers(); read != kept || !r.Whole() || !reflect.DeepEqual(got, c.want) {
			t.Errorf("headers %v: got %v, want %v", c.of, got, c.want)
		}
	}
}
