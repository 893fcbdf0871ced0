package models

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// far is a model outside of the process: it scores a row as its number, as near
// as the noise, and keeps the largest call.
type far struct {
	noise  float32 // relatively, of a call by the number of its rows
	most   int
	calls  int
	closed int
}

func (f *far) Info() model.Info {
	return model.Info{Kind: "remote", Remote: true, Inputs: []model.Input{{Name: "n", Type: model.Number}}, Outputs: []model.Output{{Name: "score", Size: 1}}}
}
func (f *far) Check([]float64, [][]byte) error { return nil }
func (f *far) Close() error                    { f.closed++; return nil }

func (f *far) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	f.most, f.calls = max(f.most, rows.Len()), f.calls+1
	for i, value := range rows.Values {
		scores[i] = float32(value) * (1 + f.noise*float32(rows.Len()))
	}
	return nil
}

// opens is a kind whose models a function opens.
func opens(open func() (model.Model, error)) Opening {
	return Opening{Kinds: []model.Kind{{Name: "remote", New: func() model.Config { return config{open: open} }}}}
}

type config struct {
	wrong error
	open  func() (model.Model, error)
}

func (c config) Check(*model.Manifest) []error {
	if c.wrong != nil {
		return []error{c.wrong}
	}
	return nil
}
func (c config) Open(context.Context, *model.Manifest) (model.Model, error) { return c.open() }
func (c config) Describe() string                                           { return "" }

func farManifest(t *testing.T) *model.Manifest {
	t.Helper()
	m := &model.Manifest{
		Name: "far", Version: 1, Kind: "remote", Golden: filepath.Join(t.TempDir(), "golden.csv"),
		Inputs: []model.ManifestInput{{Name: "n"}}, Outputs: []model.Output{{Name: "score", Size: 1}}, Limits: model.Limits{Rows: 16},
	}
	var golden strings.Builder
	golden.WriteString("n,prediction\n")
	for i := range 200 {
		fmt.Fprintf(&golden, "%d,%d\n", i, i)
	}
	rewrite(t, m.Golden, golden.String())
	return m
}

// picky fails rows by themselves: those above 100.
type picky struct{ far }

func (p *picky) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	var failed model.RowErrors
	for i, value := range rows.Values {
		if value > 100 {
			failed = append(failed, model.RowError{Row: i, Err: fmt.Errorf("%v is too much", value)})
		}
	}
	if err := p.far.Predict(ctx, rows, scores); err != nil || failed == nil {
		return err
	}
	return failed
}

