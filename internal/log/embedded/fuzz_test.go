package embedded

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// FuzzFrame reads damaged frames: it never panics, and what is valid is whole.
func FuzzFrame(f *testing.F) {
	good := stale(5, 1, 7)
	f.Add(good)
	f.Add(append(slices.Clone(good), good...))
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		fix := slices.Clone(b)
		if len(fix) >= frameHeader { // let the checksum pass, to reach the sections
			binary.LittleEndian.PutUint32(fix, uint32(len(fix)))
			binary.LittleEndian.PutUint32(fix[4:], frameSum(fix, 7))
		}
		for _, b := range [][]byte{b, fix} {
			fr, n, err := parseFrame(b, 7)
			if err != nil {
				continue
			}
			if n < fr.length || n > len(b) || n > align(fr.length) {
				t.Fatalf("frame of %d bytes takes %d of %d", fr.length, n, len(b))
			}
			if again, m, err := parseFrame(b[:n], 7); err != nil || m != n || len(again.body) != len(fr.body) {
				t.Fatalf("the valid prefix read again: %d bytes, %v", m, err)
			}
			for i := range fr.body {
				s := &fr.body[i]
				parseTopic(s.payload)
				parseMoves(s.payload)
				parseEdits(s.payload)
				if v, err := parseRecords(s); err == nil {
					whole, rec := v.block(0), stream.Record{}
					r := whole.records()
					for range v.count {
						r.record(&rec, nil)
					}
				}
			}
		}
	})
}
