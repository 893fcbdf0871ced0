package files_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sinks/files"
	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// record is one that a pipeline wrote.
func record(offset int, generation, digest, value string) stream.Record {
	return stream.Record{
		Partition: stream.Partition{Topic: "out", Index: 3}, Offset: stream.Offset(offset), Time: at, Key: []byte("ann"), Value: []byte(value),
		Headers: []stream.Header{
			{Key: header.ID, Value: fmt.Appendf(nil, "p:%d", offset)}, {Key: header.Position, Value: fmt.Appendf(nil, "in/3@%d", offset)},
			{Key: header.Pipeline, Value: []byte("p sha256:" + digest + " " + generation)},
		},
	}
}

// keep makes an object of records, and returns the reasons of those that were
// refused.
func keep(ctx context.Context, a *files.Archive, form []byte, records ...stream.Record) (kept int, refused []string, err error) {
	o := sink.Object{
		Group: "p.lake", Partition: records[0].Partition, From: records[0].Offset, To: records[len(records)-1].Offset + 1, Form: form,
	}
	kept, err = a.Keep(ctx, o, sequence(records), func(r *stream.Record, reason error) error {
		refused = append(refused, fmt.Sprintf("%d: %v", r.Offset, reason))
		return nil
	})
	return kept, refused, err
}

