package decode_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/test/slots"
)

func TestWholeRecords(t *testing.T) {
	for _, c := range []struct {
		format         decode.Format
		typ, src, want string
	}{
		{decode.Text{}, "string", "a \"line\"\n", `"a \"line\"\n"`},
		{decode.Text{}, "string", "", `""`},
		{decode.Text{}, "string", "\xff", `field "v" at byte 0: invalid UTF-8`},
		{decode.Text{}, "int", "7", "the format text has one field, of type string and without a path. Others are from the key"},
		{decode.Raw{}, "bytes", "\x00\xff", `"\x00\xff"`},
		{decode.Raw{}, "raw", " [1,\n2] ", `"[1, 2]"`},
		{decode.Raw{}, "raw", "[1] 2", `field "v" at byte 4: unexpected '2', want the end of the record`},
		{decode.Raw{}, "raw", "", `field "v" at byte 0: the record ends too early`},
		{decode.Raw{}, "raw", "\"\xff\"", `byte 1: invalid UTF-8`},
		{decode.Raw{}, "string", "x", "the format raw has one field, of type bytes or raw and without a path. Others are from the key"},
	} {
		fields, schema := slots.Of(t, "v "+c.typ)
		row := &schema.NewRows(1)[0]
		d, err := c.format.Decoder(fields)
		if err == nil {
			err = d.Scan([]byte(c.src), row)
		}
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = slots.Show(row, fields[0].Slot)
		}
		if got != c.want {
			t.Errorf("%T of %s, %q: got %s, want %s", c.format, c.typ, c.src, got, c.want)
		}
	}
}
