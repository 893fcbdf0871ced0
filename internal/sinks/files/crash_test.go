package files_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sinks/files"
	"github.com/afterbay/afterbay/internal/test/crashtest"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// broker is a real Kafka.
var broker = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}

var crashKafka = flag.Bool("files.kafka", false, "TestKilledProcessesKeepEachRecordOnce on a real Kafka too")

var crashKills = flag.Int("files.kills", 6, "kills of TestKilledProcessesKeepEachRecordOnce, on the embedded engine")

func TestMain(m *testing.M) {
	crashtest.Main(crashtest.Children{"keep": runCrashChild})
	os.Exit(broker.Run(m))
}

const crashGroup = "fraud.lake"

var decisions = stream.Topic{Name: "decisions", Partitions: 2}

// runCrashChild keeps what is there until all of it is kept, or somebody kills it:
// folder of the log, brokers or none, folder of the objects, format.
func runCrashChild(ctx context.Context, arguments string) error {
	var dir, brokers, root, format string
	if _, err := fmt.Sscan(arguments, &dir, &brokers, &root, &format); err != nil {
		return err
	}
	log, err := crashtest.OpenLog(ctx, dir, brokers)
	if err != nil {
		return err
	}
	o := files.Options{URL: "file://" + root, Format: files.Format(format), Compress: "zstd"}
	if o.Format == files.Parquet {
		o.Columns = []files.Column{{Name: "n", Type: "int"}, {Name: "text", Type: "string"}}
	}
	archive, err := files.New(o)
	if err != nil {
		return err
	}
	bounds := sink.Bounds{Rows: 100 + os.Getpid()%7*50} // each process has its own
	d, err := sinks.New(log, sink.Service{Whole: archive}, sinks.Options{
		Group: crashGroup, Topic: decisions.Name, Objects: bounds, Hurry: func() bool { return true },
	}, &sinks.Metrics{})
	if err != nil {
		return err
	}
	return errors.Join(crashtest.RunUntilRead(ctx, log, crashGroup, decisions, d.Run), log.Close())
}

// TestKilledProcessesKeepEachRecordOnce kills processes at random moments while
// they keep records, each with other bounds of its objects.
func TestKilledProcessesKeepEachRecordOnce(t *testing.T) {
	for _, c := range []struct {
		engine, format string
		records, kills int
		alive          time.Duration // at least, and at most twice
	}{
		{"embedded", "parquet", 40_000, *crashKills, 30 * time.Millisecond}, {"embedded", "ndjson", 40_000, *crashKills, 30 * time.Millisecond},
		{"kafka", "parquet", 8_000, 5, 900 * time.Millisecond},
	} {
		if c.engine == "kafka" && !*crashKafka {
			continue
		}
		t.Run(c.engine+" "+c.format, func(t *testing.T) {
			dir, root, brokers := t.TempDir(), t.TempDir(), crashtest.NoBrokers
			if c.engine == "kafka" {
				b := broker.Get(t)
				b.Empty(t)
				brokers = strings.Join(b.Addresses(), ",")
			}
			writeDecisions(t, dir, brokers, c.records)
			const seed = 1
			rng, kills := rand.New(rand.NewPCG(seed, 0)), 0
			for killed := true; killed; {
				after := time.Duration(0)
				if kills < c.kills {
					after = c.alive + time.Duration(rng.Int64N(int64(c.alive)))
				}
				if killed = crashtest.Killed(t, "keep", after, dir, brokers, root, c.format); killed {
					kills++
				}
			}
			objects := checkKept(t, root, c.format, c.records)
			want := map[string][]string{"parquet": {"e13"}}[c.format] // lines have any type
			if letters := crashtest.Letters(t, dir, brokers, crashGroup); !slices.Equal(letters, want) {
				t.Errorf("dead letters %v", letters)
			}
			if kills < c.kills/2 {
				t.Errorf("only %d kills", kills)
			}
			t.Logf("seed %d: %d kills, %d objects of %d records", seed, kills, objects, c.records)
		})
	}
}