func TestRowsThatFailKeepTheirNumberInBoundedCalls(t *testing.T) {
	manifest := farManifest(t)
	manifest.Golden = ""
	m, _, err := Verified(t.Context(), manifest, opens(func() (model.Model, error) { return &picky{}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	values, scores := make([]float64, 40), make([]float32, 40)
	for i := range values {
		values[i] = float64(i)
	}
	values[20], values[39] = 101, 102
	err = m.Predict(t.Context(), model.Rows{Width: 1, Values: values}, scores)
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 2 || failed[0].Row != 20 || failed[1].Row != 39 {
		t.Fatalf("%v", err)
	}
	if scores[38] != 38 || err.Error() != "101 is too much, and 1 more" {
		t.Errorf("%v, %v", scores, err)
	}
}

func TestModelsOutsideAreVerifiedToAToleranceInBoundedCalls(t *testing.T) {
	for _, c := range []struct {
		noise float32
		right bool
	}{{0, true}, {1e-7, true}, {1e-5, false}} {
		f := &far{noise: c.noise}
		m, report, err := Verified(t.Context(), farManifest(t), opens(func() (model.Model, error) { return f, nil }))
		if (err == nil) != c.right || f.most != 16 {
			t.Fatalf("noise %v: %v, calls of %d rows at most", c.noise, err, f.most)
		}
		if !c.right {
			if f.closed != 1 {
				t.Errorf("noise %v: closed %d times", c.noise, f.closed)
			}
			continue
		}
		if report.Rows != 200 || f.calls > 400 {
			t.Errorf("%+v by %d calls", report, f.calls)
		}
		if Close(m); f.closed != 1 {
			t.Errorf("closed %d times", f.closed)
		}
	}
	wrong := farManifest(t)
	rewrite(t, wrong.Golden, "n,prediction\n100,100.0009\n200,200.003\n")
	_, _, err := Verified(t.Context(), wrong, opens(func() (model.Model, error) { return &far{}, nil }))
	if err == nil || !strings.Contains(err.Error(), "row 2 of golden.csv: prediction is 200, expected 200.003") {
		t.Errorf("1.5e-5 from what is expected: %v", err)
	}
}

func TestManifestSaysWhyAModelOutsideIsNotUsable(t *testing.T) {
	fails := opens(func() (model.Model, error) { return nil, errors.New("nobody there") })
	for want, change := range map[string]func(m *model.Manifest) Opening{
		"kind: this program cannot open models of kind remote": func(*model.Manifest) Opening { return Opening{} },
		"remote: nobody there":                                 func(*model.Manifest) Opening { return fails },
		"remote.where: it is nowhere (look again)": func(m *model.Manifest) Opening {
			m.Config = config{wrong: &model.Mistake{Field: "where", Hint: "look again", Err: errors.New("it is nowhere")}}
			return fails
		},
		"file: stat none": func(m *model.Manifest) Opening { m.File = "none"; return fails },
	} {
		m := farManifest(t)
		kinds := change(m)
		if _, _, err := Verified(t.Context(), m, kinds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// away is a model with a server that is not reachable yet.
type away struct {
	far
	there bool
}

func (a *away) Connect(context.Context) error {
	if !a.there {
		return fmt.Errorf("connect: %w", model.ErrAway)
	}
	return nil
}

func (a *away) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if err := a.Connect(ctx); err != nil {
		return err
	}
	return a.far.Predict(ctx, rows, scores)
}

// TestModelsThatAreAwayAreVerifiedAtTheirFirstCall starts with a model that cannot
// score its golden vectors yet, and with another one that has other scores.
func TestModelsThatAreAwayAreVerifiedAtTheirFirstCall(t *testing.T) {
	manifest := farManifest(t)
	var a *away
	kinds := opens(func() (model.Model, error) { return a, nil })
	a = &away{}
	if _, _, err := Verified(t.Context(), manifest, kinds); !errors.Is(err, model.ErrAway) {
		t.Errorf("verified without being asked: %v", err)
	}
	for _, noise := range []float32{0, 1e-5} {
		a = &away{far: far{noise: noise}}
		m, report, err := Started(t.Context(), manifest, kinds)
		if err != nil || !errors.Is(report.Away, model.ErrAway) {
			t.Fatalf("%v, %+v", err, report)
		}
		rows, scores := model.Rows{Width: 1, Values: []float64{7}}, make([]float32, 1)
		if err := m.Predict(t.Context(), rows, scores); !errors.Is(err, model.ErrAway) || calling.BlameOf(err) != model.BlameWay {
			t.Errorf("scored while it is away: %v", err)
		}
		a.there = true
		switch err := m.Predict(t.Context(), rows, scores); {
		case noise == 0:
			if err != nil || scores[0] != 7 || a.calls < 100 {
				t.Errorf("%v, %v after %d calls", scores, err, a.calls)
			}
			if calls := a.calls; m.Predict(t.Context(), rows, scores) != nil || a.calls != calls+1 {
				t.Errorf("verified again by %d calls", a.calls-calls)
			}
		case err == nil || calling.BlameOf(err) != model.BlameWay || !strings.Contains(err.Error(), "not the model of its manifest"):
			t.Errorf("another model is used: %v", err)
		}
		if Close(m); a.closed != 1 {
			t.Errorf("closed %d times", a.closed)
		}
	}
}
