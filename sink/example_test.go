package sink_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// table is what a pipeline file says of a table in memory.
type table struct {
	Rows int `field:"rows" default:"10" min:"1" help:"most rows" example:"5"`
}

// Check implements sink.Config.
func (t *table) Check(sink.Topic) []error { return nil }

// Open implements sink.Config.
func (t *table) Open(context.Context, sink.Topic) (sink.Service, error) {
	return sink.Service{Many: &writer{table: t, rows: map[string]row{}}}, nil
}

// Describe implements sink.Config.
func (t *table) Describe() string { return "a table" }

// Takes implements sink.Taker.
func (t *table) Takes() sink.Way { return sink.Many }

// Warnings implements sink.Warner.
func (t *table) Warnings(of sink.Topic) []error {
	if of.Columns == nil {
		return []error{errors.New("its columns are not known")}
	}
	return nil
}

// writer keeps the newest record of each key.
type writer struct {
	*table
	rows map[string]row
}

type row struct {
	id      string
	version sink.Version
}

// Check implements sink.Checked.
func (w *writer) Check(context.Context) []error { return nil }

// Claim implements sink.Writer.
func (w *writer) Claim(context.Context, stream.Partition, stream.Offset) (sink.Claim, error) {
	return w, nil
}

// Write implements sink.Claim. A record that comes again, or late, overwrites nothing newer.
func (w *writer) Write(_ context.Context, _ stream.Offset, records []stream.Record) (o sink.Outcome, err error) {
	for i := range records {
		r := &records[i]
		there, known := w.rows[string(r.Key)]
		switch version := sink.VersionOf(r); {
		case known && version.Compare(there.version) < 0:
			o.Older++
		case !known && len(w.rows) == w.Rows:
			o.Refused = append(o.Refused, sink.Refusal{Index: i, Err: errors.New("the table is full")})
		default:
			w.rows[string(r.Key)] = row{sink.IDOf(r), version}
		}
	}
	return o, nil
}

// A sink that takes many records at once, and keeps the newest of each key.
func Example() {
	ctx := context.Background()
	config := &table{Rows: 1}
	fmt.Println("warnings:", sink.Warner(config).Warnings(sink.Topic{}))
	service, err := config.Open(ctx, sink.Topic{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	fmt.Println("lacks:", service.Many.(sink.Checked).Check(ctx))
	decisions := stream.Partition{Topic: "decisions"}
	claim, err := service.Many.Claim(ctx, decisions, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := claim.Write(ctx, 0, []stream.Record{
		{Partition: decisions, Offset: 7, Key: []byte("ann")},
		{Partition: decisions, Offset: 6, Key: []byte("ann")},
		{Partition: decisions, Offset: 8, Key: []byte("bob")},
	})
	fmt.Println("row of ann:", service.Many.(*writer).rows["ann"].id)
	fmt.Println("older:", outcome.Older, "refused:", outcome.Refused[0].Err, "error:", err)
	// Output:
	// warnings: [its columns are not known]
	// lacks: []
	// row of ann: decisions/0@7
	// older: 1 refused: the table is full error: <nil>
}

// objects is a kind that takes objects of many records: it says when one is complete.
type objects struct{ sink.Config }

// Takes implements sink.Taker.
func (objects) Takes() sink.Way { return sink.Whole }

// Bounds implements sink.Bounded.
func (objects) Bounds() sink.Bounds { return sink.Bounds{Rows: 1000} }

// An object of at most 1,000 records. The other bounds have defaults.
func ExampleBounded() {
	bounds := sink.Bounded(objects{}).Bounds().WithDefaults()
	fmt.Println(bounds.Rows, "rows,", bounds.Bytes, "bytes,", bounds.Wait)
	// Output: 1000 rows, 134217728 bytes, 5m0s
}
