package onnx

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
)

// WorkerName is the name of the program that contains ONNX Runtime.
const WorkerName = "afterbay-onnx"

// Tensor is elements of one type in a shape, the input and output of a model's graph. Its Datatype
// is one of the Open Inference Protocol.
type Tensor = oip.Tensor

// Graph describes the inputs and outputs of a model, in its order. A length of -1 means any length.
// An entry without datatype is not a tensor.
type Graph = wire.Graph

// SessionOptions say how a model runs. The zero value suits most models.
type SessionOptions struct {
	// Worker is the program that contains ONNX Runtime. "" means afterbay-onnx in the folder of the
	// running program or, if it is not there, in PATH.
	Worker string
	// Library is the file of ONNX Runtime. "" means the one that Install put into the cache.
	Library string
	// LibraryDigest is the library's sha256 as 64 hex digits. "" means the digest of the version
	// that this package knows.
	LibraryDigest string
	// Digest is the required sha256 of the model's file; "" accepts any.
	Digest string
	// Processes is the number of concurrent calls. Each runs in a process with its own copy of the
	// model. 0 means one for each processor but one, at most 4; 64 is the limit.
	Processes int
	// Threads is how many threads compute a call; 0 is 1. 256 is the limit.
	Threads int
	// TensorBytes limits the size of a call's tensors, and that of its answer's tensors; 0 is 64
	// MiB, 1 GiB is the limit.
	TensorBytes int64
	// MemoryBytes limits the memory of each process, on Linux; 0 is 2 GiB.
	MemoryBytes int64
	// Timeout is the longest duration of a call; after it the process is killed. 0 is 30 s.
	Timeout time.Duration
	// StartTimeout is the longest time to read the model. It is also about how long a call waits if
	// no process can be started. 0 is 60 s.
	StartTimeout time.Duration
}

// Validate returns all errors of the options, or nil.
func (o SessionOptions) Validate() error {
	var list []error
	wrong := func(is bool, format string, arguments ...any) {
		if is {
			list = append(list, fmt.Errorf(format, arguments...))
		}
	}
	wrong(o.Processes < 0 || o.Processes > 64, "processes are 0 to 64, not %d: each holds the model in memory", o.Processes)
	wrong(o.Threads < 0 || o.Threads > 256, "threads are 0 to 256, not %d", o.Threads)
	wrong(o.TensorBytes < 0 || o.TensorBytes > 1<<30, "bytes of tensors are at most 1 GiB, not %d: larger calls belong on a model server", o.TensorBytes)
	wrong(o.MemoryBytes < 0 || o.MemoryBytes > 0 && o.MemoryBytes < 64<<20, "memory is at least 64 MiB, not %d bytes: ONNX Runtime alone takes as much", o.MemoryBytes)
	wrong(o.Timeout < 0 || o.StartTimeout < 0, "times are not negative")
	wrong(o.Digest != "" && !isDigest(o.Digest), "the digest %q is not 64 hex digits", o.Digest)
	wrong(o.LibraryDigest != "" && !isDigest(o.LibraryDigest), "the library's digest %q is not 64 hex digits", o.LibraryDigest)
	wrong(o.LibraryDigest != "" && o.Library == "", "a library's digest without a library")
	return errors.Join(list...)
}

func isDigest(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size
}

func (o *SessionOptions) fill() (err error) {
	o.Processes = cmp.Or(o.Processes, min(4, max(1, runtime.GOMAXPROCS(0)-1)))
	o.Threads = cmp.Or(o.Threads, 1)
	o.TensorBytes = cmp.Or(o.TensorBytes, 64<<20)
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 2<<30)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.StartTimeout = cmp.Or(o.StartTimeout, time.Minute)
	if o.Library == "" {
		if o.Library, err = Installed(); err != nil {
			return err
		}
	}
	if o.LibraryDigest == "" {
		pinned, err := pinnedHere()
		if err != nil {
			return err
		}
		o.LibraryDigest = pinned.library
	}
	if o.Worker == "" {
		o.Worker, err = findWorker()
	}
	return err
}

func findWorker() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), WorkerName)
		if about, err := os.Stat(beside); err == nil && about.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(WorkerName)
	if err != nil {
		return "", fmt.Errorf("%s, which holds ONNX Runtime, is neither beside this program nor in PATH: build it with go build ./cmd/%s", WorkerName, WorkerName)
	}
	return path, nil
}

