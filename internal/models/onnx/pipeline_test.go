package onnx_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/onnx"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// crashing is a model whose process crashes before each tenth call.
type crashing struct {
	*onnx.Model
	calls int
}

func (m *crashing) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if m.calls++; m.calls%10 == 0 {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	return m.Model.Predict(ctx, rows, scores)
}

// Voices of three keys, one a few frames late, through a pipeline that is started
// again in the middle: each is heard as in Python, whatever the processes do.
func TestFramesOfKeysAreHeardInAPipelineThroughCrashes(t *testing.T) {
	m, wave, speech := onnx.Speech(t)
	const frame, late = 4 * 512, 5
	var events []stream.Record
	for i := range len(speech) + late {
		for _, key := range []string{"ann", "bob", "late"} {
			at := i
			if key == "late" {
				at -= late
			}
			if at >= 0 && at < len(speech) {
				events = append(events, stream.Record{
					Partition: stream.Partition{Topic: "sound", Index: stream.ByKey}, Key: []byte(key),
					Value: fmt.Appendf(nil, `{"call":%q,"n":%d,"sound":%q}`, key, at, base64.StdEncoding.EncodeToString(wave[at*frame:(at+1)*frame])),
				})
			}
		}
	}
	broken := &crashing{Model: m}
	pipeline := lang.Pipeline{
		Name: "calls",
		Input: lang.Input{Topic: "sound", Key: "call", Partitions: 1, Fields: []lang.Field{
			{Name: "call", Type: "string"}, {Name: "n", Type: "int"}, {Name: "sound", Type: "bytes"},
		}},
		Models: []lang.Model{{Name: "voice", Go: "voice", Version: 6, Outputs: []lang.Field{{Name: "speech", Type: "number"}}}},
		Steps: []lang.Step{
			&steps.Score{Model: "voice", Inputs: []string{"sound"}},
			&steps.Emit{Topic: "speech", Names: []string{"call", "n", "voice.speech"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"voice": broken}},
	}
	log := memory.New(memory.Options{})
	var answer answers.Answer
	for _, part := range [][]stream.Record{events[:50], events[50:]} {
		runner, err := builtin.New(pipeline, running.Options{Members: 1})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err = answers.RunAll(t.Context(), log, runner, part); err != nil {
			t.Fatal(err)
		}
	}
	next, worst := map[string]int{}, 0.0
	for _, value := range answer.Values("speech") {
		var out struct {
			Call   string
			N      int
			Speech float64 `json:"voice_speech"`
		}
		if err := json.Unmarshal([]byte(value), &out); err != nil || out.N != next[out.Call] {
			t.Fatalf("%s, expected frame %d of its call: %v", value, next[out.Call], err)
		}
		next[out.Call]++
		worst = max(worst, math.Abs(out.Speech-speech[out.N]))
	}
	t.Logf("%v frames, %d calls, the process crashed before each tenth; largest difference %g", next, broken.calls, worst)
	if worst > 1e-6 || len(next) != 3 || next["late"] != len(speech) || broken.calls < 20 {
		t.Errorf("%v frames of %d, %d calls; they differ by %g", next, len(speech), broken.calls, worst)
	}
}
