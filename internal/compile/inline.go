package compile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// inline reports whether the pipeline itself says where a model is: on a server, or
// in a program.
func isInline(m *lang.Model) bool { return m.URL != "" || m.Process != nil }

// openInline opens a model that the pipeline itself describes, as the manifest that
// it could have. Its inputs are what the first score that uses it gives.
func (c *compiler) openInline(at string, s *lang.Score, m *lang.Model) (loadedModel, bool) {
	if c.rows || len(c.Errs) > 0 {
		return loadedModel{}, false
	}
	manifest := &model.Manifest{Name: m.Name, Version: m.Version, Inputs: c.inlineInputs(at, s)}
	for _, o := range m.Outputs {
		manifest.Outputs = append(manifest.Outputs, inlineOutput(o))
	}
	call := m.Call
	if call == nil {
		call = &lang.Calling{}
	}
	where := "models." + m.Name + ".url"
	if m.URL == "" {
		where = "models." + m.Name + ".process"
	}
	manifest.Dir = m.Dir
	c.inlineConfig(where, manifest, model.Inline{URL: m.URL, Command: m.Process, Version: m.Version, Timeout: c.timeout(call), Calls: call.Concurrency})
	if len(c.Errs) > 0 {
		return loadedModel{}, false
	}
	loaded, err := c.openManifest(where, manifest)
	var found models.Errors
	switch {
	case err == nil:
	case errors.As(err, &found):
		for _, e := range found {
			c.Errs = append(c.Errs, &spec.Problem{Path: where, Message: e.Message, Hint: e.Hint, Err: e.Err})
		}
		return loadedModel{}, false
	default:
		c.Fail(where, "%v", err)
		return loadedModel{}, false
	}
	return c.loaded("models."+m.Name, m, loaded)
}

// inlineConfig fills in the kind of a model: the newest that takes what the pipeline says.
func (c *compiler) inlineConfig(where string, manifest *model.Manifest, said model.Inline) {
	for _, kind := range slices.Backward(c.modelKinds()) {
		inliner, ok := kind.New().(model.Inliner)
		if !ok {
			continue
		}
		config, taken, err := inliner.Inline(said)
		switch {
		case err != nil:
			c.Fail(where, "%v", err)
			return
		case taken:
			manifest.Kind, manifest.Config = kind.Name, config
			return
		}
	}
	c.Fail(where, "no kind of models takes it")
}

// inlineInputs returns the inputs that a score gives, named as it names them.
func (c *compiler) inlineInputs(at string, s *lang.Score) (inputs []model.ManifestInput) {
	add := func(name string, given []lang.Given) {
		for _, g := range given {
			in := model.ManifestInput{Name: cmp.Or(name, strings.ReplaceAll(g.Slot.Name, ".", "_")), Type: model.Number}
			switch {
			case name == "" && g.Program != nil:
				c.Fail(g.Path, "an input that is an expression has no name for the model")
				c.Hint("name it: inputs: {name: " + g.Slot.Name + "}")
			case g.Slot.Type.Kind == value.String:
				in.Type = model.String
			case g.Slot.Type.Kind == value.Bytes, g.Slot.Type.Kind == value.Content:
				in.Type = model.Bytes
			case g.Slot.Type.Kind == value.Vector:
				in.Shape = []int{g.Slot.Type.Size}
			}
			inputs = append(inputs, in)
		}
	}
	for i, name := range s.Inputs {
		add("", c.Givens(fmt.Sprintf("%s.inputs[%d]", at, i), name))
	}
	for _, b := range s.ByName {
		list := c.Givens(at+".inputs."+b.Name, b.Expr)
		if len(list) > 1 {
			c.Fail(at+".inputs."+b.Name, "%q is %d values: an input is one", b.Expr, len(list))
		}
		add(b.Name, list)
	}
	return inputs
}

func inlineOutput(o lang.Field) model.Output {
	out := model.Output{Name: o.Name, Size: 1}
	switch t, _ := value.ParseType(o.Type); t.Kind {
	case value.String:
		out.Type = model.String
	case value.Bytes:
		out.Type = model.Bytes
	case value.Vector:
		out.Size = t.Size
	}
	return out
}
