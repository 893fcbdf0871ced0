// Package slots has helpers for tests of formats: fields with slots, encoders of them, and the
// content of slots.
package slots

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Of returns fields given as `name type`, and the schema with their slots.
func Of(t testing.TB, fields ...string) ([]decode.Field, *value.Schema) {
	t.Helper()
	var names value.Schema
	var list []decode.Field
	for _, f := range fields {
		name, of, _ := strings.Cut(f, " ")
		typ, err := value.ReadType(of)
		if err != nil {
			t.Fatal(err)
		}
		slot, err := names.Add(name, typ)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, decode.Field{Name: name, Slot: slot})
	}
	return list, &names
}

// Show returns the content of a slot of a row, for people.
func Show(row *value.Row, slot value.Slot) string {
	switch {
	case !row.Has(slot):
		return "absent"
	case slot.Type.Kind == value.Bool:
		return fmt.Sprint(row.Bool(slot))
	case slot.Type.Kind == value.Int, slot.Type.Kind == value.Time:
		return fmt.Sprint(row.Int(slot))
	case slot.Type.Kind == value.Number:
		return fmt.Sprint(row.Number(slot))
	case slot.Type.Kind == value.Vector:
		return fmt.Sprint(value.AppendVector(row, []float32(nil), slot))
	}
	return fmt.Sprintf("%q", row.Text(slot))
}

// Encoder returns an encoder of fields given as `name type`, and a row with the values of a JSON
// event. A name with dots is a path. The error is that of the format.
func Encoder(t testing.TB, format encode.Format, event string, fields ...string) (encode.Encoder, *value.Row, error) {
	t.Helper()
	read, names := Of(t, fields...)
	row := &names.NewRows(1)[0]
	if err := decode.New(read).Scan([]byte(event), row); err != nil {
		t.Fatal(err)
	}
	var written []encode.Field
	for _, f := range read {
		written = append(written, encode.Field{Path: strings.Split(f.Name, "."), Slot: f.Slot})
	}
	made, err := format.Encoder(written)
	return made, row, err
}
