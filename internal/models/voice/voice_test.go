package voice

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/internal/models/onnx/worker"
	"github.com/afterbay/afterbay/model"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-library" { // a session started it as its worker
		os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// file makes a WAV file, whose head says that it has so many bytes of samples.
func file(format, channels, hertz, bits, says int, samples ...int16) []byte {
	out := append([]byte("RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00fmt \x10\x00\x00\x00"), make([]byte, 16)...)
	for at, value := range map[int]int{0: format, 2: channels, 4: hertz & 0xffff, 6: hertz >> 16, 14: bits} {
		binary.LittleEndian.PutUint16(out[len(out)-16+at:], uint16(value))
	}
	out = binary.LittleEndian.AppendUint32(append(out, "data"...), uint32(says))
	for _, sample := range samples {
		out = binary.LittleEndian.AppendUint16(out, uint16(sample))
	}
	return out
}

// What is no sound is refused by what it is.
func TestWhatIsNoSoundIsRefusedByName(t *testing.T) {
	m := &Model{seconds: 1, info: model.Info{Inputs: []model.Input{{Name: "call"}}}}
	good := file(1, 1, 16000, 16, 4, 1, 2)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"missing":      {nil, `input "call": it is missing`},
		"empty":        {[]byte{}, `no WAV file: it begins with ""`},
		"a text":       {[]byte("not a sound at all"), `no WAV file: it begins with "not "`},
		"only a head":  {good[:len(good)-8], "truncated: a WAV file without sound"},
		"half a head":  {good[:30], "truncated: a WAV file without sound"},
		"no format":    {append([]byte("RIFF\x00\x00\x00\x00WAVEdata\x02\x00\x00\x00"), 1, 2), "does not say what its sound is"},
		"cut off":      {file(1, 2, 8000, 16, 32000, 1, 2, 3, 4), "truncated: 0.00 s of 1.00 s are there"},
		"8 bits":       {file(1, 1, 16000, 8, 2, 1), "a WAV file of format 1, 1 channels, 16000 Hz and 8 bits"},
		"mp3 in a WAV": {file(85, 2, 44100, 16, 2, 1), "a WAV file of format 85, 2 channels, 44100 Hz and 16 bits"},
		"no channels":  {file(1, 0, 16000, 16, 2, 1), "0 channels"},
		"slow":         {file(1, 1, 4000, 16, 2, 1), "4000 Hz"},
		"no samples":   {file(1, 2, 16000, 16, 2, 1), "a WAV file of no samples"},
		"too long":     {file(1, 1, 8000, 16, 0, make([]int16, 16001)...), "2 s are too long: at most 1 s are heard"},
	} {
		if err := m.Check(nil, [][]byte{c.data}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", name, err, c.want)
		}
	}
	if err := m.Check(nil, [][]byte{good}); err != nil {
		t.Error(err)
	}
}

// Channels are mixed, and other rates become 16 kHz without a change of what is heard.
func TestAnyRateBecomesTheSameSound(t *testing.T) {
	s, err := parse(file(1, 2, 16000, 16, 8, 1000, 3000, -32768, -32768))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.wave(); len(got) != 2 || got[0] != 2000./32768 || got[1] != -1 {
		t.Errorf("%v", got)
	}
	for _, hertz := range []int{8000, 11025, 22050, 44100, 48000} {
		samples := make([]int16, hertz)
		for i := range samples {
			samples[i] = int16(10000 * math.Sin(2*math.Pi*200*float64(i)/float64(hertz)))
		}
		s, err := parse(file(0xfffe, 1, hertz, 16, 0x7ffff000, samples...))
		if err != nil {
			t.Fatal(err)
		}
		wave := s.wave()
		if len(wave) != 16000 {
			t.Fatalf("%d samples of %d Hz", len(wave), hertz)
		}
		for i, got := range wave[:15900] {
			if want := 10000. / 32768 * math.Sin(2*math.Pi*200*float64(i)/16000); math.Abs(float64(got)-want) > 0.02 {
				t.Fatalf("%d Hz: sample %d is %v, expected %v", hertz, i, got, want)
			}
		}
	}
}

