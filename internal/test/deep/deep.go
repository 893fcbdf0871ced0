// Package deep sums values and everything that they point to. Tests use it to check that a value is
// unchanged.
package deep

import (
	"cmp"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
)

var seed = maphash.MakeSeed()

// Sum returns a checksum of v and everything that v points to. It is valid in this process only. If
// whole returns true for a type, its values count by their address alone, because they change or
// are large. whole may be nil.
func Sum(v any, whole func(reflect.Type) bool) uint64 {
	if whole == nil {
		whole = func(reflect.Type) bool { return false }
	}
	s := &summer{seen: map[visit]uint64{}, whole: whole}
	return s.sum(reflect.ValueOf(v))
}

type visit struct {
	address uintptr
	length  int
	of      reflect.Type
}

type summer struct {
	seen  map[visit]uint64 // numbered in the order of the visits
	whole func(reflect.Type) bool
}

// mix combines several numbers, in their order.
func mix(list ...uint64) uint64 {
	sum := uint64(14695981039346656037)
	for _, n := range list {
		for range 8 {
			sum, n = (sum^n&0xff)*1099511628211, n>>8
		}
	}
	return sum
}

func (s *summer) sum(v reflect.Value) uint64 {
	if !v.IsValid() {
		return 1
	}
	switch kind := uint64(v.Kind()); v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return mix(kind, 1)
		}
		return mix(kind, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return mix(kind, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return mix(kind, v.Uint())
	case reflect.Float32, reflect.Float64:
		return mix(kind, math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		return mix(kind, math.Float64bits(real(v.Complex())), math.Float64bits(imag(v.Complex())))
	case reflect.String:
		return mix(kind, maphash.String(seed, v.String()))
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return mix(kind, uint64(v.Pointer()))
	case reflect.Interface:
		if v.IsNil() {
			return mix(kind)
		}
		return mix(kind, maphash.String(seed, v.Elem().Type().String()), s.sum(v.Elem()))
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return s.reference(v)
	case reflect.Struct:
		return s.fields(v)
	default: // an array
		return mix(kind, s.items(v))
	}
}

// reference sums references, which may be cyclic.
func (s *summer) reference(v reflect.Value) uint64 {
	kind := uint64(v.Kind())
	if v.IsNil() {
		return mix(kind)
	}
	if s.whole(v.Type()) {
		return mix(kind, uint64(v.Pointer()))
	}
	at := visit{v.Pointer(), 0, v.Type()}
	if v.Kind() == reflect.Slice {
		at.length = v.Len()
	}
	if met, ok := s.seen[at]; ok {
		return mix(kind, met)
	}
	s.seen[at] = uint64(len(s.seen))
	switch v.Kind() {
	case reflect.Pointer:
		return mix(kind, s.sum(v.Elem()))
	case reflect.Map:
		return mix(kind, s.entries(v))
	default:
		return mix(kind, s.items(v))
	}
}

func (s *summer) fields(v reflect.Value) uint64 {
	list := []uint64{uint64(v.Kind())}
	for i := range v.NumField() {
		list = append(list, s.sum(v.Field(i)))
	}
	return mix(list...)
}

func (s *summer) items(v reflect.Value) uint64 {
	list := []uint64{uint64(v.Len())}
	for i := range v.Len() {
		list = append(list, s.sum(v.Index(i)))
	}
	return mix(list...)
}

// entries sums a map in the order of its keys' sums. Keys that are pointers count by their address.
func (s *summer) entries(v reflect.Value) uint64 {
	type entry struct {
		key   uint64
		value reflect.Value
	}
	var all []entry
	for entries := v.MapRange(); entries.Next(); {
		key := entries.Key()
		if key.Kind() == reflect.Pointer {
			all = append(all, entry{uint64(key.Pointer()), entries.Value()})
		} else {
			alone := &summer{seen: map[visit]uint64{}, whole: s.whole}
			all = append(all, entry{alone.sum(key), entries.Value()})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	list := []uint64{uint64(len(all))}
	for _, e := range all {
		list = append(list, e.key, s.sum(e.value))
	}
	return mix(list...)
}
