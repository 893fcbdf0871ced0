package onnx

import "testing"

// Speech returns the model of voices, a wave, and what Python's ONNX Runtime says
// of each of its frames.
func Speech(t *testing.T) (m *Model, wave []byte, speech []float64) {
	silero := askPython(t).Silero
	return load(t, silero.File, onRuntime(t, sileroOptions)), silero.Wave, silero.Speech
}

// Kill ends the process of an idle model as a crash does.
func (m *Model) Kill() error { return m.session.slots[0].process.command.Process.Kill() }
