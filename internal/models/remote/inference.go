package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// caller is a transport of the Open Inference Protocol. Its errors are *Error or those of ctx. It
// must not keep its arguments.
type caller interface {
	metadata(ctx context.Context) (oip.Metadata, error)
	// isReady checks whether the model is ready. The error is errUnknown if the server does not
	// have the call.
	isReady(ctx context.Context) error
	infer(ctx context.Context, r *oip.Request, answerBytesMax int64) (oip.Response, error)
	close()
}

var errUnknown = errors.New("the server has no such call")

// openInference is a server of the Open Inference Protocol.
type openInference struct {
	caller
	options  *Options
	declared *oip.Layout // layout of rows, until the server reports its tensors
	agreed   atomic.Pointer[agreement]
	early    atomic.Bool // rows were checked before that
	tensors  sync.Pool   // of *[]oip.Tensor
}

// agreement combines the metadata of the server with the options.
type agreement struct {
	layout  *oip.Layout
	outputs []model.Output
	names   []string // names of the outputs to request; nil requests all
}

func newOpenInference(o *Options, to *url.URL) (*openInference, error) {
	s := &openInference{options: o, declared: oip.Columns(o.Inputs)}
	s.tensors.New = func() any { return new([]oip.Tensor) }
	if !strings.HasPrefix(to.Scheme, "grpc") {
		s.caller = newREST(o, to)
		return s, nil
	}
	var err error
	s.caller, err = newGRPC(o, to)
	return s, err
}

// ready checks whether the model is ready. If the server does not have that call, it requests the
// model's metadata.
func (s *openInference) ready(ctx context.Context) error {
	err := s.isReady(ctx)
	if errors.Is(err, errUnknown) {
		_, err = s.metadata(ctx)
	}
	return err
}

// agree compares the options with the server's metadata.
func (s *openInference) agree(ctx context.Context) (model.Info, error) {
	o := s.options
	metadata, err := s.metadata(ctx)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fault(Late, "no answer in time: %w", context.DeadlineExceeded)
		}
		return model.Info{}, fmt.Errorf("ask %s for its metadata: %w", o.URL, err)
	}
	if o.Version != "" && len(metadata.Versions) > 0 && !slices.Contains(metadata.Versions, o.Version) {
		return model.Info{}, fmt.Errorf("version %q is not one of the server's %q", o.Version, metadata.Versions)
	}
	var a agreement
	switch {
	case len(metadata.Inputs) > 0:
		a.layout, err = oip.Match(o.Inputs, metadata.Inputs)
	case o.Columns:
		a.layout = oip.Columns(o.Inputs)
	default:
		a.layout, err = oip.Packed(o.Inputs, o.Tensor)
	}
	if err != nil {
		return model.Info{}, err
	}
	if a.outputs, err = chooseOutputs(o.Outputs, metadata.Outputs); err != nil {
		return model.Info{}, err
	}
	for _, out := range a.outputs {
		if out.Name != "" {
			a.names = append(a.names, out.Name)
		}
	}
	s.agreed.Store(&a)
	info := s.describe()
	info.Outputs, info.Describe = a.outputs, strings.TrimSpace(info.Describe+" "+metadata.Platform)
	return info, nil
}

func (s *openInference) describe() model.Info {
	o := s.options
	return model.Info{
		Kind: "remote", Inputs: o.Inputs, Outputs: o.Outputs, Remote: true,
		Describe: strings.TrimSpace(fmt.Sprintf("%s %s at %s", o.Model, o.Version, o.URL)),
	}
}

func (s *openInference) layout() *oip.Layout {
	if a := s.agreed.Load(); a != nil {
		return a.layout
	}
	return s.declared
}

func (s *openInference) check(values []float64, bytes [][]byte) error {
	layout := s.layout()
	if layout == s.declared {
		s.early.Store(true)
	}
	if err := layout.Check(values, bytes); err != nil || !s.options.JSON {
		return err
	}
	return checkText(layout, values, bytes)
}

func (s *openInference) fits(rows model.Rows) error { return s.layout().Fits(rows) }

func (s *openInference) rowsMax() int { return 0 }

func (s *openInference) ask(ctx context.Context, rows model.Rows, into model.Answer) error {
	n, o, a := rows.Len(), s.options, s.agreed.Load()
	for i := 0; i < n && s.early.Load(); i++ {
		if err := s.check(rows.Row(i)); err != nil {
			return &Error{Fault: Refused, Err: err}
		}
	}
	tensors := s.tensors.Get().(*[]oip.Tensor)
	defer s.tensors.Put(tensors)
	*tensors = a.layout.Fill(*tensors, rows)
	request := oip.Request{Model: o.Model, Version: o.Version, Inputs: *tensors, Outputs: a.names}
	response, err := s.infer(ctx, &request, roomFor(into))
	if err != nil {
		return err
	}
	if o.Version != "" && response.Version != "" && response.Version != o.Version {
		return fault(Malformed, "version %q answered for %q", response.Version, o.Version)
	}
	if err := oip.Answers(response.Outputs, a.outputs, n, into); err != nil {
		return &Error{Fault: Malformed, Err: err}
	}
	return nil
}

// chooseOutputs compares the wanted outputs with the metadata. Without wanted outputs it takes
// those of the metadata.
func chooseOutputs(wanted []model.Output, tensors []oip.Tensor) ([]model.Output, error) {
	if len(tensors) == 0 {
		if len(wanted) == 0 {
			wanted = []model.Output{{Size: 1}}
		}
		return wanted, nil
	}
	if len(wanted) == 0 {
		for _, t := range tensors {
			size, err := rowSize(t)
			if err != nil {
				return nil, fmt.Errorf("%w: say which outputs make the scores", err)
			}
			wanted = append(wanted, model.Output{Name: t.Name, Size: size})
		}
		return wanted, oip.CheckOutputs(wanted)
	}
	for _, want := range wanted {
		at := slices.IndexFunc(tensors, func(t oip.Tensor) bool { return want.Name == "" || t.Name == want.Name })
		if at < 0 {
			return nil, fmt.Errorf("output %q is not one of the %d outputs of the server", want.Name, len(tensors))
		}
		if want.Text() {
			if tensors[at].Datatype != "BYTES" {
				return nil, fmt.Errorf("output %q of the server is of type %s: no text", tensors[at].Name, tensors[at].Datatype)
			}
			continue
		}
		if oip.Size(tensors[at].Datatype) <= 0 {
			return nil, fmt.Errorf("output %q of the server is of type %s: not numbers", tensors[at].Name, tensors[at].Datatype)
		}
		// If metadata leaves a size open, the answers show it.
		if size, err := rowSize(tensors[at]); err == nil && size != want.Size {
			return nil, fmt.Errorf("output %q has %d scores a row, but the server has %d", want.Name, want.Size, size)
		}
	}
	return wanted, nil
}

// rowSize returns how many numbers an output has per row.
func rowSize(t oip.Tensor) (int, error) {
	if oip.Size(t.Datatype) <= 0 {
		return 0, fmt.Errorf("output %q of the server is of type %s: not numbers", t.Name, t.Datatype)
	}
	if len(t.Shape) == 0 {
		return 0, fmt.Errorf("output %q of the server has no shape", t.Name)
	}
	n, err := oip.Elements(t.Shape[1:])
	if err != nil || n == 0 {
		return 0, fmt.Errorf("output %q of the server has shape %v", t.Name, t.Shape)
	}
	return n, nil
}
