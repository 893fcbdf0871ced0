package packed

import (
	"encoding/binary"
	"testing"
)

func written() []byte {
	b := append(binary.AppendVarint(binary.AppendUvarint(nil, 300), -5), 7)
	b = AppendText(AppendText(binary.LittleEndian.AppendUint64(b, 9), "text"), []byte{})
	return append(b, 2, 1, 1)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	r := Reader{Rest: written()}
	if n, s, b, w := r.Number(), r.Signed(), r.Byte(), r.Word(); n != 300 || s != -5 || b != 7 || w != 9 {
		t.Error(n, s, b, w)
	}
	if text, none := r.Text(), r.Text(); string(text) != "text" || cap(text) != 4 || none == nil || len(none) != 0 {
		t.Errorf("%q of %d, %q", text, cap(text), none)
	}
	if n := r.Count(); n != 2 || r.Whole() || string(r.Bytes(2)) != "\x01\x01" || !r.Whole() {
		t.Errorf("count %d, %+v", n, r)
	}
}

// TestWhatIsCutIsBad reads what was written less each number of bytes at its end.
func TestWhatIsCutIsBad(t *testing.T) {
	for n := range written() {
		r := Reader{Rest: written()[:n]}
		r.Number()
		r.Signed()
		r.Byte()
		r.Word()
		r.Text()
		r.Text()
		if r.Bytes(uint64(r.Count())); r.Whole() || !r.Bad || r.Number() != 0 || r.Signed() != 0 || r.Byte() != 0 || r.Word() != 0 || r.Text() != nil || r.Count() != 0 {
			t.Errorf("%d bytes: %+v", n, r)
		}
	}
	for _, huge := range []Reader{{Rest: binary.AppendUvarint(nil, 1<<63)}, {Rest: binary.AppendUvarint(nil, 2)}} {
		text, count := huge, huge
		if text.Text() != nil || !text.Bad || count.Count() != 0 || !count.Bad {
			t.Errorf("%+v, %+v", text, count)
		}
	}
}
