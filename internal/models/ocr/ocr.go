// Package ocr reads the text of images: screenshots, scans, photos. It uses three ONNX models of
// PaddleOCR and rapidocr: one finds the lines, one detects upside-down lines, and one reads the
// lines. This package does the work between the models, from the bytes of an image to tensors and
// from tensors to lines, as those projects do.
package ocr

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/model"
)

// PixelsMax is the default of Options.PixelsMax: 20 million. An image may take 12 bytes for each
// pixel of the limit while it is decoded.
const PixelsMax = 20_000_000

const (
	sideMost   = 2000 // pixels: a larger picture is scaled down
	sideLeast  = 30   // pixels: a smaller picture is scaled up
	sideMost2  = 4000 // most pixels after scaling up
	findSide   = 736  // least shorter side of a picture for finding lines
	findPixels = 4_500_000
	wide       = 8   // least ratio of width to height at which a picture gets black lines above and below
	turnAbove  = 0.9 // least probability of an upside-down line
	sureAbove  = 0.5 // least mean probability of the characters of a line
)

// File is a model's file and its sha256, 64 hex digits.
type File struct {
	Path   string
	Digest string
}

// Options say which models to use.
type Options struct {
	Lines   File // finds lines
	Turns   File // detects upside-down lines; not used if Path is ""
	Read    File // reads lines
	Session onnx.SessionOptions
	// PixelsMax is the most pixels of an image; 0 is 20 million, 200 million is the limit.
	PixelsMax int
	// Input is the name of the column of images; "" means image.
	Input string
	// Outputs are the text and optionally a score, the confidence of the models: the mean over the
	// lines, 0 without lines. If empty, the output is the text alone.
	Outputs []model.Output
}

// Validate returns all errors of the options, or nil.
func (o Options) Validate() error {
	var list []error
	if o.Lines.Path == "" || o.Read.Path == "" {
		list = append(list, errors.New("text is found and read by two models: name both"))
	}
	if o.PixelsMax < 0 || o.PixelsMax > 200_000_000 {
		list = append(list, fmt.Errorf("images of %d pixels: 1 to 200,000,000 are possible", o.PixelsMax))
	}
	texts := model.Info{Outputs: o.Outputs}
	if o.Outputs != nil && (texts.Texts() != 1 || texts.Scores() > 1) {
		list = append(list, errors.New("an image gives one text, and optionally one score"))
	}
	return errors.Join(append(list, o.Session.Validate())...)
}

// Model reads the text of images. It is safe for concurrent use.
type Model struct {
	lines, turns, read *onnx.Session // turns may be nil
	characters         []string
	page, line         tone
	pixels             int
	parallel           int
	info               model.Info
}

var _ model.Answerer = (*Model)(nil)

// Load starts the processes of the models. The caller must close the model.
func Load(ctx context.Context, options Options) (*Model, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("load models of text in images: %w", err)
	}
	m := &Model{page: pageTone(), line: lineTone(), pixels: cmp.Or(options.PixelsMax, PixelsMax), parallel: max(options.Session.Processes, 1)}
	if err := m.open(ctx, options); err != nil {
		m.Close()
		return nil, fmt.Errorf("load models of text in images: %w", err)
	}
	outputs := options.Outputs
	if outputs == nil {
		outputs = []model.Output{{Name: "text", Size: 1, Type: model.String}}
	}
	m.info = model.Info{
		Kind: "ocr", Digest: fmt.Sprintf("%x", sha256.Sum256([]byte(options.Lines.Digest+options.Turns.Digest+options.Read.Digest))),
		Inputs: []model.Input{{Name: cmp.Or(options.Input, "image"), Type: model.Bytes}}, Outputs: outputs,
		Describe: fmt.Sprintf("text in images, of %d characters, images at a time: %d", len(m.characters)-2, m.parallel),
	}
	return m, nil
}

