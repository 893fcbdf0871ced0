package compile

import (
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task"
)

// format is the format of an input that is not JSON.
type format struct {
	decode.Format
	digest string // of its schema
}

// checkFormats sees that each schema has the fields of its input.
func checkFormats(b *bound, formats map[string]format, found *lang.Findings) {
	inputs := []task.Input{b.read.Input}
	if b.read.Sources != nil {
		inputs = nil
		for _, from := range b.read.copies {
			inputs = append(inputs, from.Input)
		}
	}
	for i, in := range inputs {
		f, ok := formats[in.Topic]
		if !ok {
			continue
		}
		if _, err := f.Decoder(in.Fields); err != nil {
			path := "input"
			if len(b.Pipeline.Inputs) > 0 {
				path = lang.InputPath(i)
			}
			found.Fail(path+".fields", "%v", err)
			found.Hint("a field is as the schema in " + path + ".format has it")
		}
	}
}

// formatted gives a plan the formats of what it reads.
func (o *opened) formatted(in task.Input) task.Input {
	in.Format = o.formats[in.Topic].Format
	sources := in.Sources
	in.Sources = nil
	for _, s := range sources {
		s.Format = o.formats[s.Topic].Format
		in.Sources = append(in.Sources, s)
	}
	return in
}
