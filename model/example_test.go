package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/model"
)

// service is what a manifest says of a model that a program answers for.
type service struct {
	Command string `field:"command" required:"true" help:"the program" example:"translate" affects:"outputs"`
}

// Check implements model.Config.
func (s *service) Check(*model.Manifest) []error { return nil }

// Open implements model.Config. The program does not run yet.
func (s *service) Open(context.Context, *model.Manifest) (model.Model, error) {
	return &translator{}, nil
}

// Describe implements model.Config.
func (s *service) Describe() string { return s.Command }

// Program implements model.Program.
func (s *service) Program() string { return s.Command }

// translator answers texts with texts.
type translator struct{ runs bool }

// Connect implements model.Connector.
func (t *translator) Connect(context.Context) error {
	t.runs = true
	return nil
}

// Ready implements model.Readier.
func (t *translator) Ready(context.Context) error {
	if !t.runs {
		return model.ErrAway
	}
	return nil
}

// Info implements model.Model.
func (t *translator) Info() model.Info {
	return model.Info{
		Kind:    "service",
		Inputs:  []model.Input{{Name: "text", Type: model.String}},
		Outputs: []model.Output{{Name: "loud", Type: model.String}},
	}
}

// Check implements model.Model.
func (t *translator) Check(_ []float64, texts [][]byte) error {
	if texts[0] == nil {
		return &model.InputError{Name: "text", Err: errors.New("it is missing")}
	}
	return nil
}

// Predict implements model.Model.
func (t *translator) Predict(context.Context, model.Rows, []float32) error {
	return errors.New("its output is a text")
}

// Answer implements model.Answerer.
func (t *translator) Answer(ctx context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	for i := range rows.Len() {
		_, row := rows.Row(i)
		texts[i] = bytes.ToUpper(row[0])
		if part := model.CallOf(ctx).Part; part != nil {
			part(i, string(texts[i]))
		}
	}
	return nil
}

// A kind of models that run in a program and answer with texts.
func Example() {
	kind := model.Kind{
		Name: "service", Help: "a program that translates", Example: "{command: translate}", NoFile: true,
		New: func() model.Config { return &service{} },
	}
	config := kind.New()
	config.(*service).Command = "translate"
	fmt.Println("it would run", config.(model.Program).Program())
	m, err := config.Open(context.Background(), &model.Manifest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready:", m.(model.Readier).Ready(context.Background()))
	if err := m.(model.Connector).Connect(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	texts := make([][]byte, 1)
	rows := model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte("hello")}}
	err = m.(model.Answerer).Answer(context.Background(), rows, nil, texts)
	fmt.Printf("%s %v\n", texts, err)
	// Output:
	// it would run translate
	// ready: the server or program of the model cannot be reached
	// [HELLO] <nil>
}
