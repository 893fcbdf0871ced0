package lang

import (
	"path/filepath"

	"github.com/afterbay/afterbay/internal/spec"
)

// OutputFormat is how the records of an emit are written. The zero value is JSON.
type OutputFormat struct {
	Avro     string // the file of the schema
	Protobuf Protobuf
}

// ReadOutputFormat reads how the records of an emit are written.
var ReadOutputFormat = spec.OneOf("write json, {avro: <file>} or {protobuf: {file: <file>, message: <name>}}",
	spec.Scalar, spec.Form[OutputFormat]{Read: readJSONFormat, Print: func(*spec.Printer, string, *OutputFormat) {}, Shape: spec.Choice[string]("json").Shape}, spec.Mapping, spec.MappingOf(outputFormatFields))

// readJSONFormat reads the name of the format that there is without one.
func readJSONFormat(r *spec.Reader, n *spec.Node, path string, _ *OutputFormat) {
	var name string
	spec.Choice[string]("json").Read(r, n, path, &name)
}

var outputFormatFields = []spec.Field[OutputFormat]{
	{Name: "avro", Affects: spec.Outputs, Form: spec.Into(func(f *OutputFormat) *string { return &f.Avro }, readSchemaFile), Example: "decision.avsc", Absent: "another format",
		Help: "the file of the schema. Each value is a field of the schema, with a type that fits. Fields of the schema that are not emitted have to be unions with null. The record has no prefix of a registry"},
	{Name: "protobuf", Affects: spec.Outputs, Form: spec.Into(func(f *OutputFormat) *Protobuf { return &f.Protobuf }, spec.MappingOf(writtenProtobufFields)), Example: "{file: shop.proto, message: shop.Decision}", Absent: "another format",
		Help: "the message type. Each value is a field of the message, with a type that fits. The record has no prefix of a registry"},
}

// readSchemaFile reads the path of a schema. A fingerprint has the name of the file, and the digest of the schema.
var readSchemaFile = spec.Form[string]{Read: spec.ReadPath.Read, Shape: spec.ReadPath.Shape, Print: func(p *spec.Printer, path string, file *string) {
	if *file != "" {
		p.Line(path, filepath.Base(*file))
	}
}}

var writtenProtobufFields = []spec.Field[Protobuf]{
	{Name: "file", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Protobuf) *string { return &p.File }, readSchemaFile), Example: "shop.proto", Help: protobufFields[0].Help},
	{Name: "message", Affects: spec.Outputs, Form: spec.Into(func(p *Protobuf) *string { return &p.Message }, spec.ReadName), Example: "shop.Decision", Absent: "the first message of the file", Help: "the full name of the message type"},
}
