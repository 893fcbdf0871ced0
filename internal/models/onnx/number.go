package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
)

func elementSize(datatype string) int { return wire.ElementSize(datatype) }

// bounds returns the bounds of an integer type, as powers of two.
func bounds(datatype string) (low, high float64) {
	switch datatype {
	case "BOOL":
		return 0, 2
	case "INT8", "INT16", "INT32", "INT64":
		high = math.Ldexp(1, 8*elementSize(datatype)-1)
		return -high, high
	}
	return 0, math.Ldexp(1, 8*elementSize(datatype))
}

// checkNumber returns nil if a finite number can be an element, else the reason.
func checkNumber(datatype string, value float64) error {
	switch {
	case datatype == "FP64":
		return nil
	case datatype == "FP32":
		if math.IsInf(float64(float32(value)), 0) {
			return fmt.Errorf("%g is beyond FP32", value)
		}
		return nil
	}
	if low, high := bounds(datatype); value != math.Trunc(value) || value < low || value >= high {
		return fmt.Errorf("%g is no %s", value, datatype)
	}
	return nil
}

// appendNumber appends an element that passed checkNumber.
func appendNumber(raw []byte, datatype string, value float64) []byte {
	switch datatype {
	case "FP32":
		return binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(value)))
	case "FP64":
		return binary.LittleEndian.AppendUint64(raw, math.Float64bits(value))
	case "UINT64":
		return binary.LittleEndian.AppendUint64(raw, uint64(value))
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(int64(value)))
	return append(raw, word[:elementSize(datatype)]...)
}

// numberAt reads element i. Integers of more than 53 bits are rounded.
func numberAt(datatype string, raw []byte, i int) float64 {
	little := binary.LittleEndian
	switch datatype {
	case "FP32":
		return float64(math.Float32frombits(little.Uint32(raw[4*i:])))
	case "FP64":
		return math.Float64frombits(little.Uint64(raw[8*i:]))
	case "FP16":
		return half(little.Uint16(raw[2*i:]))
	case "INT8":
		return float64(int8(raw[i]))
	case "INT16":
		return float64(int16(little.Uint16(raw[2*i:])))
	case "UINT16":
		return float64(little.Uint16(raw[2*i:]))
	case "INT32":
		return float64(int32(little.Uint32(raw[4*i:])))
	case "UINT32":
		return float64(little.Uint32(raw[4*i:]))
	case "INT64":
		return float64(int64(little.Uint64(raw[8*i:])))
	case "UINT64":
		return float64(little.Uint64(raw[8*i:]))
	}
	return float64(raw[i]) // BOOL and UINT8
}

// half reads a number of 16 bits: sign, 5 of exponent, 10 of fraction.
func half(word uint16) float64 {
	exponent, fraction := int(word>>10&31), float64(word&1023)
	value := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 0:
		value = math.Ldexp(fraction, -24)
	case exponent == 31 && fraction == 0:
		value = math.Inf(1)
	case exponent == 31:
		value = math.NaN()
	}
	if word>>15 == 1 {
		return -value
	}
	return value
}

// finite reports whether all elements of a row given as bytes are finite.
func finite(datatype string, raw []byte) bool {
	switch datatype {
	case "FP32", "FP64", "FP16":
	default:
		return true
	}
	for i := range len(raw) / elementSize(datatype) {
		if v := numberAt(datatype, raw, i); math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
