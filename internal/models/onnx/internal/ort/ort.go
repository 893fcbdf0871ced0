// Package ort calls ONNX Runtime in a shared library, by the C interface of the library and without
// cgo. A program that imports it is linked to the system's C library.
package ort

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
)

// apiVersion is the requested version of the C interface. Libraries keep serving old versions:
// their tables of functions only grow.
const apiVersion = 17

// Indexes in the table of functions, in the order of the C header.
const (
	getErrorMessage                        = 2
	createEnv                              = 3
	createSessionFromArray                 = 8
	run                                    = 9
	createSessionOptions                   = 10
	setIntraOpNumThreads                   = 24
	setInterOpNumThreads                   = 25
	sessionGetInputCount                   = 30
	sessionGetOutputCount                  = 31
	sessionGetInputTypeInfo                = 33
	sessionGetOutputTypeInfo               = 34
	sessionGetInputName                    = 36
	sessionGetOutputName                   = 37
	createTensorAsOrtValue                 = 48
	createTensorWithDataAsOrtValue         = 49
	isTensor                               = 50
	getTensorMutableData                   = 51
	fillStringTensor                       = 52
	getStringTensorDataLength              = 53
	getStringTensorContent                 = 54
	castTypeInfoToTensorInfo               = 55
	getTensorElementType                   = 60
	getDimensionsCount                     = 61
	getDimensions                          = 62
	getTensorTypeAndShape                  = 65
	createCPUMemoryInfo                    = 69
	allocatorFree                          = 76
	getAllocatorWithDefaultOptions         = 78
	releaseEnv                             = 92
	releaseStatus                          = 93
	releaseMemoryInfo                      = 94
	releaseSession                         = 95
	releaseValue                           = 96
	releaseTypeInfo                        = 98
	releaseTensorTypeAndShapeInfo          = 99
	releaseSessionOptions                  = 100
	addSessionConfigEntry                  = 130
	tableLength                            = addSessionConfigEntry + 1
	logErrors                      uintptr = 3
	stringType                             = 8
)

// datatypes are the names of ONNX's element types in the Open Inference Protocol, by number. ""
// marks a type that cannot be passed.
var datatypes = [...]string{
	1: "FP32", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64",
	stringType: "BYTES", 9: "BOOL", 10: "FP16", 11: "FP64", 12: "UINT32", 13: "UINT64",
}

// base is what OrtGetApiBase returns.
type base struct {
	getAPI, getVersionString uintptr
}

// Library is a loaded ONNX Runtime. It stays loaded until the process ends.
type Library struct {
	table       *[tableLength]uintptr
	message     func(status uintptr) string
	env, memory uintptr
	allocator   uintptr // the library's own
	version     string
}

// Open loads the library from a file. The code that the library runs while it is loaded has all
// rights of the process, so check the file first.
func Open(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	entry, err := purego.Dlsym(handle, "OrtGetApiBase")
	if err != nil {
		return nil, fmt.Errorf("%s is not an ONNX Runtime: %w", path, err)
	}
	var getBase func() *base
	purego.RegisterFunc(&getBase, entry)
	b := getBase()
	if b == nil {
		return nil, fmt.Errorf("%s has no interface of ONNX Runtime", path)
	}
	l := &Library{}
	var version func() string
	purego.RegisterFunc(&version, b.getVersionString)
	l.version = version()
	var getAPI func(version uint32) *[tableLength]uintptr
	purego.RegisterFunc(&getAPI, b.getAPI)
	if l.table = getAPI(apiVersion); l.table == nil {
		return nil, fmt.Errorf("ONNX Runtime %s lacks version %d of its interface: take 1.17 or later", l.version, apiVersion)
	}
	purego.RegisterFunc(&l.message, l.table[getErrorMessage])
	name := cString("afterbay")
	err = errors.Join(
		l.call(createEnv, logErrors, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&l.env))),
		l.call(createCPUMemoryInfo, 0, 0, uintptr(unsafe.Pointer(&l.memory))),
		l.call(getAllocatorWithDefaultOptions, uintptr(unsafe.Pointer(&l.allocator))))
	if err != nil {
		return nil, fmt.Errorf("start ONNX Runtime %s: %w", l.version, err)
	}
	return l, nil
}

