package onnx

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
	"github.com/afterbay/afterbay/model"
)

// answers is what Python's ONNX Runtime makes of the models of packages.
type answers struct {
	Runtime                          string
	Silero, Magika, Rapidocr, Minilm answered
}

type answered struct {
	File  string
	Calls []struct{ Inputs, Outputs []Tensor }

	Wave    []byte    // of silero: 16 kHz, float32
	Speech  []float64 // of each frame of 512
	Texts   []string  // of minilm
	Vectors [][]float64
}

// vocabulary is one of the size that the model of sentences wants.
func vocabulary() string {
	words := strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] hello world the model reads a text and gives vector stream of events")
	for i := len(words); i < 30522; i++ {
		words = append(words, fmt.Sprintf("word%d", i))
	}
	return strings.Join(words, "\n")
}

func askPython(t *testing.T) answers {
	t.Helper()
	command := exec.CommandContext(t.Context(), python(t), "testdata/models.py", "answers", modelFile(t, "vocab.txt", []byte(vocabulary())))
	command.Stderr = &tail{}
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, command.Stderr.(*tail).text())
	}
	var a answers
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// distance is the largest difference of two tensors.
func distance(t *testing.T, a, b Tensor) float64 {
	t.Helper()
	if a.Datatype != b.Datatype || !slices.Equal(a.Shape, b.Shape) {
		t.Fatalf("%s of %s %d, expected %s %d", a.Name, a.Datatype, a.Shape, b.Datatype, b.Shape)
	}
	worst := 0.0
	other := numbers(t, b)
	for i, value := range numbers(t, a) {
		worst = max(worst, math.Abs(value-other[i]))
	}
	return worst
}

// Each model of a package gives what it gives in Python: with any shapes that
// were asked there, alone and together.
func TestModelsOfPackagesGiveWhatTheyGiveInPython(t *testing.T) {
	a := askPython(t)
	for name, m := range map[string]answered{"silero": a.Silero, "magika": a.Magika, "rapidocr": a.Rapidocr, "minilm": a.Minilm} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), m.File, onRuntime(t, Options{}).Session)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			worst := 0.0
			for _, call := range m.Calls {
				var names []string
				for _, out := range call.Outputs {
					names = append(names, out.Name)
				}
				got, err := s.Run(t.Context(), call.Inputs, names...)
				if err != nil {
					t.Fatal(err)
				}
				for i := range got {
					worst = max(worst, distance(t, got[i], call.Outputs[i]))
				}
			}
			if worst > 1e-6 || len(m.Calls) == 0 {
				t.Errorf("%d calls differ by %g", len(m.Calls), worst)
			}
			t.Logf("%s by %s, Python's %s: %d calls, largest difference %g", filepath.Base(m.File), s.Graph().Runtime, a.Runtime, len(m.Calls), worst)
		})
	}
	t.Run("frames of a key", func(t *testing.T) { hearFrames(t, a.Silero) })
	t.Run("sentences", func(t *testing.T) { embedTexts(t, a.Minilm) })
	t.Run("labels of files", func(t *testing.T) { labelFiles(t, a.Magika) })
}

var sileroOptions = Options{
	Inputs: []Input{{Name: "input", Carry: 64}, {Name: "sr", Kind: Constant, Constant: []float64{16000}}},
	States: []State{{Input: "state", Output: "stateN", Shape: []int{2, -1, 128}}},
}

// hearFrames gives frames of two keys, the second one late, so that the state of
// each is its own.
func hearFrames(t *testing.T, silero answered) {
	m := load(t, silero.File, onRuntime(t, sileroOptions))
	if m.Info().State != 2*128+64 {
		t.Fatalf("state of %d", m.Info().State)
	}
	const late, frame = 5, 4 * 512
	var states [2][]byte
	worst := 0.0
	for i := range len(silero.Speech) + late {
		for key, at := range []int{i, i - late} {
			if at < 0 || at >= len(silero.Speech) {
				continue
			}
			scores := predict(t, m, model.Rows{N: 1, BytesWidth: 2, Bytes: [][]byte{silero.Wave[at*frame : (at+1)*frame], states[key]}})
			states[key] = model.AppendState(nil, scores[1:])
			worst = max(worst, math.Abs(float64(scores[0])-silero.Speech[at]))
		}
	}
	t.Logf("%d frames of two keys, largest difference %g", len(silero.Speech), worst)
	if worst > 1e-6 || len(silero.Speech) < 40 {
		t.Errorf("%d frames differ by %g", len(silero.Speech), worst)
	}
}

func embedTexts(t *testing.T, minilm answered) {
	tokenizer, err := wordpiece.Parse("vocab.txt", []byte(vocabulary()), wordpiece.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, minilm.File, onRuntime(t, Options{
		Inputs:  []Input{{Name: "text", Kind: TokenIDs, Tokens: &Tokens{Tokenizer: tokenizer, Max: 128}}},
		Outputs: []Output{{Name: "last_hidden_state", As: "vector", Pool: "mean", Normalize: true}},
	}))
	rows := model.Rows{BytesWidth: 1}
	for _, text := range minilm.Texts {
		rows.Append(nil, [][]byte{[]byte(text)})
	}
	scores, worst := predict(t, m, rows), 0.0
	for i, vector := range minilm.Vectors {
		for j, value := range vector {
			worst = max(worst, math.Abs(float64(scores[i*len(vector)+j])-value))
		}
	}
	t.Logf("%d texts, largest difference %g", len(minilm.Texts), worst)
	if worst > 1e-6 || len(minilm.Vectors) != 5 {
		t.Errorf("%d texts differ by %g", len(minilm.Vectors), worst)
	}
}

func labelFiles(t *testing.T, magika answered) {
	m := load(t, magika.File, onRuntime(t, Options{Inputs: []Input{{Name: magika.Calls[0].Inputs[0].Name, Kind: Raw, Shape: []int{2048}}}}))
	for _, call := range magika.Calls[:3] {
		scores := predict(t, m, model.Rows{N: 1, BytesWidth: 1, Bytes: [][]byte{call.Inputs[0].Raw}})
		for i, value := range numbers(t, call.Outputs[0]) {
			if math.Abs(float64(scores[i])-value) > 1e-6 {
				t.Fatalf("label %d: %v, expected %v", i, scores[i], value)
			}
		}
	}
}
