package skew_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/skew"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

const payments = `pipeline: payments
input:
  topic: payments
  key: card
  partitions: 3
  time: {field: at, unit: ms, lateness: 10s, late: include}
  fields: {tx: string, card: string, shop: string, amount: number, at: int}
steps:
  - lookup: {name: shop_is, table: shops, key: shop, fields: {risk: number}, empty: {risk: 0.5}}
  - features:
      spend: {value: amount, decimals: 2, windows: [1m, 1h], aggregates: [count, sum, max]}
      gap: {elapsed: true, empty: -1}
  - decide: {action: 'spend.sum_1h > 100.0 || shop_is.risk > 0.8 ? "block" : "allow"'}
  - emit: {topic: decisions, value: [tx, spend.*, gap, shop_is.risk, action]}
`

const shops = `{"shop":"s1","risk":0.1}
{"shop":"s2","risk":0.9}
`

// live runs the pipeline over a log, with its table and 3,000 payments.
func live(t testing.TB) *memory.Log { return liveOf(t, payments) }

// liveOf is live of another pipeline.
func liveOf(t testing.TB, text string) *memory.Log {
	t.Helper()
	t.Chdir(t.TempDir())
	save(t, "p.yaml", text)
	save(t, "shops.ndjson", shops)
	log := memory.New(memory.Options{})
	t.Cleanup(func() { log.Close() })
	runners := runnersOf(t, log, 0)
	var records []stream.Record
	for _, line := range strings.Split(strings.TrimSpace(shops), "\n") {
		records = append(records, stream.Record{Partition: stream.Partition{Topic: "shops", Index: stream.ByKey}, Key: []byte(line[9:11]), Value: []byte(line)})
	}
	at := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC).UnixMilli()
	for i := range 3000 {
		card := fmt.Sprintf("c%02d", i*7919%101%50)
		value := fmt.Sprintf(`{"tx":"t%d","card":%q,"shop":"s%d","amount":%d.25,"at":%d}`, i, card, i%4, i%37, at+int64(i)*500)
		records = append(records, stream.Record{Partition: stream.Partition{Topic: "payments", Index: stream.ByKey}, Key: []byte(card), Value: []byte(value)})
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	done(t, log, runners)
	return log
}

