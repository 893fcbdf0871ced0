package compile

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// openEncoders opens the schemas of outputs, and compares them with what emits write.
func (o *opening) openEncoders(b *bound) {
	o.encoders, o.schemas = map[int]encode.Encoder{}, map[string]string{}
	for _, of := range b.Outputs.Formats {
		if of.Format == (lang.OutputFormat{}) {
			continue
		}
		made, err := openOutput(of.Format)
		if err != nil {
			o.Fail(of.Path, "%v", err)
			continue
		}
		if len(b.Errs) > 0 {
			continue // a value that is wrong would be missing here
		}
		encoder, err := made.Encoder(writtenFields(of.Emit))
		if err != nil {
			o.Fail(of.Path, "%v", err)
			o.Hint("the values of the emit are the fields of the schema, with types that fit")
			continue
		}
		o.encoders[of.Emit.Index], o.schemas[of.Emit.Topic] = encoder, made.digest
	}
}

// outputFormat is the format of an output.
type outputFormat struct {
	encode.Format
	digest string // of its schema
}

func openOutput(of lang.OutputFormat) (made outputFormat, err error) {
	switch {
	case of.Avro != "" && of.Protobuf.File != "":
		return made, errOneFormat
	case of.Avro != "":
		schema, digest, err := openAvro(of.Avro)
		return outputFormat{schema, digest}, err
	default:
		schema, digest, err := openProtobuf(of.Protobuf)
		return outputFormat{schema, digest}, err
	}
}

// writtenFields returns what an emit writes.
func writtenFields(e *operator.Emit) (fields []encode.Field) {
	for i, path := range e.Members {
		fields = append(fields, encode.Field{Path: path, Slot: e.Values[i]})
	}
	return fields
}

// checkEncoded refuses formats where the records of a topic have to be JSON.
func checkEncoded(b *bound, found *lang.Findings) {
	for i, of := range b.Outputs.Formats {
		topic := of.Emit.Topic
		again := func(f lang.Formatted) bool { return f.Emit.Topic == topic }
		if of.Format == (lang.OutputFormat{}) || slices.ContainsFunc(b.Outputs.Formats[:i], again) {
			continue
		}
		if at := slices.Index(b.Pipeline.Replies, topic); at >= 0 {
			found.Fail(fmt.Sprintf("replies[%d]", at), "%q is written with a format, and clients get JSON", topic)
			found.Hint("write what clients get to a topic of its own, without a format")
		}
		if slices.ContainsFunc(b.Tables, func(t table.Spec) bool { return t.Topic == topic }) {
			found.Fail(of.Path, "a lookup reads the rows of %q, and rows are JSON", topic)
			found.Hint("write the rows to a topic of their own, without a format")
		}
	}
}
