package operator

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

// oneRow is a table that has one row.
type oneRow struct {
	Kept
	row string
}

func (r oneRow) TableRow(*Event, int, []byte) ([]byte, error) { return []byte(r.row), nil }

// TestNoRowHasTextsBeyondTheBounds gives a row texts by all that steps take texts from:
// one that is too large, and so many that they are too large together.
func TestNoRowHasTextsBeyondTheBounds(t *testing.T) {
	var schema value.Schema
	var slots []value.Slot
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		slot, err := schema.Add(name, value.Type{Kind: value.String, Optional: true})
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, slot)
	}
	for name, give := range map[string]func(row *value.Row, slot value.Slot, text string) error{
		"a function": func(row *value.Row, slot value.Slot, text string) error {
			f := &udf.Function{Version: 1, Event: func(c *udf.Context) error { c.SetText(slot.Name, text); return nil }}
			_, err := (&Invocation{Row: row, Outputs: slots}).Call(f)
			return err
		},
		"a model": func(row *value.Row, slot value.Slot, text string) error {
			return (&Score{Outputs: []value.Slot{slot}}).Store(&Event{Row: row}, model.Answer{Texts: [][]byte{[]byte(text)}})
		},
		"a lookup outside of the log": func(row *value.Row, slot value.Slot, text string) error {
			s := &Score{Outputs: []value.Slot{slot}, Row: decode.New([]decode.Field{{Name: "v", Slot: slot}})}
			return s.Store(&Event{Row: row}, model.Answer{Texts: [][]byte{[]byte(`{"v":"` + text + `"}`)}})
		},
		"a table": func(row *value.Row, slot value.Slot, text string) error {
			l := NewLookup(Lookup{Key: slots[0], Fields: []decode.Field{{Name: "v", Slot: slot}}})
			return l.Run(&Event{Row: row, Kept: oneRow{row: `{"v":"` + text + `"}`}})
		},
	} {
		row := &schema.NewRows(1)[0]
		if err := give(row, slots[0], strings.Repeat("x", value.TextMax+1)); err == nil || !strings.Contains(err.Error(), "1048577 bytes is over the limit of 1048576") || row.Has(slots[0]) {
			t.Errorf("a text of %s: %v", name, err)
		}
		for i, slot := range slots {
			if err := give(row, slot, strings.Repeat("x", value.TextMax)); (err != nil) != (i == 4) || row.Has(slot) != (i < 4) {
				t.Errorf("%d texts of %s: %v", i+1, name, err)
			}
		}
		if err := row.Recount(slots); err != nil {
			t.Errorf("a row of %s that was stored: %v", name, err)
		}
	}
}

// TestARecordIsNotMadeOfMoreThanItMayHave makes one of a text many times.
func TestARecordIsNotMadeOfMoreThanItMayHave(t *testing.T) {
	var schema value.Schema
	slot, err := schema.Add("s", value.Type{Kind: value.String})
	if err != nil {
		t.Fatal(err)
	}
	row := &schema.NewRows(1)[0]
	row.SetText(slot, strings.Repeat("\x01", 1000))
	e := &Emit{}
	for range 10_000 {
		e.Before, e.Values = append(e.Before, []byte(`"s":`)), append(e.Values, slot)
	}
	b, size := e.AppendValue([]byte("before"), row, 10_000)
	if string(b) != "before" || size <= 10_000 || cap(b) > 100_000 {
		t.Errorf("%d bytes, %d in memory: %.20q", size, cap(b), b)
	}
	e.Before, e.Values = e.Before[:1], e.Values[:1]
	if b, size := e.AppendValue([]byte("before"), row, 10_000); len(b) != 6+size || size != 6*1000+8 {
		t.Errorf("%d bytes, %d: %.20q", size, len(b), b)
	}
}
