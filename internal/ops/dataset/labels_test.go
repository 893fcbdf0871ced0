package dataset_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/ops/dataset"
)

// labelled are options of rows of e.ndjson with the labels of a file.
func labelled(source string) dataset.Options {
	o := options("rows.csv")
	o.RowsOptions.Columns = []string{"tx"}
	o.Labels = dataset.Labels{Source: source, On: "tx", Label: "fraud", Time: "known", Horizon: time.Hour, AsOf: "2027-01-01T00:00:00Z"}
	return o
}

// refused writes a dataset that cannot be, and returns why not.
func refused(t testing.TB, o dataset.Options) string {
	t.Helper()
	err := dataset.Write(t.Context(), program(io.Discard), o)
	if err == nil {
		t.Fatalf("labels %s were taken", o.Labels.Source)
	}
	return err.Error()
}

// TestLabelsOfWhichNoneCanBeReadAreRefused names the file, line, column and field of the
// first one, whether --as-of says until when labels are known or not.
func TestLabelsOfWhichNoneCanBeReadAreRefused(t *testing.T) {
	folder(t, generate(5, 50))
	for name, c := range map[string]struct{ file, text, want string }{
		"time":     {"l.ndjson", "\n" + `{"tx":"t00001","fraud":1,"known":"yesterday"}` + "\n", `l.ndjson:2:34: field "known": not a time of RFC 3339`},
		"unit":     {"l.ndjson", `{"tx":"t00001","fraud":1,"known":1767258000}`, `l.ndjson:1:34: field "known": want time, got a number`},
		"on":       {"l.ndjson", `{"id":"t00001","fraud":1,"known":"2026-01-01T09:10:00Z"}`, `l.ndjson:1:56: field "tx": absent but required`},
		"label":    {"l.ndjson", `{"tx":"t00001","label":1,"known":"2026-01-01T09:10:00Z"}`, `l.ndjson:1:56: field "fraud": absent but required`},
		"JSON":     {"l.ndjson", "{tx:1}", `l.ndjson:1:2: unexpected 't', want a key in double quotes`},
		"CSV time": {"l.csv", "tx,fraud,known\n\nt00001,1,yesterday\n", `l.csv:3: column 3, field "known": not a time of RFC 3339`},
		"CSV type": {"l.csv", "tx,fraud,known\n\"a\nb\",yes,2026-01-01T09:10:00Z\n", `l.csv:2: column 2, field "fraud": want optional number, got a string`},
		"CSV name": {"l.csv", "tx,label,known\nt00001,1,2026-01-01T09:10:00Z\n", `l.csv:2: field "fraud": absent but required`},
		"CSV row":  {"l.csv", "tx,fraud,known\nt00001,1\n", `l.csv:2: not a row with the cells of the header`},
	} {
		save(t, c.file, c.text)
		for _, asOf := range []string{"", "2027-01-01T00:00:00Z"} {
			o := labelled(c.file)
			o.Labels.AsOf = asOf
			if got := refused(t, o); !strings.Contains(got, c.want) || !strings.Contains(got, "no label can be read") {
				t.Errorf("%s, --as-of %q: %s, want %s", name, asOf, got, c.want)
			}
		}
	}
}

// TestALabelOfTheFutureDoesNotMakeRowsOld has one label with a wrong time in 2126 among others.
func TestALabelOfTheFutureDoesNotMakeRowsOld(t *testing.T) {
	events := generate(5, 50)
	folder(t, events)
	at := time.UnixMilli(events[10].At).UTC()
	label := func(tx string, known time.Time) string {
		return fmt.Sprintf(`{"tx":%q,"fraud":1,"known":%q}`+"\n", tx, known.Format(time.RFC3339Nano))
	}
	good := label("t00001", at)
	save(t, "good.ndjson", good)
	save(t, "odd.ndjson", label("t00002", at.AddDate(100, 0, 0))+good)
	o := labelled("good.ndjson")
	o.Labels.AsOf, o.Labels.Horizon, o.Now = "", time.Second, at.AddDate(0, 1, 0)
	want := written(t, o)
	if want.Labels.Young == 0 || want.Labels.AsOfFrom != "the newest label, good.ndjson:1" {
		t.Fatalf("%+v", want.Labels)
	}
	o.Labels.Source = "odd.ndjson"
	var said bytes.Buffer
	if err := dataset.Write(t.Context(), program(&said), o); err != nil {
		t.Fatal(err)
	}
	got := written(t, o)
	if got.Labels.Young != want.Labels.Young || !got.Labels.AsOf.Equal(at) || got.Labels.AsOfFrom != "the newest label, odd.ndjson:2" || got.Labels.Ahead != 1 || got.Rows != want.Rows {
		t.Errorf("%+v, want %+v", got.Labels, want.Labels)
	}
	for _, text := range []string{"the newest label, odd.ndjson:2", "1 labels are of the future: the first is odd.ndjson:1, known 2126-"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%s\nlacks %s", said.String(), text)
		}
	}
	o.Labels.AsOf = at.Format(time.RFC3339Nano)
	if m := written(t, o); m.Labels.Ahead != 1 || m.Labels.AsOfFrom != "--as-of" || m.Labels.Young != want.Labels.Young {
		t.Errorf("%+v", m.Labels)
	}
	save(t, "odd.ndjson", label("t00002", at.AddDate(100, 0, 0)))
	o.Labels.AsOf = ""
	if got := refused(t, o); !strings.Contains(got, "odd.ndjson:1, known 2126-") || !strings.Contains(got, "say with --as-of") {
		t.Error(got)
	}
}