func (m *Model) open(ctx context.Context, o Options) error {
	data, err := model.ReadFile(o.Read.Path)
	if err != nil {
		return err
	}
	if m.characters, err = charactersOf(data); err != nil {
		return fmt.Errorf("%s: %w", o.Read.Path, err)
	}
	session := o.Session
	session.Processes, session.TensorBytes = m.parallel, cmp.Or(session.TensorBytes, 128<<20)
	var group errgroup.Group
	for _, each := range []struct {
		file File
		to   **onnx.Session
	}{{o.Lines, &m.lines}, {o.Turns, &m.turns}, {o.Read, &m.read}} {
		if each.file.Path == "" {
			continue
		}
		group.Go(func() error {
			session := session
			session.Digest = each.file.Digest
			opened, err := onnx.Open(ctx, each.file.Path, session)
			if err != nil {
				return err
			}
			*each.to = opened
			if g := opened.Graph(); len(g.Inputs) != 1 || len(g.Outputs) != 1 || g.Inputs[0].Datatype != "FP32" || len(g.Inputs[0].Shape) != 4 {
				return fmt.Errorf("%s takes no pictures, or gives more than one answer", each.file.Path)
			}
			return nil
		})
	}
	return group.Wait()
}

// Close ends the processes of the models.
func (m *Model) Close() error {
	for _, session := range []*onnx.Session{m.lines, m.turns, m.read} {
		if session != nil {
			session.Close()
		}
	}
	return nil
}

// Info describes the model. Its slices are shared: do not change them.
func (m *Model) Info() model.Info { return m.info }

// Check returns nil if an image can be read, as far as its header shows, else the reason. The image
// may be missing, neither PNG nor JPEG, without pixels, too large, too narrow, or take too much
// memory while it is decoded.
func (m *Model) Check(_ []float64, columns [][]byte) error {
	if len(columns) != 1 || columns[0] == nil {
		return &model.InputError{Name: m.info.Inputs[0].Name, Err: errors.New("it is missing")}
	}
	if err := checkImage(columns[0], m.pixels); err != nil {
		return &model.InputError{Name: m.info.Inputs[0].Name, Err: err}
	}
	return nil
}

// Predict implements model.Model. It always fails: use Answer.
func (m *Model) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