func sequence(records []stream.Record) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func newArchive(t testing.TB, o files.Options) *files.Archive {
	t.Helper()
	a, err := files.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tree returns the files below a folder, hidden ones too.
func tree(t testing.TB, root string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		found[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func names(found map[string][]byte) (list []string) {
	for name := range found {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

var typed = []files.Column{
	{Name: "s", Type: "string"}, {Name: "n", Type: "number"}, {Name: "i", Type: "int"}, {Name: "b", Type: "bool"}, {Name: "t", Type: "time"}, {Name: "raw", Type: "bytes"}, {Name: "v", Type: "number[3]"}, {Name: "m", Type: "optional number"}, {Name: "l", Type: "string[]"},
}

// row is what typed reads back as.
type row struct {
	ID        string    `parquet:"afterbay_id"`
	Partition int64     `parquet:"afterbay_partition"`
	Offset    int64     `parquet:"afterbay_offset"`
	Time      time.Time `parquet:"afterbay_time,timestamp(microsecond)"`
	Key       *string   `parquet:"afterbay_key,optional"`
	Position  *string   `parquet:"afterbay_position,optional"`
	Models    *string   `parquet:"afterbay_models,optional"`

	S   *string    `parquet:"s,optional"`
	N   *float64   `parquet:"n,optional"`
	I   *int64     `parquet:"i,optional"`
	B   *bool      `parquet:"b,optional"`
	T   *time.Time `parquet:"t,optional,timestamp(microsecond)"`
	Raw []byte     `parquet:"raw,optional"`
	V   []float32  `parquet:"v,optional,list"`
	M   *float64   `parquet:"m,optional"`
	L   []string   `parquet:"l,optional,list"`
}

func readRows[T any](t testing.TB, data []byte) []T {
	t.Helper()
	list, err := parquet.Read[T](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestParquetHasTypedColumns(t *testing.T) {
	for _, compress := range []string{"", "snappy", "gzip", "zstd"} {
		root := t.TempDir()
		a := newArchive(t, files.Options{URL: "file://" + root, Compress: compress, Columns: typed})
		whole := record(7, "2", "d1", `{"s":"é","n":0.1,"i":-9007199254740993,"b":true,"t":"2026-01-01T00:00:00.000001Z","raw":"AP8=","v":[1,-2.5,0.1],"m":3,"l":["a","","ü"],"else":[{}]}`)
		empty := record(9, "2", "d1", `{"m":null,"l":[]}`)
		empty.Key = nil
		kept, refused, err := keep(t.Context(), a, a.Form(nil), whole, record(8, "2", "d1", `{"s":1}`), empty)
		if err != nil || kept != 2 || len(refused) != 1 || !strings.Contains(refused[0], `8: field "s"`) {
			t.Fatalf("%d kept, refused %q, %v", kept, refused, err)
		}
		found := tree(t, root)
		const name = "p.lake/generation-2/partition-3/00000000000000000007-00000000000000000010.parquet"
		if diff := cmp.Diff([]string{name}, names(found)); diff != "" {
			t.Fatalf("%s: files (-want +got):\n%s", compress, diff)
		}
		key, first, last, text, instant := "ann", "in/3@7", "in/3@9", "é", time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
		want := []row{
			{ID: "p:7", Partition: 3, Offset: 7, Time: at, Key: &key, Position: &first, S: &text, N: ptr(0.1), I: ptr(int64(-9007199254740993)), B: ptr(true),
				T: &instant, Raw: []byte{0, 255}, V: []float32{1, -2.5, 0.1}, M: ptr(3.0), L: []string{"a", "", "ü"}},
			{ID: "p:9", Partition: 3, Offset: 9, Time: at, Position: &last, L: []string{}},
		}
		if diff := cmp.Diff(want, readRows[row](t, found[name])); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", compress, diff)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestLinesHaveWhatTheValueHas(t *testing.T) {
	for _, compress := range []string{"", "gzip", "zstd"} {
		root := t.TempDir()
		a := newArchive(t, files.Options{URL: "file://" + root, Format: files.NDJSON, Compress: compress})
		strange := record(5, "1", "d", "\xff\x00")
		strange.Headers, strange.Key = nil, []byte("k\"\xfe\n")
		if kept, refused, err := keep(t.Context(), a, a.Form(nil),
			record(1, "1", "d", `{"a":{"b":[1,2]},"c":"x"}`), record(2, "1", "d", "{\n \"a\": 1\n}\n"), record(3, "1", "d", " {} "), record(4, "1", "d", "[1,\n2]"), strange,
			record(6, "1", "d", `{"a":1`),
		); err != nil || kept != 6 || refused != nil {
			t.Fatal(kept, refused, err)
		}
		const from = `"afterbay_partition":3,"afterbay_offset":%d,"afterbay_time":"2026-01-02T03:04:05.000006Z","afterbay_key":"ann","afterbay_position":"in/3@%[1]d","afterbay_pipeline":"p sha256:d 1"`
		line := func(offset int, rest string) string {
			return fmt.Sprintf(`{"afterbay_id":"p:%d",`, offset) + fmt.Sprintf(from, offset) + rest + "}\n"
		}
		want := map[string]string{
			"1": line(1, `,"a":{"b":[1,2]},"c":"x"`) + line(2, `,"a":1`) + line(3, "") + line(4, `,"afterbay_value":"[1,\n2]"`) + line(6, `,"afterbay_value":"{\"a\":1"`),
			"0": `{"afterbay_id":"out/3@5","afterbay_partition":3,"afterbay_offset":5,"afterbay_time":"2026-01-02T03:04:05.000006Z","afterbay_key":"k\"` + "\\ufffd" + `\n","afterbay_value_base64":"/wA="}` + "\n",
		}
		found := tree(t, root)
		if len(found) != 2 {
			t.Errorf("files %v", names(found))
		}
		for name, data := range found {
			if diff := cmp.Diff(want[name[len("p.lake/generation-"):][:1]], string(unzip(t, name, data))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// unzip returns what a file has, by its ending.
func unzip(t testing.TB, name string, data []byte) []byte {
	t.Helper()
	var from io.Reader = bytes.NewReader(data)
	var err error
	switch filepath.Ext(name) {
	case ".gz":
		from, err = gzip.NewReader(from)
	case ".zst":
		from, err = zstd.NewReader(from)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !json.Valid(line) {
			t.Errorf("%s: no JSON: %s", name, line)
		}
	}
	return text
}

// TestRepeatedObjectIsTheSame makes objects twice, by two processes.
func TestRepeatedObjectIsTheSame(t *testing.T) {
	for _, o := range []files.Options{{Columns: typed}, {Columns: typed, Compress: "zstd"}, {Format: files.NDJSON, Compress: "gzip"}, {Format: files.NDJSON, Compress: "zstd"}} {
		root := t.TempDir()
		o.URL = "file://" + root
		var records []stream.Record
		for i := range 3000 {
			records = append(records, record(i, "1", "d", fmt.Sprintf(`{"s":"text %d","n":%d,"v":[%[2]d,2,3]}`, i%7, i)))
		}
		var before map[string][]byte
		for range 2 {
			a := newArchive(t, o)
			if _, _, err := keep(t.Context(), a, a.Form(nil), records...); err != nil {
				t.Fatal(err)
			}
			after := tree(t, root)
			if before != nil && !cmp.Equal(before, after) {
				t.Errorf("%+v: the files changed: %v, %v", o, names(before), names(after))
			}
			before = after
		}
	}
}

func TestAnotherObjectInItsPlaceIsAnError(t *testing.T) {
	root := t.TempDir()
	a := newArchive(t, files.Options{URL: "file://" + root, Format: files.NDJSON})
	if _, _, err := keep(t.Context(), a, a.Form(nil), record(1, "1", "d", `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	_, _, err := keep(t.Context(), a, a.Form(nil), record(1, "1", "d", `{"a":2}`))
	var taken *files.TakenError
	if !errors.As(err, &taken) || !strings.Contains(err.Error(), "another url") || !strings.HasPrefix(taken.Name, root) {
		t.Error(err)
	}
	if after := tree(t, root); !cmp.Equal(before, after) {
		t.Errorf("the files changed: %v", names(after))
	}
}

// TestVersionsOfThePipelineHaveTheirOwnColumns keeps records of two versions in
// one range, by a process of the newer one, and of one that nobody remembers.
func TestVersionsOfThePipelineHaveTheirOwnColumns(t *testing.T) {
	root := t.TempDir()
	older := newArchive(t, files.Options{URL: "file://" + root, Columns: []files.Column{{Name: "a", Type: "number"}, {Name: "b", Type: "string"}}, Digest: "11111111aa"})
	newer := newArchive(t, files.Options{URL: "file://" + root, Columns: []files.Column{{Name: "a", Type: "string"}, {Name: "c", Type: "int"}}, Digest: "22222222bb"})
	form := newer.Form(older.Form(nil))
	if kept, refused, err := keep(t.Context(), newer, form,
		record(0, "1", "11111111aa", `{"a":1,"b":"old"}`), record(1, "2", "22222222bb", `{"a":"new","c":7}`), record(2, "1", "11111111aa", `{"a":2,"b":"older"}`),
		record(3, "2", "11111111aa", `{"a":3,"b":"of a partition that counts otherwise"}`), record(4, "0", "33333333cc", `{"c":8}`),
	); err != nil || kept != 5 || refused != nil {
		t.Fatal(kept, refused, err)
	}
	type oldRow struct {
		Offset int64    `parquet:"afterbay_offset"`
		A      *float64 `parquet:"a,optional"`
		B      *string  `parquet:"b,optional"`
	}
	type newRow struct {
		Offset int64   `parquet:"afterbay_offset"`
		A      *string `parquet:"a,optional"`
		C      *int64  `parquet:"c,optional"`
	}
	found := tree(t, root)
	const object = "/partition-3/00000000000000000000-00000000000000000005"
	if diff := cmp.Diff([]string{
		"p.lake/generation-0" + object + ".parquet", "p.lake/generation-1" + object + ".parquet",
		"p.lake/generation-2" + object + ".11111111.parquet", "p.lake/generation-2" + object + ".parquet",
	}, names(found)); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	for name, want := range map[string]any{
		"1" + object + ".parquet":          []oldRow{{0, ptr(1.0), ptr("old")}, {2, ptr(2.0), ptr("older")}},
		"2" + object + ".11111111.parquet": []oldRow{{3, ptr(3.0), ptr("of a partition that counts otherwise")}},
		"2" + object + ".parquet":          []newRow{{1, ptr("new"), ptr(int64(7))}},
		"0" + object + ".parquet":          []newRow{{4, nil, ptr(int64(8))}},
	} {
		data := found["p.lake/generation-"+name]
		var got any = readRows[newRow](t, data)
		if _, old := want.([]oldRow); old {
			got = readRows[oldRow](t, data)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestManyGenerationsAreSeveralRanges(t *testing.T) {
	a := newArchive(t, files.Options{URL: "file://" + t.TempDir(), Format: files.NDJSON})
	var records []stream.Record
	for i := range 20 {
		records = append(records, record(i, fmt.Sprint(i), "d", "{}"))
	}
	var split *sink.Split
	if _, _, err := keep(t.Context(), a, a.Form(nil), records...); !errors.As(err, &split) || split.At != 8 {
		t.Error(err)
	}
}

// TestPowerFailureLeavesWholeObjects ends a disk that keeps any of what was not
// synced, after each number of its calls: an object is whole or not there, and it
// is there once Keep returned. Then it is made again.
func TestPowerFailureLeavesWholeObjects(t *testing.T) {
	var records []stream.Record
	for i := range 300 {
		records = append(records, record(i, "1", "d", fmt.Sprintf(`{"n":%d}`, i)))
	}
	make := func(disk vfs.FS) (*files.Archive, error) {
		a, err := files.New(files.Options{URL: "file:///data/out", Format: files.NDJSON, FS: disk})
		if err == nil {
			_, _, err = keep(t.Context(), a, a.Form(nil), records...)
		}
		return a, err
	}
	const name = "/data/out/p.lake/generation-1/partition-3/00000000000000000000-00000000000000000300.ndjson"
	ideal := vfs.NewMemory()
	if _, err := make(ideal); err != nil {
		t.Fatal(err)
	}
	want, err := vfs.ReadFile(ideal, name)
	if err != nil {
		t.Fatal(err)
	}
	rng, whole := rand.New(rand.NewPCG(1, 2)), 0
	for n := int64(1); ; n++ {
		disk := vfs.NewMemory()
		_, err := make(vfs.Faulty(disk, vfs.Nth(n, true, vfs.Outcome{Err: syscall.EIO}, func(c vfs.Call) bool { return c.Kind.Changes() })))
		for range 10 {
			after := disk.Crash(rng)
			got, readErr := vfs.ReadFile(after, name)
			if readErr == nil && !bytes.Equal(got, want) || readErr != nil && (err == nil || !errors.Is(readErr, fs.ErrNotExist)) {
				t.Fatalf("after %d calls, whose error is %v, %d bytes are there: %v", n, err, len(got), readErr)
			}
			if readErr == nil {
				whole++
			}
			if _, err := make(after); err != nil {
				t.Fatalf("after %d calls and a crash: %v", n, err)
			}
			if got, err := vfs.ReadFile(after, name); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("after %d calls, a crash and a repeat, %d bytes are there: %v", n, len(got), err)
			}
			if list, err := after.List(filepath.Dir(name)); err != nil || len(list) != 1 {
				t.Fatalf("after %d calls, a crash and a repeat: %q, %v", n, list, err)
			}
		}
		if err == nil {
			if whole < 10 || n < 8 {
				t.Errorf("%d calls, %d objects", n, whole)
			}
			return
		}
	}
}

func TestFullDiskIsAnErrorAndLeavesNothing(t *testing.T) {
	disk := vfs.NewMemory()
	a := newArchive(t, files.Options{URL: "file:///out", Format: files.NDJSON, FS: disk})
	records := []stream.Record{record(0, "1", "d", `{"n":"`+strings.Repeat("x", 1<<20)+`"}`)}
	disk.SetCapacity(1 << 16)
	if _, _, err := keep(t.Context(), a, a.Form(nil), records...); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "p.lake/generation-1") {
		t.Error(err)
	}
	if used := disk.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
	disk.SetCapacity(1 << 30)
	if _, _, err := keep(t.Context(), a, a.Form(nil), records...); err != nil {
		t.Error(err)
	}
}

func TestCheckSaysWhatIsWrongWithAFolder(t *testing.T) {
	root := t.TempDir()
	if err := newArchive(t, files.Options{URL: "file://" + root + "/a/b", Format: files.NDJSON}).Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(root+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newArchive(t, files.Options{URL: "file://" + root + "/file", Format: files.NDJSON}).Check(t.Context()); len(err) != 1 || !strings.Contains(err[0].Error(), root+"/file is not a folder") {
		t.Error(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v", entries, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for what, o := range map[string]files.Options{
		"valid URL":     {URL: "/data/out", Format: files.NDJSON},
		"from the root": {URL: "file://data/out", Format: files.NDJSON},
		"s3://BUCKET":   {URL: "s3://key:secret@bucket", Format: files.NDJSON},
		"columns":       {URL: "file:///out"},
		"format":        {URL: "file:///out", Format: "csv"},
		"snappy":        {URL: "file:///out", Format: files.NDJSON, Compress: "snappy"},
		"compress":      {URL: "file:///out", Format: files.NDJSON, Compress: "lz4"},
		"own":           {URL: "file:///out", Columns: []files.Column{{Name: "afterbay_id", Type: "int"}}},
		"twice":         {URL: "file:///out", Columns: []files.Column{{Name: "a", Type: "int"}, {Name: "a", Type: "string"}}},
		"unknown type":  {URL: "file:///out", Columns: []files.Column{{Name: "a", Type: "text"}}},
	} {
		if _, err := files.New(o); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// BenchmarkKeep makes objects of 100,000 records in a folder.
func BenchmarkKeep(b *testing.B) {
	records := make([]stream.Record, 100_000)
	for i := range records {
		records[i] = record(i, "1", "d", fmt.Sprintf(`{"s":"customer %d","n":%d.25,"i":%d,"b":true}`, i%1000, i, i))
	}
	for _, o := range []files.Options{{Format: files.Parquet, Columns: typed[:4]}, {Format: files.Parquet, Columns: typed[:4], Compress: "zstd"}, {Format: files.NDJSON}, {Format: files.NDJSON, Compress: "zstd"}} {
		b.Run(string(o.Format)+o.Compress, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n++
				o.URL = fmt.Sprint("file://", b.TempDir(), "/", n)
				a := newArchive(b, o)
				if kept, _, err := keep(b.Context(), a, a.Form(nil), records...); err != nil || kept != len(records) {
					b.Fatal(kept, err)
				}
			}
			b.ReportMetric(float64(len(records))*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
