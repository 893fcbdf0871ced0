package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// timed is the event time of a field of a kind, and a row that takes it.
func timed(t *testing.T, kind value.Kind, unit time.Duration, layout string) (*EventTime, *value.Row) {
	t.Helper()
	schema := &value.Schema{}
	slot, err := schema.Add("ts", value.Type{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return &EventTime{FromField: true, Slot: slot, Unit: unit, Layout: layout, MaxAhead: time.Hour}, &schema.NewRows(1)[0]
}

func TestTimesAreReadAsTheyAreWritten(t *testing.T) {
	appended := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		kind   value.Kind
		unit   time.Duration
		layout string
		set    func(*value.Row, value.Slot)
		want   string
	}{
		{value.Number, time.Second, "", func(r *value.Row, s value.Slot) { r.SetNumber(s, 1767261600.123457) }, "2026-01-01T10:00:00.123457Z"},
		{value.Number, time.Millisecond, "", func(r *value.Row, s value.Slot) { r.SetNumber(s, 1767261600123.4) }, "2026-01-01T10:00:00.1234Z"},
		{value.Number, time.Nanosecond, "", func(r *value.Row, s value.Slot) { r.SetNumber(s, 1767261600e9) }, "2026-01-01T10:00:00Z"},
		{value.Number, time.Second, "", func(r *value.Row, s value.Slot) { r.SetNumber(s, 1e300) }, "outside the years 1678 to 2261"},
		{value.Int, time.Second, "", func(r *value.Row, s value.Slot) { r.SetInt(s, -1<<63) }, "out of range"},
		{value.String, 0, "2006-01-02 15:04:05", func(r *value.Row, s value.Slot) { r.SetText(s, "2026-01-01 10:00:00.5") }, "2026-01-01T10:00:00.5Z"},
		{value.String, 0, "2006-01-02T15:04:05Z0700", func(r *value.Row, s value.Slot) { r.SetText(s, "2026-01-01T10:00:00+0200") }, "2026-01-01T08:00:00Z"},
		{value.String, 0, "2006-01-02", func(r *value.Row, s value.Slot) { r.SetText(s, "2026-01-01") }, "2026-01-01T00:00:00Z"},
		{value.String, 0, "2006-01-02", func(r *value.Row, s value.Slot) { r.SetText(s, "2026-13-01") }, `ts is "2026-13-01": not a time like "2006-01-02"`},
		{value.String, 0, "2006-01-02", func(r *value.Row, s value.Slot) { r.SetText(s, "0001-01-01") }, "outside the years 1678 to 2261"},
	} {
		e, row := timed(t, c.kind, c.unit, c.layout)
		c.set(row, e.Slot)
		at, err := e.Of(row, appended, nil)
		got := time.UnixMicro(at).UTC().Format(time.RFC3339Nano)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v %v %q: %s, want %s", c.kind, c.unit, c.layout, got, c.want)
		}
	}
}

func TestLayoutsThatCannotTellATimeAreRefused(t *testing.T) {
	for layout, want := range map[string]string{
		"2006-01-02 15:04:05": "", "2006-01-02T15:04:05Z0700": "", "02/01/2006": "", "Jan 2, 2006 3:04 PM": "", "2006-01-02 15h": "", "2006-002 15:04": "", "2006-01-02 15:04:05 UTC": "",
		"%Y-%m-%d": "not a layout of a date", "yyyy-MM-dd": "not a layout of a date", "15:04:05": "not a layout of a date", "2006-01": "not a layout of a date",
		"2006-01-02 03:04": "has no complete time of day", "2006-01-02 15:04:05 MST": "use -0700",
	} {
		err := CheckLayout(layout)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", layout, err, want)
		}
	}
}

// TestMostTimesBefore2000AreAFinding has times in another unit than the file says, and
// few that are wrong.
func TestMostTimesBefore2000AreAFinding(t *testing.T) {
	appended := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var warned []string
	e, row := timed(t, value.Int, time.Millisecond, "")
	sample := NewTimeSample(func(text string) { warned = append(warned, text) })
	for i := range int64(50) {
		row.SetInt(e.Slot, 1_760_000_000+i)
		if _, err := e.Of(row, appended, sample); err != nil {
			t.Fatal(err)
		}
	}
	want := "3 of the first 3 event times are before 2000 or after 2100, such as ts: 1760000000 in ms is 1970-01-21T08:53:20Z; in s it is 2025-10-09T08:53:20Z: write unit: s"
	if len(warned) != 1 || warned[0] != want || sample.Finding() != want {
		t.Errorf("warned %q, found %q, want %q", warned, sample.Finding(), want)
	}

	e, row = timed(t, value.Int, time.Second, "")
	sample = NewTimeSample(func(text string) { t.Error(text) })
	for i := range int64(2000) {
		if row.SetInt(e.Slot, 1_760_000_000+i); i%10 == 9 {
			row.SetInt(e.Slot, i) // a clock that was never set
		}
		if _, err := e.Of(row, appended, sample); err != nil {
			t.Fatal(err)
		}
	}
	if sample.Close(); sample.Finding() != "" {
		t.Error(sample.Finding())
	}

	e, row = timed(t, value.Int, time.Second, "")
	sample = NewTimeSample(func(text string) { warned = append(warned, text) })
	row.SetInt(e.Slot, 1_760_000_000_000) // which is no time at all, and a dead letter
	if _, err := e.Of(row, appended, sample); err == nil {
		t.Error("the year 57000 is a time")
	}
	sample.Close()
	sample.Close()
	if want := "1 of the first 1 event times are before 2000 or after 2100, such as ts: 1760000000000 in s is the year 57742; in ms it is 2025-10-09T08:53:20Z: write unit: ms"; len(warned) != 2 || warned[1] != want {
		t.Errorf("%q, want %q", warned, want)
	}
}