func save(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checked compares a sample of the keys of a log.
func checked(t testing.TB, log *memory.Log, sample string) *skew.Result {
	t.Helper()
	return checkedIn(t, inspect.NewLocal(log, nil, nil, nil), sample)
}

// checkedIn is checked of a directory.
func checkedIn(t testing.TB, directory inspect.Directory, sample string) *skew.Result {
	t.Helper()
	var said bytes.Buffer
	program := &dryrun.Program{
		Loader: &process.Loader{Kinds: builtin.Kinds(), Logger: slog.New(slog.DiscardHandler)},
		Events: func(path, format string) (*ingest.Source, error) {
			return ingest.Open(path, ingest.Format(format), nil)
		},
		Out: &said, Err: &said,
	}
	opened := false
	r, err := skew.Check(t.Context(), program, skew.Options{Sample: sample, RowsOptions: dryrun.RowsOptions{
		File: "p.yaml", Tables: rows(), Parallelism: 2,
		Open: func() (inspect.Directory, func() error, error) {
			if opened {
				return nil, nil, errors.New("a data directory is held once")
			}
			opened = true
			return directory, func() error { opened = false; return nil }, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if opened {
		t.Error("the log was not closed")
	}
	return r
}

// TestNothingDiffersFromWhatRan compares all keys, and a sample.
func TestNothingDiffersFromWhatRan(t *testing.T) {
	log := live(t)
	all := checked(t, log, "100%")
	if all.Differences != 0 || all.Keys != 50 || all.Events != 3000 || all.Outputs != 3000 || all.Entries < 50 || len(all.Notes) != 0 {
		t.Errorf("%+v %+v", all, all.First)
	}
	if some := checked(t, log, "20%"); some.Differences != 0 || some.Keys < 2 || some.Keys > 25 || some.Outputs != some.Events {
		t.Errorf("%+v", some)
	}
}

// flip changes a bit of the state of a key, and returns false where it has no such byte.
func flip(t testing.TB, log *memory.Log, key string, at int, bit byte) (has bool) {
	t.Helper()
	changeOne(t, log, []byte("e"+key), "payments", 0, func(value []byte) {
		if has = at < len(value); has {
			value[at] ^= bit
		}
	})
	return has
}

// TestAFlippedBitOfStateIsFound flips a bit of each of several bytes, and back.
func TestAFlippedBitOfStateIsFound(t *testing.T) {
	log := live(t)
	features := 0
	for at := range 64 {
		if at%5 != 0 {
			continue
		}
		bit := byte(1) << (at % 8)
		if !flip(t, log, "c07", at, bit) {
			break
		}
		r := checked(t, log, "100%")
		if r.Differences == 0 || r.First.Key != "c07" || !strings.HasPrefix(r.First.Event, "payments/") || r.First.Live == r.First.Recomputed || r.First.ID != "" {
			t.Errorf("byte %d: %+v %+v", at, r, r.First)
			continue
		}
		if r.First.Step == "features" {
			features++
		}
		flip(t, log, "c07", at, bit)
	}
	if features == 0 {
		t.Error("no feature was named")
	}
	if r := checked(t, log, "100%"); r.Differences != 0 {
		t.Errorf("%+v", r.First)
	}
}

// TestAnEditedRowIsFound edits the row that events of a shop found.
func TestAnEditedRowIsFound(t *testing.T) {
	log := live(t)
	save(t, "shops.ndjson", strings.Replace(shops, `"s1","risk":0.1`, `"s1","risk":0.2`, 1))
	r := checked(t, log, "100%")
	if r.First == nil || r.Names["shop_is.risk"] != 750 {
		t.Fatalf("%+v %+v", r, r.First)
	}
	if f := r.First; f.Step != "lookup" || f.Name != "shop_is.risk" || f.Live != "0.1" || f.Recomputed != "0.2" || !strings.HasPrefix(f.Event, "payments/") || !strings.Contains(f.ID, f.Event) {
		t.Errorf("%+v", f)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "name         shop_is.risk\nlive         0.1\nrecomputed   0.2\n") {
		t.Errorf("%v %s", err, text.String())
	}
}

// TestMissingAndStrangeOutputsAreFound compares a log whose outputs were cut off, and one with
// an output too many.
func TestMissingAndStrangeOutputsAreFound(t *testing.T) {
	log := live(t)
	decisions := stream.Partition{Topic: "decisions", Index: 1}
	forged, found, err := log.Peek(t.Context(), decisions, 3)
	if err != nil || !found {
		t.Fatal(err)
	}
	forged.Headers = append([]stream.Header(nil), forged.Headers...)
	for i, h := range forged.Headers {
		if h.Key == "afterbay-id" {
			forged.Headers[i].Value = append([]byte("x"), h.Value...)
		}
	}
	if err := log.Append(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	r := checked(t, log, "100%")
	if r.Differences != 1 || r.First.Step != "emit" || r.First.Recomputed != "nothing" {
		t.Errorf("%+v %+v", r, r.First)
	}
}

// TestAPipelineByAnotherKeyIsCompared has a pipeline read in the order of three partitions of a
// topic: nothing differs.
func TestAPipelineByAnotherKeyIsCompared(t *testing.T) {
	log := liveOf(t, strings.NewReplacer("  key: card\n  partitions: 3\n", "  key: shop\n  partitions: 3\n  repartition: 4\n").Replace(payments))
	r := checked(t, log, "100%")
	if r.Differences != 0 || r.Events != 3000 || r.Outputs != 3000 || r.Entries == 0 || len(r.Notes) != 0 {
		t.Errorf("%+v %+v", r, r.First)
	}
}

// TestWhatCannotBeComparedIsRefused has a pipeline whose order depends on when copies were made,
// and shares that are none.
func TestWhatCannotBeComparedIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "p.yaml", strings.NewReplacer("  key: card\n  partitions: 3\n", "  key: shop\n  repartition: 3\n", "unit: ms", "unit: ms, order: arrival").Replace(payments))
	program := &dryrun.Program{Loader: &process.Loader{Kinds: builtin.Kinds(), Logger: slog.New(slog.DiscardHandler)}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	for sample, want := range map[string]string{"1%": "with order: arrival", "0%": "write a share", "all": "write a share"} {
		if _, err := skew.Check(t.Context(), program, skew.Options{Sample: sample, RowsOptions: dryrun.RowsOptions{File: "p.yaml"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sample, err)
		}
	}
}

// going is a log whose pipeline commits an event between two looks at its offsets.
type going struct {
	inspect.Directory
	looks int
}

// Lag implements inspect.Directory.
func (g *going) Lag(ctx context.Context, pipeline string) ([]observe.Lag, error) {
	lags, err := g.Directory.Lag(ctx, pipeline)
	if g.looks++; g.looks == 1 {
		for i := range lags {
			lags[i].Committed--
		}
	}
	return lags, err
}

// TestAPipelineThatGoesOnHasNoDifference compares what is committed first, and not the state,
// which is ahead of that.
func TestAPipelineThatGoesOnHasNoDifference(t *testing.T) {
	r := checkedIn(t, &going{Directory: inspect.NewLocal(live(t), nil, nil, nil)}, "100%")
	if r.Differences != 0 || r.Events != 2997 || r.Outputs != 2997 || r.Entries != 0 || len(r.Notes) != 1 {
		t.Errorf("%+v %+v", r, r.First)
	}
}

// rows names the file of the rows of shops, if there is one.
func rows() []string {
	if _, err := os.Stat("shops.ndjson"); err != nil {
		return nil
	}
	return []string{"shops:shop=shops.ndjson"}
}
