// Package worker is the process that runs ONNX Runtime with one model. Its client is
// internal/models/onnx in another process. It reads requests on standard input and answers on
// standard output. A program that imports it is linked to the system's C library, so it is a
// separate program: cmd/afterbay-onnx.
package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/ort"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
)

// Options say what a worker runs. internal/models/onnx sets them by flags.
type Options struct {
	Library       string // file of ONNX Runtime
	LibraryDigest string // its sha256, 64 hex digits
	Model         string // file of the model
	ModelDigest   string // its sha256
	Threads       int    // per call, 1 to 256
	TensorBytes   int64  // most bytes of the tensors of a call, and of those of an answer
	MemoryBytes   int64  // most memory of the process; ignored if the system cannot limit it (Linux can)
}

// Main runs a worker by the arguments of a command line and returns the exit code. in and out are
// as for Run. It writes errors to complaints.
func Main(arguments []string, in io.Reader, out, complaints io.Writer) int {
	var o Options
	flags := flag.NewFlagSet("afterbay-onnx", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.StringVar(&o.Library, "library", "", "file of ONNX Runtime")
	flags.StringVar(&o.LibraryDigest, "library-sha256", "", "digest of the library")
	flags.StringVar(&o.Model, "model", "", "file of the model")
	flags.StringVar(&o.ModelDigest, "model-sha256", "", "digest of the model")
	flags.IntVar(&o.Threads, "threads", 1, "threads of a call")
	flags.Int64Var(&o.TensorBytes, "tensor-bytes", 64<<20, "most that tensors of a call take")
	flags.Int64Var(&o.MemoryBytes, "memory-bytes", 2<<30, "most memory of the process")
	if err := flags.Parse(arguments); err != nil {
		return 2
	}
	if o.Model == "" {
		fmt.Fprintln(complaints, "afterbay-onnx is started by afterbay, which tells it the model and asks it on standard input")
		return 2
	}
	if err := Run(o, in, out); err != nil {
		fmt.Fprintf(complaints, "afterbay-onnx: %v\n", err)
		return 1
	}
	return 0
}

// session is the ONNX Runtime of a worker.
type session interface {
	Graph() wire.Graph
	Run(inputs []oip.Tensor, outputs []string, bytesMax int64, use func([]oip.Tensor) error) error
}

// Run loads the library and the model, describes the model, and answers until in ends. Then it
// returns at once, even during a call: the process is about to exit. If the model refuses a
// request, that is an answer. An error ends the worker.
func Run(options Options, in io.Reader, out io.Writer) error {
	s, err := open(options)
	if err != nil {
		frame, _ := wire.End(wire.AppendNoGraph(wire.Begin(nil), err.Error()))
		_, writing := out.Write(frame)
		return errors.Join(err, writing)
	}
	frame, err := wire.End(wire.AppendGraph(wire.Begin(nil), s.Graph()))
	if err != nil {
		return err
	}
	if _, err := out.Write(frame); err != nil {
		return fmt.Errorf("describe the model: %w", err)
	}
	return serve(s, options.TensorBytes, in, out)
}

func open(o Options) (session, error) {
	if o.Threads < 1 || o.Threads > 256 {
		return nil, fmt.Errorf("%d threads: take 1 to 256", o.Threads)
	}
	if err := limitMemory(o.MemoryBytes); err != nil {
		return nil, fmt.Errorf("limit memory: %w", err)
	}
	if err := checkLibrary(o.Library, o.LibraryDigest); err != nil {
		return nil, err
	}
	model, err := readModel(o.Model, o.ModelDigest, o.MemoryBytes)
	if err != nil {
		return nil, err
	}
	library, err := ort.Open(o.Library)
	if err != nil {
		return nil, err
	}
	s, err := library.NewSession(model, o.Threads)
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime %s: %w", library.Version(), err)
	}
	return s, nil
}

func checkLibrary(path, digest string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("ONNX Runtime: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("ONNX Runtime: %w", err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != digest {
		return fmt.Errorf("ONNX Runtime %s has the sha256 %s, expected %s", path, got, digest)
	}
	return nil
}

// readModel reads the file of the model, so that the bytes it checks are the bytes that run.
func readModel(path, digest string, bytesMax int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	defer file.Close()
	var content bytes.Buffer
	if about, err := file.Stat(); err == nil && about.Size() <= bytesMax {
		content.Grow(int(about.Size()) + bytes.MinRead)
	}
	n, err := content.ReadFrom(io.LimitReader(file, bytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	if n > bytesMax {
		return nil, fmt.Errorf("model %s is longer than the process may be large, %d bytes", path, bytesMax)
	}
	sum := sha256.Sum256(content.Bytes())
	if got := hex.EncodeToString(sum[:]); got != digest {
		return nil, fmt.Errorf("model %s has the sha256 %s, expected %s", path, got, digest)
	}
	return content.Bytes(), nil
}

// serve answers frame by frame. It reads one frame ahead, so that the client never blocks on a
// write while an answer waits to be read. It also notices the end of in during a call.
func serve(s session, tensorBytes int64, in io.Reader, out io.Writer) error {
	asked, free := make(chan []byte, 1), make(chan []byte, 3)
	for range cap(free) {
		free <- nil
	}
	failed := make(chan error, 1)
	go func() { // ends with the process, or with asked
		failed <- answerAll(s, tensorBytes, asked, free, out)
	}()
	for {
		var buffer []byte
		select {
		case buffer = <-free:
		case err := <-failed:
			return err
		}
		frame, err := wire.ReadFrame(in, buffer, tensorBytes+wire.FrameRest)
		if err == io.EOF {
			close(asked)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a call: %w", err)
		}
		select {
		case asked <- frame:
		case err := <-failed:
			return err
		}
	}
}

func answerAll(s session, tensorBytes int64, asked <-chan []byte, free chan<- []byte, out io.Writer) error {
	var frame []byte
	for request := range asked {
		inputs, outputs, err := wire.ParseRequest(request)
		frame = wire.Begin(frame)
		if err == nil {
			err = s.Run(inputs, outputs, tensorBytes, func(answer []oip.Tensor) error {
				frame = wire.AppendAnswer(frame, answer)
				return nil
			})
		}
		if err != nil {
			frame = wire.AppendError(frame, err.Error())
		}
		if frame, err = wire.End(frame); err != nil {
			return err
		}
		if _, err := out.Write(frame); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		free <- request
	}
	return nil
}