// Answer writes the text of each image, its lines in reading order separated by line feeds, or an
// empty text if there are no lines. An image with damaged content fails alone, as one of
// model.RowErrors. The end of ctx also ends decoding.
func (m *Model) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	n, width := rows.Len(), m.info.Scores()
	if rows.Width != 0 || rows.BytesWidth != 1 || len(texts) < n || len(scores) < n*width {
		return fmt.Errorf("%d rows of %d numbers and %d images, with room for %d texts and %d scores", n, rows.Width, rows.BytesWidth, len(texts), len(scores))
	}
	failures := make([]error, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.parallel)
	for i := range n {
		group.Go(func() error {
			p, err := m.prepared(ctx, rows.Bytes[i])
			switch {
			case ctx.Err() != nil:
				return fmt.Errorf("decode an image: %w", ctx.Err())
			case err != nil:
				failures[i] = err
				return nil
			}
			text, sure, err := m.readPicture(ctx, p)
			if errors.Is(err, errOverlap) {
				failures[i] = err
				return nil
			}
			if err != nil {
				return fmt.Errorf("read the text of an image: %w", err)
			}
			if texts[i] = []byte(text); width > 0 {
				scores[i] = float32(sure)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var failed model.RowErrors
	for i, err := range failures {
		if err != nil {
			failed = append(failed, model.RowError{Row: i, Err: &model.InputError{Name: m.info.Inputs[0].Name, Err: err}})
		}
	}
	if failed != nil {
		return failed
	}
	return nil
}

// prepared decodes an image and scales it for finding text.
func (m *Model) prepared(ctx context.Context, data []byte) (*picture, error) {
	p, err := decode(ctx, data, m.pixels)
	if err != nil {
		return nil, err
	}
	w, h, err := sides(p.w, p.h)
	if err != nil {
		return nil, err
	}
	p = p.resize(w, h)
	if p.h <= sideLeast || float64(p.w)/float64(p.h) > wide {
		p = p.framed((max(p.w/wide, sideLeast)*2 - p.h) / 2)
	}
	return p, nil
}

// sides returns the sides of the picture for finding text, for an image of these sides.
func sides(w, h int) (int, int, error) {
	long, short := float64(max(w, h)), float64(min(w, h))
	factor := 1.0
	switch {
	case long > sideMost:
		factor = sideMost / long
	case short < sideLeast:
		factor = sideLeast / short
	default:
		return w, h, nil
	}
	toW, toH := to32(float64(w)*factor), to32(float64(h)*factor)
	if toW == 0 || toH == 0 || factor*long > sideMost2 {
		return 0, 0, fmt.Errorf("an image of %d x %d pixels is too narrow to find text in", w, h)
	}
	return toW, toH, nil
}

// times resizes to sides that are multiples of 32, as the model requires.
func (p *picture) times(factor float64) *picture {
	w, h := to32(float64(p.w)*factor), to32(float64(p.h)*factor)
	if w == 0 || h == 0 {
		return &picture{}
	}
	return p.resize(w, h)
}

func to32(length float64) int { return int(math.RoundToEven(math.Floor(length)/32)) * 32 }

// readPicture returns the lines of text, separated by line feeds, and the confidence.
func (m *Model) readPicture(ctx context.Context, p *picture) (text string, sure float64, err error) {
	boxes, err := m.find(ctx, p)
	if err != nil || len(boxes) == 0 {
		return "", 0, err
	}
	lines, err := p.cropAll(ctx, boxes)
	if err != nil {
		return "", 0, err
	}
	if err := m.turn(ctx, lines); err != nil {
		return "", 0, err
	}
	said := make([]line, len(lines))
	for _, c := range callsOf(lines, len(m.characters)) {
		if err := m.readLines(ctx, lines, c, said); err != nil {
			return "", 0, err
		}
	}
	var kept []string
	for _, l := range said {
		if l.sure >= sureAbove {
			kept, sure = append(kept, l.text), sure+l.sure
		}
	}
	return strings.Join(kept, "\n"), sure / float64(max(len(kept), 1)), nil
}

// find returns the boxes of the lines of a picture.
func (m *Model) find(ctx context.Context, p *picture) ([]box, error) {
	factor := max(1, float64(findSide)/float64(min(p.w, p.h)))
	factor = min(factor, math.Sqrt(findPixels/float64(p.w*p.h)))
	small := p.times(factor)
	if small.w == 0 {
		return nil, nil
	}
	input := planes(1, small.h, small.w)
	small.put(input.Raw, small.w, &m.page)
	answer, err := run(ctx, m.lines, input)
	if err != nil {
		return nil, err
	}
	if answer.Datatype != "FP32" || len(answer.Raw) != 4*small.w*small.h {
		return nil, fmt.Errorf("an answer of %s and shape %d for a picture of %d x %d pixels", answer.Datatype, answer.Shape, small.w, small.h)
	}
	return boxesOf(floats(answer.Raw), small.w, small.h, p.w, p.h), nil
}

// turn turns the upside-down lines.
func (m *Model) turn(ctx context.Context, lines []*picture) error {
	if m.turns == nil {
		return nil
	}
	for _, c := range callsOf(lines, 2) {
		input := planes(len(c.lines), lineHeight, turnWidth)
		for i, at := range c.lines {
			lineOf(lines[at], turnWidth).put(input.Raw[i*4*3*lineHeight*turnWidth:], turnWidth, &m.line)
		}
		answer, err := run(ctx, m.turns, input)
		if err != nil {
			return err
		}
		if answer.Datatype != "FP32" || len(answer.Raw) != 4*2*len(c.lines) {
			return fmt.Errorf("an answer of %s and shape %d for the direction of %d lines", answer.Datatype, answer.Shape, len(c.lines))
		}
		for i, at := range c.lines {
			if which, probability := best(answer.Raw[8*i:], 2); which == 1 && probability > turnAbove {
				lines[at] = lines[at].turned()
			}
		}
	}
	return nil
}

func (m *Model) readLines(ctx context.Context, lines []*picture, c call, into []line) error {
	input := planes(len(c.lines), lineHeight, c.width)
	for i, at := range c.lines {
		lineOf(lines[at], c.width).put(input.Raw[i*4*3*lineHeight*c.width:], c.width, &m.line)
	}
	answer, err := run(ctx, m.read, input)
	if err != nil {
		return err
	}
	said, err := linesOf(answer, len(c.lines), m.characters)
	if err != nil {
		return err
	}
	for i, at := range c.lines {
		into[at] = said[i]
	}
	return nil
}

// run calls a model with one input and one output.
func run(ctx context.Context, s *onnx.Session, input onnx.Tensor) (*onnx.Tensor, error) {
	input.Name = s.Graph().Inputs[0].Name
	answer, err := s.Run(ctx, []onnx.Tensor{input})
	if err != nil {
		return nil, err
	}
	return &answer[0], nil
}