// Version returns the version of the library.
func (l *Library) Version() string { return l.version }

// call calls the function at a place of the table. Pointers among args must be
// converted in the call itself: then they live, and stay, until it returns.
//
//go:uintptrescapes
func (l *Library) call(place int, args ...uintptr) error {
	status, _, _ := purego.SyscallN(l.table[place], args...)
	if status == 0 {
		return nil
	}
	reason := l.message(status)
	purego.SyscallN(l.table[releaseStatus], status)
	return errors.New(reason)
}

func (l *Library) release(place int, handle uintptr) {
	if handle != 0 {
		purego.SyscallN(l.table[place], handle)
	}
}

// cString returns text as a C string. It must not contain a zero byte.
func cString(text string) *byte { return &append([]byte(text), 0)[0] }

// goString copies a string of C.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// Session is a model that ONNX Runtime has read. It is not safe for concurrent use.
type Session struct {
	library *Library
	handle  uintptr
	graph   wire.Graph
	inputs  map[string]*byte // names as C strings
	outputs map[string]*byte
	all     []string // names of the outputs that are tensors
}

// NewSession reads the bytes of a model. It does not keep them. It uses this many threads,
// including the caller's; they do not spin when idle.
func (l *Library) NewSession(model []byte, threads int) (*Session, error) {
	if len(model) == 0 {
		return nil, errors.New("the model is empty")
	}
	var options uintptr
	if err := l.call(createSessionOptions, uintptr(unsafe.Pointer(&options))); err != nil {
		return nil, err
	}
	defer l.release(releaseSessionOptions, options)
	intra, inter, no := cString("session.intra_op.allow_spinning"), cString("session.inter_op.allow_spinning"), cString("0")
	err := errors.Join(
		l.call(setIntraOpNumThreads, options, uintptr(threads)),
		l.call(setInterOpNumThreads, options, 1),
		l.call(addSessionConfigEntry, options, uintptr(unsafe.Pointer(intra)), uintptr(unsafe.Pointer(no))),
		l.call(addSessionConfigEntry, options, uintptr(unsafe.Pointer(inter)), uintptr(unsafe.Pointer(no))))
	if err != nil {
		return nil, err
	}
	s := &Session{library: l, inputs: map[string]*byte{}, outputs: map[string]*byte{}}
	if err := l.call(createSessionFromArray, l.env, uintptr(unsafe.Pointer(&model[0])), uintptr(len(model)), options,
		uintptr(unsafe.Pointer(&s.handle))); err != nil {
		return nil, err
	}
	if err := s.describe(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close frees what the session holds.
func (s *Session) Close() {
	s.library.release(releaseSession, s.handle)
	s.handle = 0
}

// Graph describes the model. Inputs and outputs that are not tensors have no type.
func (s *Session) Graph() wire.Graph { return s.graph }

func (s *Session) describe() (err error) {
	s.graph.Runtime = "ONNX Runtime " + s.library.version
	if s.graph.Inputs, err = s.describeSide(s.inputs, sessionGetInputCount, sessionGetInputName, sessionGetInputTypeInfo); err != nil {
		return err
	}
	if s.graph.Outputs, err = s.describeSide(s.outputs, sessionGetOutputCount, sessionGetOutputName, sessionGetOutputTypeInfo); err != nil {
		return err
	}
	for _, t := range s.graph.Outputs {
		if t.Datatype != "" {
			s.all = append(s.all, t.Name)
		}
	}
	return nil
}

func (s *Session) describeSide(names map[string]*byte, count, name, typeInfo int) ([]oip.Tensor, error) {
	l := s.library
	var n uint64
	if err := l.call(count, s.handle, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	list := make([]oip.Tensor, n)
	for i := range list {
		var text *byte
		if err := l.call(name, s.handle, uintptr(i), l.allocator, uintptr(unsafe.Pointer(&text))); err != nil {
			return nil, err
		}
		list[i].Name = goString(text)
		err := l.call(allocatorFree, l.allocator, uintptr(unsafe.Pointer(text)))
		if err != nil {
			return nil, err
		}
		names[list[i].Name] = cString(list[i].Name)
		var info, tensor uintptr
		if err := l.call(typeInfo, s.handle, uintptr(i), uintptr(unsafe.Pointer(&info))); err != nil {
			return nil, err
		}
		err = l.call(castTypeInfoToTensorInfo, info, uintptr(unsafe.Pointer(&tensor)))
		if err == nil && tensor != 0 {
			list[i].Datatype, list[i].Shape, err = l.shape(tensor)
		}
		l.release(releaseTypeInfo, info)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", list[i].Name, err)
		}
	}
	return list, nil
}

// shape reads the type and shape of a tensor. The type is "" if it cannot be passed.
func (l *Library) shape(info uintptr) (string, []int64, error) {
	var element int32
	var rank uint64
	err := errors.Join(
		l.call(getTensorElementType, info, uintptr(unsafe.Pointer(&element))),
		l.call(getDimensionsCount, info, uintptr(unsafe.Pointer(&rank))))
	if err != nil {
		return "", nil, err
	}
	shape := make([]int64, rank)
	if rank > 0 {
		if err := l.call(getDimensions, info, uintptr(unsafe.Pointer(&shape[0])), uintptr(rank)); err != nil {
			return "", nil, err
		}
	}
	if element < 0 || int(element) >= len(datatypes) {
		return "", shape, nil
	}
	return datatypes[element], shape, nil
}

// Run runs the model and passes the named outputs to use, or all tensor outputs if no name is
// given. They may have at most bytesMax bytes, and are valid until use returns.
func (s *Session) Run(inputs []oip.Tensor, outputs []string, bytesMax int64, use func([]oip.Tensor) error) error {
	if len(outputs) == 0 {
		outputs = s.all
	}
	if len(inputs) != len(s.inputs) {
		return fmt.Errorf("%d inputs for a model of %d", len(inputs), len(s.inputs))
	}
	l := s.library
	names, values := make([]*byte, len(inputs)+1), make([]uintptr, len(inputs)+1)
	held := make([]any, len(inputs))
	wanted, results := make([]*byte, len(outputs)+1), make([]uintptr, len(outputs)+1)
	defer func() {
		for _, list := range [][]uintptr{values, results} {
			for _, value := range list {
				l.release(releaseValue, value)
			}
		}
		runtime.KeepAlive(held) // a value of numbers points to Go memory
	}()
	for i := range inputs {
		t := &inputs[i]
		var err error
		if names[i] = s.inputs[t.Name]; names[i] == nil {
			return fmt.Errorf("the model has no input %q", t.Name)
		}
		if values[i], held[i], err = l.value(t); err != nil {
			return fmt.Errorf("input %q: %w", t.Name, err)
		}
	}
	for i, name := range outputs {
		if wanted[i] = s.outputs[name]; wanted[i] == nil {
			return fmt.Errorf("the model has no output %q", name)
		}
	}
	err := l.call(run, s.handle, 0,
		uintptr(unsafe.Pointer(&names[0])), uintptr(unsafe.Pointer(&values[0])), uintptr(len(inputs)),
		uintptr(unsafe.Pointer(&wanted[0])), uintptr(len(outputs)), uintptr(unsafe.Pointer(&results[0])))
	if err != nil {
		return err
	}
	tensors := make([]oip.Tensor, len(outputs))
	for i := range tensors {
		tensors[i].Name = outputs[i]
		if err := l.read(results[i], &tensors[i], bytesMax); err != nil {
			return fmt.Errorf("output %q: %w", outputs[i], err)
		}
		bytesMax -= int64(len(tensors[i].Raw))
	}
	return use(tensors)
}
