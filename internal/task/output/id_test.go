package output_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// BenchmarkEmit is what the record of an output costs, its id with it.
func BenchmarkEmit(b *testing.B) {
	var schema value.Schema
	id, err := schema.Add("meta.id", value.Type{Kind: value.String})
	if err != nil {
		b.Fatal(err)
	}
	w := output.NewWriter(&output.Form{Pipeline: "fraud", Topics: []string{"decisions"}, Schema: &schema, ID: id, MaxBytes: 1 << 20})
	e := output.Event{
		Event:  operator.Event{Record: &stream.Record{Partition: stream.Partition{Topic: "transactions", Index: 3}, Offset: 123_456, Key: []byte("card-17")}, Row: &schema.NewRows(1)[0]},
		Origin: &output.Origin{Index: 3, Provenance: []byte("fraud sha256:01 1")},
	}
	emit := &operator.Emit{}
	b.ReportAllocs()
	for b.Loop() {
		e.Row.SetText(id, w.ID(e.Record))
		w.Emit(emit, &e)
		w, e.Written = w.Reset(), 0
	}
}