// Session is a model in processes of ONNX Runtime. It is safe for concurrent use. If a process
// dies, the session restarts it and repeats its call once.
type Session struct {
	graph  Graph
	digest string
	bytes  int64
	idle   chan *slot // all slots that are not at work
	slots  []*slot
	end    context.CancelFunc
	closed sync.Once
}

// Open starts the processes of a model in a file and waits until they have read it. The caller must
// close the session.
func Open(ctx context.Context, path string, options SessionOptions) (*Session, error) {
	s, err := open(ctx, path, options)
	if err != nil {
		return nil, fmt.Errorf("load model %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, o SessionOptions) (*Session, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	digest, err := digestOf(path, o.Digest)
	if err != nil {
		return nil, err
	}
	if err := o.fill(); err != nil {
		return nil, err
	}
	arguments := []string{
		"-library", o.Library, "-library-sha256", o.LibraryDigest, "-model", path, "-model-sha256", digest, "-threads", strconv.Itoa(o.Threads),
		"-tensor-bytes", strconv.FormatInt(o.TensorBytes, 10), "-memory-bytes", strconv.FormatInt(o.MemoryBytes, 10),
	}
	life, end := context.WithCancel(context.Background()) // lifetime of the processes
	s := &Session{digest: digest, bytes: o.TensorBytes, idle: make(chan *slot, o.Processes), end: end}
	for range o.Processes {
		s.slots = append(s.slots, &slot{patience: o.StartTimeout, closed: life.Done(), launch: func() (*process, error) {
			return start(life, o.Worker, arguments, o.Timeout, o.StartTimeout, o.TensorBytes)
		}})
	}
	stop := context.AfterFunc(ctx, end)
	var starting errgroup.Group
	for _, each := range s.slots {
		starting.Go(func() error { return each.ready(ctx) })
	}
	err = starting.Wait()
	for _, each := range s.slots {
		s.idle <- each
	}
	if !stop() || err != nil {
		s.Close()
		return nil, errors.Join(ctx.Err(), err)
	}
	s.graph = s.slots[0].process.graph
	return s, nil
}

// digestOf returns the sha256 of a file. It fails if the sha256 differs from expected, unless
// expected is "".
func digestOf(path, expected string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if about, err := file.Stat(); err != nil || !about.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("it is not a regular file"))
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	if expected != "" && digest != expected {
		return "", fmt.Errorf("it has the sha256 %s, expected %s", digest, expected)
	}
	return digest, nil
}

// Graph describes the model. Its slices are shared: do not change them.
func (s *Session) Graph() Graph { return s.graph }

// Close ends the processes and waits for them. Calls in flight fail.
func (s *Session) Close() {
	s.closed.Do(func() {
		s.end()
		for range s.slots {
			each := <-s.idle
			if each.process != nil {
				each.process.end()
				each.process = nil
			}
		}
		for _, each := range s.slots { // for callers that still wait: they learn that the session ended
			s.idle <- each
		}
	})
}

// Run runs the model on tensors and returns the named outputs, or all tensor outputs if no name is
// given. It accepts all shapes that the model accepts. If ctx ends during the call, Run still waits
// for the answer, at most for the session's timeout.
func (s *Session) Run(ctx context.Context, inputs []Tensor, outputs ...string) ([]Tensor, error) {
	var answer []Tensor
	err := s.work(ctx, calls{
		n: 1,
		encode: func(_ int, frame []byte) ([]byte, error) {
			if err := s.fits(inputs); err != nil {
				return nil, err
			}
			return wire.AppendRequest(frame, inputs, outputs), nil
		},
		decode: func(_ int, list []oip.Tensor) error {
			answer = list
			for i := range answer {
				answer[i].Raw = slices.Clone(answer[i].Raw)
			}
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("run model: %w", err)
	}
	return answer, nil
}

// fits returns nil if tensors are within the limit, else the reason.
func (s *Session) fits(list []Tensor) error {
	var total int64
	for i := range list {
		if err := list[i].Check(); err != nil {
			return err
		}
		total += int64(len(list[i].Raw))
	}
	if total > s.bytes {
		return fmt.Errorf("a call with tensors of %d bytes, the limit is %d", total, s.bytes)
	}
	return nil
}

func (s *Session) work(ctx context.Context, c calls) error {
	select {
	case each := <-s.idle:
		defer func() { s.idle <- each }()
		return each.work(ctx, c)
	case <-ctx.Done():
		return ctx.Err()
	}
}
