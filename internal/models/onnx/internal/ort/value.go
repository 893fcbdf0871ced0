package ort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/afterbay/afterbay/internal/models/oip"
)

// value creates a value of ONNX Runtime from a tensor. The data must fit the shape. The caller must
// keep held until the value is released.
func (l *Library) value(t *oip.Tensor) (value uintptr, held any, err error) {
	element := slices.Index(datatypes[:], t.Datatype)
	if element <= 0 {
		return 0, nil, fmt.Errorf("there is no type %q", t.Datatype)
	}
	shape := append(slices.Clone(t.Shape), 0) // so that a scalar has an address too
	if element == stringType {
		value, err = l.stringValue(t, shape)
		return value, nil, err
	}
	data := aligned(t.Raw)
	err = l.call(createTensorWithDataAsOrtValue, l.memory, uintptr(unsafe.Pointer(&data[0])), uintptr(len(t.Raw)),
		uintptr(unsafe.Pointer(&shape[0])), uintptr(len(t.Shape)), uintptr(element), uintptr(unsafe.Pointer(&value)))
	return value, data, err
}

// aligned returns the data at an address aligned for every type, with at least one byte. Kernels
// may read whole words, and C requires an address for empty data too.
func aligned(data []byte) []byte {
	const word = 8
	if len(data) > 0 && uintptr(unsafe.Pointer(&data[0]))%word == 0 {
		return data
	}
	words := make([]uint64, len(data)/word+1)
	copied := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*word)
	copy(copied, data)
	return copied
}

func (l *Library) stringValue(t *oip.Tensor, shape []int64) (value uintptr, err error) {
	parts, err := t.Split()
	if err != nil {
		return 0, err
	}
	var list []*byte
	for _, part := range parts {
		if bytes.IndexByte(part, 0) >= 0 {
			return 0, errors.New("a string holds a zero byte, which ends strings in ONNX Runtime")
		}
		list = append(list, cString(string(part)))
	}
	err = l.call(createTensorAsOrtValue, l.allocator, uintptr(unsafe.Pointer(&shape[0])), uintptr(len(t.Shape)),
		stringType, uintptr(unsafe.Pointer(&value)))
	if err != nil || len(list) == 0 {
		return value, err
	}
	if err := l.call(fillStringTensor, value, uintptr(unsafe.Pointer(&list[0])), uintptr(len(list))); err != nil {
		l.release(releaseValue, value)
		return 0, err
	}
	return value, nil
}

// read sets t from a value. t points to the memory of the value until the value is released.
func (l *Library) read(value uintptr, t *oip.Tensor, bytesMax int64) error {
	var tensor int32
	if err := l.call(isTensor, value, uintptr(unsafe.Pointer(&tensor))); err != nil {
		return err
	}
	if tensor == 0 {
		return errors.New("it is not a tensor: export the model so that its outputs are (skl2onnx: zipmap False)")
	}
	var info uintptr
	if err := l.call(getTensorTypeAndShape, value, uintptr(unsafe.Pointer(&info))); err != nil {
		return err
	}
	var err error
	t.Datatype, t.Shape, err = l.shape(info)
	l.release(releaseTensorTypeAndShapeInfo, info)
	if err != nil {
		return err
	}
	n, err := oip.Elements(t.Shape)
	if err != nil {
		return err
	}
	size := oip.Size(t.Datatype)
	switch {
	case size < 0:
		return errors.New("its type is not supported")
	case size == 0:
		return l.readStrings(value, n, t, bytesMax)
	case int64(n*size) > bytesMax:
		return fmt.Errorf("%d bytes of shape %d are beyond the limit of a call", n*size, t.Shape)
	case n == 0:
		return nil
	}
	var data *byte
	if err := l.call(getTensorMutableData, value, uintptr(unsafe.Pointer(&data))); err != nil {
		return err
	}
	t.Raw = unsafe.Slice(data, n*size)
	return nil
}

func (l *Library) readStrings(value uintptr, n int, t *oip.Tensor, bytesMax int64) error {
	if n == 0 {
		return nil
	}
	var total uint64
	if err := l.call(getStringTensorDataLength, value, uintptr(unsafe.Pointer(&total))); err != nil {
		return err
	}
	if int64(total)+4*int64(n) > bytesMax {
		return fmt.Errorf("%d strings of %d bytes are beyond the limit of a call", n, total)
	}
	content, starts := make([]byte, total+1), make([]uint64, n)
	if err := l.call(getStringTensorContent, value, uintptr(unsafe.Pointer(&content[0])), uintptr(total),
		uintptr(unsafe.Pointer(&starts[0])), uintptr(n)); err != nil {
		return err
	}
	t.Raw = make([]byte, 0, int(total)+4*n)
	for i, start := range starts {
		end := total
		if i+1 < n {
			end = starts[i+1]
		}
		if start > end || end > total {
			return errors.New("its strings overlap")
		}
		t.Raw = binary.LittleEndian.AppendUint32(t.Raw, uint32(end-start))
		t.Raw = append(t.Raw, content[start:end]...)
	}
	return nil
}
