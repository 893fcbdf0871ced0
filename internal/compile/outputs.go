package compile

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/model"
)

// outputTypes returns the types that the file gives to the outputs of a model.
func (c *compiler) outputTypes(path string, outputs []lang.Field) (types []value.Type, ok bool) {
	before := len(c.Errs)
	for _, o := range outputs {
		t, err := value.ParseType(o.Type)
		switch {
		case err != nil:
			c.Fail(path+"."+o.Name, "%v", err)
		case t.Kind == value.String, t.Kind == value.Bytes:
		case t.Kind != value.Number && t.Kind != value.Vector:
			c.Fail(path+"."+o.Name, "type %q: the output of a model is a number, number[384], string or bytes", o.Type)
		case t.Optional:
			c.Fail(path+"."+o.Name, "type %q: scores are there, only a string or bytes may be absent", o.Type)
		}
		types = append(types, t)
	}
	return types, len(c.Errs) == before
}

// answersAs reports whether a model has as many scores and texts as the file says.
func (c *compiler) answersAs(path string, types []value.Type, info model.Info) bool {
	scores, texts := 0, 0
	for _, t := range types {
		if scores += columnsOfType(t); t.Kind == value.String || t.Kind == value.Bytes {
			texts++
		}
	}
	if n := info.Scores(); n != scores {
		c.Fail(path, "the model has %d outputs, %d are named", n, scores)
		c.Hint("name them in the model's order, those of classes by their number: {other: number, fraud: number}")
		return false
	}
	if n := info.Texts(); n != texts {
		c.Fail(path, "the model answers with %d texts, %d are named", n, texts)
		c.Hint("name them in the model's order: {text: string}")
		return false
	}
	return true
}

// columnsOfType returns how many scores an output of a type takes.
func columnsOfType(t value.Type) int {
	switch t.Kind {
	case value.Number:
		return 1
	case value.Vector:
		return t.Size
	}
	return 0
}