// python asks silero's model for each frame of a wave, by Python's ONNX Runtime.
const python = `import glob, importlib.util, json, os, sys
import numpy as np, onnxruntime
folder = importlib.util.find_spec("silero_vad").submodule_search_locations[0]
path = os.path.join(folder, "data", "silero_vad_16k_op15.onnx")
model = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
wave = np.frombuffer(sys.stdin.buffer.read(), np.float32)
wave = np.concatenate([wave, np.zeros(-len(wave) % 512, np.float32)])
state, before, heard = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), []
for frame in wave.reshape(-1, 512):
    output, state = model.run(["output", "stateN"], {"input": np.concatenate([before, frame])[None], "state": state, "sr": np.array(16000, np.int64)})
    before = frame[-64:]
    heard.append(float(output[0][0]))
library = glob.glob(os.path.dirname(importlib.util.find_spec("onnxruntime").origin) + "/capi/libonnxruntime.*")[0]
print(json.dumps({"model": path, "library": library, "heard": heard}))
`

// spoken is a WAV file of a sentence with a second of silence behind, and one of
// silence alone.
func spoken(t *testing.T) (speech, silence []byte) {
	t.Helper()
	if os.Getenv("AFTERBAY_PYTHON") == "" || exec.Command("espeak-ng", "--version").Run() != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has onnxruntime and silero-vad, or there is no espeak-ng")
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no interpreter that has onnxruntime and silero-vad, or there is no espeak-ng (make deps installs them)")
	}
	said, err := exec.CommandContext(t.Context(), "espeak-ng", "-v", "en-us+f3", "--stdout", "My payment failed, and I was charged twice for it.").Output()
	if err != nil {
		t.Fatal(err)
	}
	return append(said, make([]byte, 2*22050)...), file(1, 1, 22050, 16, 0, make([]int16, 22050)...)
}

// Each frame is heard as by Python, and speech is told from silence.
func TestSpeechIsHeardAsByPython(t *testing.T) {
	speech, silence := spoken(t)
	s, err := parse(speech)
	if err != nil {
		t.Fatal(err)
	}
	wave := s.wave()
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, wave); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Getenv("AFTERBAY_PYTHON"), "-c", python)
	command.Stdin = &raw
	printed, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Model, Library string
		Heard          []float64
	}
	if err := json.Unmarshal(printed, &said); err != nil {
		t.Fatal(err)
	}
	library, err := os.ReadFile(said.Library)
	if err != nil {
		t.Fatal(err)
	}
	session := onnx.SessionOptions{Worker: os.Args[0], Library: said.Library, LibraryDigest: fmt.Sprintf("%x", sha256.Sum256(library)), Processes: 1}
	m, err := Load(t.Context(), Options{Path: said.Model, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	heard, err := m.hear(t.Context(), wave)
	if err != nil || len(heard) != len(said.Heard) || len(heard) < 60 {
		t.Fatalf("%d frames, expected %d: %v", len(heard), len(said.Heard), err)
	}
	worst := 0.0
	for i, probability := range heard {
		worst = max(worst, math.Abs(float64(probability)-said.Heard[i]))
	}
	scores := make([]float32, 6)
	rows := model.Rows{BytesWidth: 1, Bytes: [][]byte{speech, silence, speech}}
	if err := m.Predict(t.Context(), rows, scores); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d frames, largest difference %g; %.2f s of %.2f s are speech, %.2f s of %.2f s", len(heard), worst, scores[0], scores[1], scores[2], scores[3])
	if worst > 1e-5 {
		t.Errorf("frames differ by %g", worst)
	}
	if scores[0] < 1 || scores[0] > scores[1]-0.8 || scores[2] != 0 || scores[3] != 1 || scores[4] != scores[0] || scores[5] != scores[1] {
		t.Errorf("%v", scores)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := m.Predict(ended, rows, scores); err == nil || errors.Is(err, calling.ErrTexts) {
		t.Errorf("%v", err)
	}
}

func FuzzSoundsNeverPanic(f *testing.F) {
	f.Add(file(1, 2, 44100, 16, 8, 1, 2, 3, 4))
	f.Add(file(1, 1, 8000, 16, 0xffffffff, 1, 2))
	m := &Model{seconds: 10, info: model.Info{Inputs: []model.Input{{Name: "audio"}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m.Check(nil, [][]byte{data}) != nil {
			return
		}
		s, err := parse(data)
		if err != nil {
			t.Fatalf("Check takes what cannot be read: %v", err)
		}
		for _, value := range s.wave() {
			if !(value >= -1 && value <= 1) {
				t.Fatalf("%v", value)
			}
		}
	})
}
