package feature

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// FuzzWindows reads a feature of windows and its events from the bytes and
// compares a cell that restarts with one that does not and with the reference,
// in what they take, read and store.
func FuzzWindows(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x11abcdefghijklmnopqrstuvwxyz0123456789"))
	f.Add([]byte("\x5b\xff\x03\xf0\x01\x20\xf0\x02\x21\xf0\x10\x22\x40\xff\xff\x31\x90\x08\xf3\x7f\x13\xf3\x81\x13"))
	f.Add([]byte("\xa5\x13\x87\xf8\x01\x01\xf8\x01\x02\xf8\x01\x03\xf9\x7f\x04\x0a\x7f\x05\xfb\xc0\x05\xf8\x00\x00"))
	f.Add([]byte("\x0c\xc4\x00\xf4\x10\x01\xf4\x10\x01\xf4\x10\x01\xf4\x10\x01\xf5\x7f\x01\xf4\x90\x01\xf4\x10\x01\xf4\x10\x01"))
	for _, policy := range []byte{0x0d, 0x8d} { // a window of 60 s, at most 64 entries of it
		burst := []byte{0xf0, 0, 1, 0xf4, 20, 2, 0xf6, 60, 3, 0xf5, 0x90, 4, 0xf1, 0xd0, 5, 0x02, 100, 6}
		f.Add(append([]byte{policy, 0x08, 0}, bytes.Repeat(burst, 8)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 3 || len(data) > 300 {
			return
		}
		spec := fuzzSpec(data[0], data[1], data[2])
		s := setOf(t, spec)
		ref := newReference(spec)
		twins := []*twin{{cell: s.NewCell(), state: store{}}, {cell: s.NewCell(), state: store{}}}
		now := int64(0)
		for data = data[3:]; len(data) >= 3; data = data[3:] {
			kind, move, value := data[0], int64(int8(data[1])), float64(int8(data[2]))/8
			step := move * move * move * 20 // up to 40 s, either way
			for range 1 + kind>>4 {
				at := now + step/int64(1+kind>>4)
				if kind&1 == 0 {
					now = max(now, at)
				}
				addAll(t, s, twins, ref, 0, at, value)
				value += 0.1
			}
			compareReads(t, s, twins, []*reference{ref}, 0, now)
			compareReads(t, s, twins, []*reference{ref}, 0, now+step)
			if kind&2 != 0 {
				s.Changes(twins[0].cell, nil, twins[0].state.put)
			}
			if kind&4 == 0 {
				continue
			}
			w := twins[1]
			s.Changes(w.cell, nil, w.state.put)
			cell, err := s.Load(w.state.get)
			if err != nil {
				t.Fatal(err)
			}
			w.cell = cell
		}
		compareStates(t, s, twins)
	})
}

// fuzzSpec makes a feature of one to four windows.
func fuzzSpec(shape, windows, more byte) Spec {
	spec := Spec{Name: "f", Decimals: int(shape%4) - 1, Empty: -1}
	for a := Count; a <= Min; a++ {
		if shape>>2&(1<<(a-1)) != 0 {
			spec.Aggregates = append(spec.Aggregates, a)
		}
	}
	if len(spec.Aggregates) == 0 {
		spec.Aggregates = []Aggregate{Count, Variance, Stddev, Slope}
	}
	sizes := []time.Duration{time.Second, 7 * time.Second, 60 * time.Second, 90 * time.Second}
	for k := range 1 + int(windows&3) {
		w := Window{Name: fmt.Sprint(k), Size: sizes[windows>>2%4]}
		if more>>k&1 != 0 {
			w.Pane = w.Size / []time.Duration{1, 4, 10, 100}[k]
		} else {
			spec.Max = 64 + int(more>>4)*8
			spec.Overflow = Overflow(shape >> 7)
		}
		windows = windows>>2 | windows<<6
		spec.Windows = append(spec.Windows, w)
	}
	return spec
}
