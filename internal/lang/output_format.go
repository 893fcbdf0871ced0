package lang

import (
	"path/filepath"

	"github.com/afterbay/afterbay/internal/spec"
)

// OutputFormat is the encoding of an emit's records. The zero value is JSON.
type OutputFormat struct {
	Avro       string // the file of the schema
	Protobuf   Protobuf
	JSONSchema string // the file of the schema

	Registry bool // records begin with the id of the schema in Pipeline.Registry
	Register bool // register the schema if the subject does not have it
}

// Kinds returns how many kinds of schemas the format names.
func (f *OutputFormat) Kinds() (n int) {
	for _, there := range []bool{f.Avro != "", f.Protobuf.File != "", f.JSONSchema != ""} {
		if there {
			n++
		}
	}
	return n
}

// ReadOutputFormat reads the format of an emit's records.
var ReadOutputFormat = spec.OneOf("write json, {avro: <file>}, {protobuf: {file: <file>, message: <name>}} or {json_schema: <file>, schema_registry: true}",
	spec.Scalar, spec.Form[OutputFormat]{Read: readJSONFormat, Print: func(*spec.Printer, string, *OutputFormat) {}, Shape: spec.Choice[string]("json").Shape}, spec.Mapping, spec.MappingOf(outputFormatFields))

// readJSONFormat reads the word json, the default format.
func readJSONFormat(r *spec.Reader, n *spec.Node, path string, _ *OutputFormat) {
	var name string
	spec.Choice[string]("json").Read(r, n, path, &name)
}

var outputFormatFields = []spec.Field[OutputFormat]{
	{Name: "avro", Affects: spec.Outputs, Form: spec.Into(func(f *OutputFormat) *string { return &f.Avro }, ReadPinnedFile), Example: "decision.avsc", Absent: "another format",
		Help: "the file of the schema. Each value is a field of the schema, with a type that fits. Fields of the schema that are not emitted have to be unions with null"},
	{Name: "protobuf", Affects: spec.Outputs, Form: spec.Into(func(f *OutputFormat) *Protobuf { return &f.Protobuf }, spec.MappingOf(writtenProtobufFields)), Example: "{file: shop.proto, message: shop.Decision}", Absent: "another format",
		Help: "the message type. Each value is a field of the message, with a type that fits"},
	{Name: "json_schema", Affects: spec.Outputs, Form: spec.Into(func(f *OutputFormat) *string { return &f.JSONSchema }, ReadPinnedFile), Example: "decision.schema.json", Absent: "another format",
		Help: "with `schema_registry: true`: the file of a JSON Schema. Values are written as JSON. `lint` compares their names and types with `properties`, `type`, `required`, `additionalProperties` and `items` of the schema, and no other keywords"},
	{Name: "schema_registry", Affects: spec.Outputs, Form: spec.Into(func(f *OutputFormat) *bool { return &f.Registry }, spec.Switch()), Example: "true", Absent: "false",
		Help: "records begin with the id that the schema has in the `schema_registry` of the pipeline, in the subject `<topic>-value`. In Protobuf the index of the message type follows. The pipeline starts when the id is known"},
	{Name: "register", Affects: spec.Nothing, Form: spec.Into(func(f *OutputFormat) *bool { return &f.Register }, spec.Switch()), Example: "true", Absent: "a subject without the schema is an error",
		Help: "registers the schema, if the subject does not have it. The registry refuses one that is not compatible"},
}

// ReadPinnedFile reads the path of a file. Fingerprints contain the digest and the base name of the
// file.
var ReadPinnedFile = spec.Form[string]{Read: spec.ReadPath.Read, Shape: spec.ReadPath.Shape, Print: func(p *spec.Printer, path string, file *string) {
	if *file != "" {
		p.Line(path, filepath.Base(*file))
	}
}}

var writtenProtobufFields = []spec.Field[Protobuf]{
	{Name: "file", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Protobuf) *string { return &p.File }, ReadPinnedFile), Example: "shop.proto", Help: protobufFields[0].Help},
	{Name: "message", Affects: spec.Outputs, Form: spec.Into(func(p *Protobuf) *string { return &p.Message }, spec.ReadName), Example: "shop.Decision", Absent: "the first message of the file", Help: "the full name of the message type"},
}