func writeDecisions(t *testing.T, dir, brokers string, n int) {
	t.Helper()
	log, err := crashtest.OpenLog(t.Context(), dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), decisions); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < n; from += 1000 {
		var list []stream.Record
		for i := from; i < min(n, from+1000); i++ {
			value := fmt.Sprintf(`{"n":%d,"text":"%064d"}`, i, i)
			if i == 13 {
				value = `{"n":"thirteen"}`
			}
			list = append(list, stream.Record{
				Partition: stream.Partition{Topic: decisions.Name, Index: int32(i) % decisions.Partitions}, Value: []byte(value),
				Headers: []stream.Header{{Key: header.ID, Value: fmt.Appendf(nil, "e%d", i)}, {Key: header.Pipeline, Value: fmt.Appendf(nil, "fraud sha256:d %d", 1+2*i/n)}},
			})
		}
		if err := log.Append(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkKept checks that each record is in one object, in the one whose name says
// so, and returns how many there are.
func checkKept(t *testing.T, root, format string, records int) (objects int) {
	t.Helper()
	type row struct {
		ID     string `parquet:"afterbay_id"`
		Offset int    `parquet:"afterbay_offset"`
		N      *int64 `parquet:"n,optional"`
	}
	seen, ranges := map[string]int{}, map[string]map[[2]int]bool{}
	for name, data := range tree(t, root) {
		if strings.HasPrefix(path.Base(name), ".") { // a draft
			continue
		}
		objects++
		var from, to int
		if _, err := fmt.Sscanf(path.Base(name), "%d-%d.", &from, &to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		of := path.Base(path.Dir(name))
		if ranges[of] == nil {
			ranges[of] = map[[2]int]bool{}
		}
		ranges[of][[2]int{from, to}] = true
		note := func(id string, offset int) {
			if seen[id]++; offset < from || offset >= to {
				t.Errorf("%s has offset %d", name, offset)
			}
		}
		if format == "parquet" {
			for _, r := range readRows[row](t, data) {
				if note(r.ID, r.Offset); r.ID != fmt.Sprint("e", *r.N) {
					t.Errorf("%s: %s has the number %d", name, r.ID, *r.N)
				}
			}
			continue
		}
		for line := range strings.Lines(string(unzip(t, name, data))) {
			var id string
			var partition, offset int
			if _, err := fmt.Sscanf(line, `{"afterbay_id":%q,"afterbay_partition":%d,"afterbay_offset":%d`, &id, &partition, &offset); err != nil {
				t.Fatalf("%s: %v: %s", name, err, line)
			}
			note(id, offset)
		}
	}
	for i := range records {
		if n := seen[fmt.Sprint("e", i)]; n != 1 && (i != 13 || format == "ndjson" || n != 0) {
			t.Errorf("e%d is there %d times", i, n)
		}
	}
	for of, list := range ranges {
		sorted := make([][2]int, 0, len(list))
		for r := range list {
			sorted = append(sorted, r)
		}
		slices.SortFunc(sorted, func(a, b [2]int) int { return a[0] - b[0] })
		for i, r := range sorted {
			if want := 0; i > 0 && r[0] != sorted[i-1][1] || i == 0 && r[0] != want {
				t.Errorf("%s: the range %v does not follow the one before it", of, r)
			}
		}
	}
	return objects
}

// TestOtherReadersReadObjects reads Parquet and NDJSON with DuckDB and pyarrow, which
// the python of AFTERBAY_READERS has.
func TestOtherReadersReadObjects(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no python, of duckdb and pyarrow")
	root := t.TempDir()
	var records []stream.Record
	for i := range 5000 {
		records = append(records, record(i, "1", "d", fmt.Sprintf(`{"s":"text %d","n":%d.5,"i":%d,"v":[%d,2,3],"l":["a","b%d"]}`, i%7, i, i, i, i%3)))
	}
	for _, o := range []files.Options{{Columns: typed, Compress: "zstd"}, {Format: files.NDJSON, Compress: "gzip"}} {
		o.URL = "file://" + root
		a := newArchive(t, o)
		if _, _, err := keep(t.Context(), a, a.Form(nil), records...); err != nil {
			t.Fatal(err)
		}
	}
	const program = `
import duckdb, glob, pyarrow.parquet as pq, sys
for source in ["'%s/**/*.parquet'", "read_json('%s/**/*.ndjson.gz')"]:
    print(duckdb.sql("select count(*), count(distinct afterbay_id), sum(i), sum(n), sum(v[1])::int, max(len(l)), max(l[2]) from " + source % sys.argv[1]).fetchall())
table = pq.read_table(glob.glob(sys.argv[1] + "/**/*.parquet", recursive=True)[0])
print(table.num_rows, table.schema.field("v").type, table.schema.field("l").type)
`
	out, err := exec.Command(python, "-c", program, root).CombinedOutput()
	want := `[(5000, 5000, 12497500, 12500000.0, 12497500, 2, 'b2')]
[(5000, 5000, 12497500, 12500000.0, 12497500, 2, 'b2')]
5000 list<element: float not null> list<element: string not null>
`
	if got := string(out); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