// TestALaterNullRetractsALabel has labels that are taken back, in time and too late.
func TestALaterNullRetractsALabel(t *testing.T) {
	folder(t, []payment{{"in-time", "c", 1, began.UnixMilli()}, {"too-late", "c", 1, began.UnixMilli()}, {"again", "c", 1, began.UnixMilli()}, {"twice", "c", 1, began.UnixMilli()}})
	save(t, "l.csv", `tx,fraud,known
in-time,1,2026-01-01T09:10:00Z
in-time,,2026-01-01T09:20:00Z
too-late,1,2026-01-01T09:10:00Z
too-late,,2026-01-01T10:00:01Z
again,1,2026-01-01T09:10:00Z
again,,2026-01-01T09:20:00Z
again,0,2026-01-01T09:30:00Z
twice,1,2026-01-01T09:10:00Z
twice,,2026-01-01T09:10:00Z
`)
	save(t, "l.ndjson", `{"tx":"in-time","fraud":1,"known":"2026-01-01T09:10:00Z"}
{"tx":"in-time","fraud":null,"known":"2026-01-01T09:20:00Z"}
{"tx":"too-late","fraud":1,"known":"2026-01-01T09:10:00Z"}
{"tx":"too-late","fraud":null,"known":"2026-01-01T10:00:01Z"}
{"tx":"again","fraud":1,"known":"2026-01-01T09:10:00Z"}
{"tx":"again","fraud":null,"known":"2026-01-01T09:20:00Z"}
{"tx":"again","fraud":0,"known":"2026-01-01T09:30:00Z"}
{"tx":"twice","fraud":1,"known":"2026-01-01T09:10:00Z"}
{"tx":"twice","fraud":null,"known":"2026-01-01T09:10:00Z"}
`)
	for _, source := range []string{"l.csv", "l.ndjson"} {
		m := written(t, labelled(source))
		want := "tx,fraud\n\"in-time\",\n\"too-late\",1\n\"again\",0\n\"twice\",\n"
		if diff := cmp.Diff(want, load(t, "rows.csv")); diff != "" {
			t.Errorf("%s: %s", source, diff)
		}
		if l := m.Labels; l.Records != 9 || l.Unreadable != 0 || l.Labelled != 2 || l.Unlabelled != 2 || l.Retracted != 2 {
			t.Errorf("%s: %+v", source, l)
		}
	}
}

// TestLabelsAreFoundByTheTextOfTheirValue has ids that are strings here and numbers there.
func TestLabelsAreFoundByTheTextOfTheirValue(t *testing.T) {
	t.Chdir(t.TempDir())
	ids := []string{"7", "-7", "0", "9007199254740993", "9007199254740992", "9223372036854775807", "007", "1e5", "1.50", "1.5"}
	for _, kind := range []string{"string", "int"} {
		save(t, "p.yaml", "pipeline: ids\ninput: {topic: all, key: tx, time: {field: at, unit: ms}, fields: {tx: "+kind+", at: int}}\nsteps:\n  - emit: {topic: out, value: [tx]}\n")
		for _, form := range []string{"%s", "%q"} {
			var events, labels, table strings.Builder
			table.WriteString("tx,fraud,known\n")
			var want []string
			for i, id := range ids {
				if kind == "string" {
					fmt.Fprintf(&events, `{"tx":%q,"at":%d}`+"\n", id, began.UnixMilli())
				} else if i < 6 {
					fmt.Fprintf(&events, `{"tx":%s,"at":%d}`+"\n", id, began.UnixMilli())
				} else {
					continue
				}
				if form == "%q" || id != "007" { // which is no number of JSON
					fmt.Fprintf(&labels, `{"tx":`+form+`,"fraud":%d,"known":"2026-01-01T09:10:00Z"}`+"\n", id, i)
				}
				fmt.Fprintf(&table, form+",%d,2026-01-01T09:10:00Z\n", id, i)
				if kind == "string" {
					id = fmt.Sprintf("%q", id)
				}
				want = append(want, fmt.Sprintf("%s,%d", id, i))
			}
			save(t, "e.ndjson", events.String())
			save(t, "l.ndjson", labels.String())
			save(t, "l.csv", table.String())
			for _, source := range []string{"l.ndjson", "l.csv"} {
				o := labelled(source)
				m := written(t, o)
				for _, w := range want {
					if source == "l.ndjson" && form == "%s" && strings.Contains(w, "007") {
						continue
					}
					if !strings.Contains(load(t, "rows.csv"), "\n"+w+"\n") {
						t.Errorf("%s, ids %s as %s: no row %s in %s", source, kind, form, w, load(t, "rows.csv"))
					}
				}
				if m.Labels.Unused != 0 || m.Labels.Unreadable != 0 {
					t.Errorf("%s, ids %s as %s: %+v", source, kind, form, m.Labels)
				}
			}
		}
	}
}
