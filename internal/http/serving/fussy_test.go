package serving_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/model"
)

// fussy is spam that fails over any call with a text that is "bad", and over
// every one where it is down.
type fussy struct {
	spam
	down  bool
	calls atomic.Int64
}

func (f *fussy) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	f.calls.Add(1)
	for _, text := range rows.Bytes {
		if f.down || bytes.Equal(text, []byte("bad")) {
			return errors.New("out of words")
		}
	}
	return f.spam.Predict(ctx, rows, scores)
}

// A record that the model fails over costs its own answer, wherever it stands.
func TestRecordThatTheModelFailsOverCostsNoOther(t *testing.T) {
	for _, c := range []struct {
		down bool
		bad  map[int]bool
	}{
		{bad: map[int]bool{0: true}}, {bad: map[int]bool{31: true}}, {bad: map[int]bool{99: true}},
		{bad: map[int]bool{3: true, 4: true, 77: true}}, {down: true},
	} {
		m := &fussy{down: c.down}
		url := start(t, []serving.Named{{Name: "fussy", Version: "1", Model: m}}, serving.ServerOptions{})
		var body strings.Builder
		for i := range 100 {
			text := fmt.Sprint("good", i)
			if c.bad[i] {
				text = "bad"
			}
			fmt.Fprintf(&body, "{\"text\":%q}\n", text)
		}
		lines := stream(t, url+"/v1/models/fussy:predict-stream", ndjson, body.String())
		if len(lines) != 101 {
			t.Fatalf("%d lines", len(lines))
		}
		for i, line := range lines[:100] {
			failed := strings.Contains(line, `"model_failed"`) && strings.Contains(line, "out of words")
			if failed != (c.down || c.bad[i]) || !failed && !strings.Contains(line, "[1,0]") || !strings.Contains(line, fmt.Sprint(i)) {
				t.Errorf("bad %v: record %d: %s", c.bad, i, line)
			}
		}
		if n := m.calls.Load(); len(c.bad) == 1 && n > 14 {
			t.Errorf("%d calls to find one bad record", n)
		}
	}
}
