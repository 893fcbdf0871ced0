package operator

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
)

// columnsOf introduces columns of these types.
func columnsOf(t *testing.T, types ...string) (s value.Schema, slots []value.Slot) {
	t.Helper()
	for i, text := range types {
		of, err := value.ReadType(text)
		if err != nil {
			t.Fatal(err)
		}
		slot, err := s.Add(fmt.Sprintf("f.c%d", i), of)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, slot)
	}
	return s, slots
}

// answered has an event with an answer in its headers be computed, and returns its row.
func answered(s *value.Schema, slots []value.Slot, answer []byte) (*value.Row, error) {
	row := &s.NewRows(1)[0]
	e := &Event{Row: row, Record: &stream.Record{Headers: []stream.Header{{Key: header.Answer, Value: answer}}}}
	return row, NewAnswers([]Answered{{Feature: "f", By: value.Slot{Name: "shop"}, Columns: slots, Empty: -1}}).Run(e)
}

// TestAnswersOfNumbersKeepTheirBytes pins what stages have written so far.
func TestAnswersOfNumbersKeepTheirBytes(t *testing.T) {
	s, slots := columnsOf(t, "number", "number")
	row := &s.NewRows(1)[0]
	row.SetNumber(slots[0], 1)
	row.SetNumber(slots[1], -2)
	a := Answer{Names: NamesOf(slots), Approximate: "f"}
	for _, slot := range slots {
		a.Values = AppendValue(a.Values, row, slot)
	}
	if got, want := a.Append(nil), []byte("\x09f.c0,f.c1\x01f\x00\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\xc0"); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestAnswersAreOfAnyKind puts what a stage said of each kind into the row of the event, in its
// order and by name.
func TestAnswersAreOfAnyKind(t *testing.T) {
	types := []string{"number", "optional string", "optional int", "optional bool", "optional time", "optional bytes", "string[]", "map of int", "number"}
	s, slots := columnsOf(t, types...)
	for _, absent := range []bool{false, true} {
		said := &s.NewRows(1)[0]
		said.SetNumber(slots[0], 0.5)
		said.SetText(slots[6], string(value.AppendString(nil, "a,b c")))
		said.SetText(slots[7], "")
		said.SetNumber(slots[8], math.MaxFloat64)
		if !absent {
			said.SetText(slots[1], "")
			said.SetInt(slots[2], math.MinInt64)
			said.SetBool(slots[3], false)
			said.SetInt(slots[4], 7)
			said.SetText(slots[5], "\xff")
		}
		a, other := Answer{Names: NamesOf(slots)}, Answer{}
		for i := range slots {
			a.Values = AppendValue(a.Values, said, slots[i])
			other.Say(slots[len(slots)-1-i].Name, said, slots[len(slots)-1-i])
		}
		for _, answer := range []Answer{a, other} {
			data := answer.Append(nil)
			row, err := answered(&s, slots, data)
			if err != nil {
				t.Fatal(err)
			}
			for i, slot := range slots {
				if row.Has(slot) != said.Has(slot) || row.Has(slot) && string(AppendValue(nil, row, slot)) != string(AppendValue(nil, said, slot)) {
					t.Errorf("absent=%v: column %d of type %s is another one", absent, i, types[i])
				}
			}
			for n := range data {
				if _, err := answered(&s, slots, data[:n]); err == nil {
					t.Errorf("absent=%v: the first %d of %d bytes are an answer", absent, n, len(data))
				}
			}
			if _, err := answered(&s, slots, append(data, 0)); err == nil {
				t.Errorf("absent=%v: a byte more is an answer", absent)
			}
		}
	}
}

// TestAnswersOfAnotherVersion have a column of another type, and one that is not there.
func TestAnswersOfAnotherVersion(t *testing.T) {
	s, slots := columnsOf(t, "number", "optional string", "string[]")
	other, had := columnsOf(t, "optional string", "number", "string[]", "number")
	said := &other.NewRows(1)[0]
	said.SetText(had[0], "a")
	said.SetNumber(had[1], 1)
	said.SetText(had[2], "\x01x")
	said.SetNumber(had[3], 2)
	a := Answer{}
	for _, slot := range had {
		a.Say(slot.Name, said, slot)
	}
	row, err := answered(&s, slots, a.Append(nil))
	if err != nil || row.Number(slots[0]) != -1 || row.Has(slots[1]) || row.Text(slots[2]) != "\x01x" {
		t.Errorf("%v %v %v %q, %v", row.Number(slots[0]), row.Has(slots[1]), row.Has(slots[2]), row.Text(slots[2]), err)
	}
}
