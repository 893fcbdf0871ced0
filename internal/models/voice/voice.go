// Package voice measures how long people speak in a sound, by silero's ONNX model, so that silence
// costs no speech recognition. The model processes a sound from start to end, and keeps its state
// within the row. For sounds that arrive frame by frame, as events of a key, package
// internal/models/onnx keeps the state by key.
package voice

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/model"
)

// SecondsMax is the default of Options.SecondsMax.
const SecondsMax = 900

const (
	frame       = 512 // samples per step of the model
	carried     = 64  // samples of the previous frame that precede them
	stateSize   = 2 * 128
	speechAbove = 0.5 // least probability of a frame of speech
)

// Options say which model to use.
type Options struct {
	Path    string // file of silero's model, for 16 kHz
	Session onnx.SessionOptions
	// SecondsMax is the longest sound in seconds; 0 is 900, 86,400 is the limit.
	SecondsMax int
	// Input is the name of the column of sounds; "" means audio.
	Input string
	// Outputs name the two scores: seconds of speech, and seconds in total. If empty, they are
	// speech and seconds.
	Outputs []model.Output
}

// Validate returns all errors of the options, or nil.
func (o Options) Validate() error {
	var list []error
	if o.SecondsMax < 0 || o.SecondsMax > 86_400 {
		list = append(list, fmt.Errorf("sounds of %d seconds: 1 to 86,400 are possible", o.SecondsMax))
	}
	if said := (model.Info{Outputs: o.Outputs}); o.Outputs != nil && (said.Scores() != 2 || said.Texts() != 0) {
		list = append(list, errors.New("a sound is answered with two scores: seconds of speech, and seconds in all"))
	}
	return errors.Join(append(list, o.Session.Validate())...)
}

// Model measures speech in sounds. It is safe for concurrent use.
type Model struct {
	session  *onnx.Session
	seconds  int
	parallel int
	info     model.Info
}

var _ model.Model = (*Model)(nil)

// Load starts the processes of the model. The caller must close it.
func Load(ctx context.Context, options Options) (*Model, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("load model of voices: %w", err)
	}
	m := &Model{seconds: cmp.Or(options.SecondsMax, SecondsMax), parallel: max(options.Session.Processes, 1)}
	session := options.Session
	session.Processes = m.parallel
	opened, err := onnx.Open(ctx, options.Path, session)
	if err != nil {
		return nil, err
	}
	m.session = opened
	outputs := options.Outputs
	if outputs == nil {
		outputs = []model.Output{{Name: "speech", Size: 1}, {Name: "seconds", Size: 1}}
	}
	m.info = model.Info{
		Kind: "voice", Digest: session.Digest, Inputs: []model.Input{{Name: cmp.Or(options.Input, "audio"), Type: model.Bytes}},
		Outputs: outputs, Describe: fmt.Sprintf("speech in sounds, sounds at a time: %d", m.parallel),
	}
	if _, err := m.hear(ctx, make([]float32, 1)); err != nil { // checks that it is such a model
		m.Close()
		return nil, fmt.Errorf("load model of voices: %s is not a silero model for 16 kHz: %w", options.Path, err)
	}
	return m, nil
}

// Close ends the processes of the model.
func (m *Model) Close() error {
	m.session.Close()
	return nil
}

// Info describes the model. Its slices are shared: do not change them.
func (m *Model) Info() model.Info { return m.info }

// Check returns nil if a sound can be scored, else the reason: it is missing, not a WAV file of 16
// bits, shorter than its header says, or too long.
func (m *Model) Check(_ []float64, columns [][]byte) error {
	name := m.info.Inputs[0].Name
	if len(columns) != 1 || columns[0] == nil {
		return &model.InputError{Name: name, Err: errors.New("it is missing")}
	}
	s, err := parse(columns[0])
	if err == nil && s.frames() > m.seconds*s.rate {
		err = fmt.Errorf("%d s are too long: at most %d s are heard", s.frames()/s.rate, m.seconds)
	}
	if err == nil && s.frames() == 0 {
		err = errors.New("a WAV file of no samples")
	}
	if err != nil {
		return &model.InputError{Name: name, Err: err}
	}
	return nil
}

// Predict writes for each sound the seconds of speech and the total seconds.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	n := rows.Len()
	if rows.Width != 0 || rows.BytesWidth != 1 || len(scores) < 2*n {
		return fmt.Errorf("%d rows of %d numbers and %d sounds, with room for %d scores", n, rows.Width, rows.BytesWidth, len(scores))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.parallel)
	for i := range n {
		group.Go(func() error {
			s, err := parse(rows.Bytes[i])
			if err != nil {
				return err // Check refuses such rows before
			}
			wave := s.wave()
			heard, err := m.hear(ctx, wave)
			if err != nil {
				return fmt.Errorf("hear a sound: %w", err)
			}
			spoken := 0
			for _, probability := range heard {
				if probability >= speechAbove {
					spoken++
				}
			}
			scores[2*i+1] = float32(float64(s.frames()) / float64(s.rate))
			scores[2*i] = min(float32(spoken)*frame/rate, scores[2*i+1])
			return nil
		})
	}
	return group.Wait()
}

// hear returns the probability of speech in each frame. It pads the last frame with zeros.
func (m *Model) hear(ctx context.Context, wave []float32) ([]float32, error) {
	input := onnx.Tensor{Name: "input", Datatype: "FP32", Shape: []int64{1, carried + frame}, Raw: make([]byte, 4*(carried+frame))}
	state := onnx.Tensor{Name: "state", Datatype: "FP32", Shape: []int64{2, 1, stateSize / 2}, Raw: make([]byte, 4*stateSize)}
	hertz := onnx.Tensor{Name: "sr", Datatype: "INT64", Raw: binary.LittleEndian.AppendUint64(nil, rate)}
	var list []float32
	for at := 0; at < len(wave); at += frame {
		copy(input.Raw, input.Raw[4*frame:])
		for i := range frame {
			value := float32(0)
			if at+i < len(wave) {
				value = wave[at+i]
			}
			binary.LittleEndian.PutUint32(input.Raw[4*(carried+i):], math.Float32bits(value))
		}
		answer, err := m.session.Run(ctx, []onnx.Tensor{input, state, hertz}, "output", "stateN")
		if err != nil {
			return nil, err
		}
		if len(answer) != 2 || len(answer[0].Raw) != 4 || len(answer[1].Raw) != len(state.Raw) {
			return nil, errors.New("an answer of another shape")
		}
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(answer[0].Raw)))
		state.Raw = answer[1].Raw
	}
	return list, nil
}
