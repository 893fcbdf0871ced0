package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// openEncoders opens the schemas of outputs, and compares them with the fields that emits write.
func (o *opening) openEncoders(b *bound) {
	o.encoders, o.schemas, o.shown = map[int]encode.Encoder{}, map[string]string{}, map[string]outputFormat{}
	for _, of := range b.Outputs.Formats {
		if of.Format == (lang.OutputFormat{}) {
			continue
		}
		made, err := o.openOutput(of)
		if err != nil {
			o.Fail(of.Path, "%v", err)
			continue
		}
		if len(b.Errs) > 0 {
			continue // a value with an error would be missing here
		}
		encoder, err := made.Encoder(writtenFields(of.Emit))
		if err != nil {
			o.Fail(of.Path, "%v", err)
			o.Hint("emit the fields of the schema, with types that fit")
			continue
		}
		if made.output != nil {
			encoder = made.output.Encoder(encoder)
		}
		o.encoders[of.Emit.Index], o.schemas[of.Emit.Topic] = encoder, made.digest
		o.shown[of.Emit.Topic] = made
	}
}

// outputFormat is the format of an output.
type outputFormat struct {
	encode.Format
	digest string // digest of its schema
	output *registry.Output
}

// shower converts a record to JSON for display.
type shower interface {
	AppendJSON(dst, record []byte) ([]byte, error)
}

// Shown returns the value of an output, an event or the event of a dead letter as JSON for display.
// It returns a value unchanged if the file names no schema for it, or if the value does not match
// the schema.
func (c *Compiled) Shown(topic string, record []byte) []byte {
	if topic == c.Plan.DeadTopic && len(c.Inputs()) == 1 {
		topic = c.Input()
	}
	data, schema := record, any(c.open.formats[topic].Format)
	if of, ok := c.open.shown[topic]; ok {
		schema = of.Format
		if of.output != nil {
			data = of.output.Data(record)
		}
	}
	if schema, ok := schema.(shower); ok && len(record) > 0 {
		if text, err := schema.AppendJSON(nil, data); err == nil {
			return text
		}
	}
	return record
}

func (o *opening) openOutput(of lang.Formatted) (made outputFormat, err error) {
	f := of.Format
	switch {
	case f.Kinds() > 1:
		return made, errOneFormat
	case f.Register && !f.Registry:
		return made, errors.New("register has no effect without a registry: write schema_registry: true beside it")
	case f.Kinds() == 0:
		return made, errors.New("schema_registry needs a schema: name its file, {avro: <file>, schema_registry: true}, or that of protobuf or json_schema")
	case f.JSONSchema != "" && !f.Registry:
		return made, errors.New("json_schema needs a registry: write schema_registry: true beside it, or format: json")
	}
	var written registry.Written
	switch {
	case f.Avro != "":
		made.Format, written.Text, err = openAvro(f.Avro)
		written.Type, made.digest = registry.Avro, generation.Hash(written.Text)
	case f.JSONSchema != "":
		made.Format, written.Text, err = openJSONSchema(f.JSONSchema)
		written.Type, made.digest = registry.JSON, generation.Hash(written.Text)
	default:
		var read openedProtobuf
		read, err = openProtobuf(f.Protobuf)
		made.Format, made.digest = read.Schema, read.digest
		if err == nil && f.Registry {
			written, err = read.written(f.Protobuf.File)
		}
	}
	if err == nil && f.Registry {
		made.output, err = o.registered(of, written)
	}
	return made, err
}

// registered returns the schema of a topic in the registry. All emits of the topic share it.
func (o *opening) registered(of lang.Formatted, written registry.Written) (*registry.Output, error) {
	topic := of.Emit.Topic
	for _, r := range o.registrations {
		if r.topic == topic {
			return r.Output, nil
		}
	}
	if _, err := o.openRegistry(); err != nil {
		return nil, err
	}
	made := registration{of.Path, topic, o.registry.Output(topic, written, of.Format.Register)}
	o.registrations = append(o.registrations, made)
	return made.Output, nil
}

// registration is a schema of outputs that is, or will be, in the schema registry.
type registration struct {
	path  string // path of the format in the file
	topic string
	*registry.Output
}

// writtenFields returns the fields that an emit writes.
func writtenFields(e *operator.Emit) (fields []encode.Field) {
	for i, path := range e.Members {
		fields = append(fields, encode.Field{Path: path, Slot: e.Values[i]})
	}
	return fields
}

// encodedTopics returns the topics that an emit writes with a format, sorted.
func encodedTopics(o *lang.Outputs) (topics []string) {
	for _, of := range o.Formats {
		if of.Format != (lang.OutputFormat{}) {
			topics = append(topics, of.Emit.Topic)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// checkEncoded reports formats for topics that need JSON records. It warns of functions that write
// a topic with a format.
func checkEncoded(b *bound, found *lang.Findings) {
	encoded := encodedTopics(&b.Outputs)
	for s := range lang.EachStep(b.Pipeline.Steps) {
		for _, write := range s.Effect().Writes {
			if !write.Emit && slices.Contains(encoded, write.Topic) {
				found.Warnings = append(found.Warnings, fmt.Sprintf("steps: a function writes %q too, and the engine writes its values unchanged: the function must encode them in the format of the emits", write.Topic))
			}
		}
	}
	for i, of := range b.Outputs.Formats {
		topic := of.Emit.Topic
		again := func(f lang.Formatted) bool { return f.Emit.Topic == topic }
		if of.Format == (lang.OutputFormat{}) || slices.ContainsFunc(b.Outputs.Formats[:i], again) {
			continue
		}
		if at := slices.Index(b.Pipeline.Replies, topic); at >= 0 {
			found.Fail(fmt.Sprintf("replies[%d]", at), "%q is written with a format, and clients get JSON", topic)
			found.Hint("write replies for clients to a separate topic, without a format")
		}
		if slices.ContainsFunc(b.Tables, func(t table.Spec) bool { return t.Topic == topic }) {
			found.Fail(of.Path, "a lookup reads the rows of %q, and rows are JSON", topic)
			found.Hint("write the rows to a separate topic, without a format")
		}
	}
}
