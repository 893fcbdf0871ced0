package remote

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
)

// TestModelIsOpenedWhileItsServerIsAway asks before and after the server starts. Its
// metadata is compared before the first rows are scored.
func TestModelIsOpenedWhileItsServerIsAway(t *testing.T) {
	for name, form := range forms {
		at := fmt.Sprint("127.0.0.1:", servertest.FreePorts(t, 1)[0])
		m, err := Open(form.at(at, "described"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		other := form.at(at, "described")
		other.Inputs = []model.Input{{Name: "a", Type: model.Number}, {Name: "c", Type: model.Number}}
		wrong, err := Open(other)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { wrong.Close() })
		if err := m.Check([]float64{1, 2.5}, nil); err != nil || m.Info().Scores() != 1 {
			t.Errorf("%s: %v, %+v", name, err, m.Info())
		}
		_, err = predict(m, 1, 2)
		if wantFault(t, err, Unreachable); !errors.Is(err, model.ErrAway) {
			t.Errorf("%s: %v is not that it is away", name, err)
		}
		startFakeAt(t, at)
		deadline := time.Now().Add(5 * time.Minute)
		scores, err := predict(m, 1, 2)
		for ; err != nil && time.Now().Before(deadline); scores, err = predict(m, 1, 2) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil || scores[0] != 3 {
			t.Errorf("%s: %v, %v", name, scores, err)
		}
		_, err = predict(m, 1, 2.5)
		wantFault(t, err, Refused, `"b": 2.5 is not an integer`)
		_, err = predict(wrong, 1, 2)
		for ; errors.Is(err, model.ErrAway) && time.Now().Before(deadline); _, err = predict(wrong, 1, 2) {
			time.Sleep(10 * time.Millisecond)
		}
		if wantFault(t, err, Denied, "another model", `"c"`); calling.BlameOf(err) != model.BlameWay {
			t.Errorf("%s: %v blames the rows", name, err)
		}
	}
}

// TestModelThatNobodyAsksNeedsItsOutputs opens one that only its server knows.
func TestModelThatNobodyAsksNeedsItsOutputs(t *testing.T) {
	o := forms["grpc"].at("127.0.0.1:1", "sum")
	o.Outputs = nil
	if _, err := Open(o); err == nil {
		t.Error("it has no outputs")
	}
}
