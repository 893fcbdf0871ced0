package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestAggregatesOfIntsAreExact has windows aggregate ints above 2^53. A sum beyond an int is a
// dead letter, and again one when it is sent back.
func TestAggregatesOfIntsAreExact(t *testing.T) {
	file, err := config.Parse("p.yaml", []byte(`pipeline: ledger
input: {topic: bookings, key: account, partitions: 1, time: {field: at, unit: s}, fields: {account: string, cents: int, at: int}}
steps:
  - group: {name: minute, by: account, every: 1m, values: {sum: {sum: cents}, mean: {mean: cents}, least: {min: cents}, most: {max: cents}, halves: {sum: float(cents) / 2.0}}}
  - emit: {topic: minutes, value: [account, minute.sum, minute.mean, minute.least, minute.most, minute.halves]}
`), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	booking := func(account, cents string, at int) stream.Record {
		return stream.Record{Partition: stream.Partition{Topic: "bookings"}, Key: []byte(account), Value: fmt.Appendf(nil, `{"account":%q,"cents":%s,"at":%d}`, account, cents, at), Time: time.Unix(int64(at), 0)}
	}
	p := file.Pipelines[0]
	log := run(t, p,
		booking("a", "9007199254740993", 0), booking("a", "9007199254740992", 1), booking("a", "9007199254740995", 2), // 2^53 and more
		booking("b", "9223372036854775807", 3), booking("b", "1", 4),
		booking("c", "9223372036854775807", 5), booking("c", "1", 6), booking("c", "-2", 7), // beyond an int for a while
		booking("d", "-9223372036854775808", 8), booking("last", "0", 120))
	want := []string{
		`{"account":"a","minute_sum":27021597764222980,"minute_mean":9007199254740994,"minute_least":9007199254740992,"minute_most":9007199254740995,"minute_halves":13510798882111490}`,
		`{"account":"c","minute_sum":9223372036854775806,"minute_mean":3074457345618258400,"minute_least":-2,"minute_most":9223372036854775807,"minute_halves":4611686018427388000}`,
		`{"account":"d","minute_sum":-9223372036854775808,"minute_mean":-9223372036854776000,"minute_least":-9223372036854775808,"minute_most":-9223372036854775808,"minute_halves":-4611686018427388000}`,
	}
	if d := cmp.Diff(want, values(t, log, "minutes")); d != "" {
		t.Error(d)
	}
	refused := []string{`group: group of account "b": its sum minute.sum is about 9.223372036854776e+18, beyond an int of 64 bits: write {sum: float(...)}`}
	if d := cmp.Diff(refused, stages(t, log, "ledger.dlq")); d != "" {
		t.Error(d)
	}
	redriveAll(t, log, "ledger")
	runOn(t, log, p)
	if d := cmp.Diff(want, values(t, log, "minutes")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(append(refused, "redrive: step `group minute` is new and above the step that failed, so it would be skipped"), stages(t, log, "ledger.dlq")); d != "" {
		t.Error(d)
	}
}
