package compile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/csv"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/jsonschema"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/table"
)

// openFormats reads the schemas of inputs.
func (o *opening) openFormats() {
	o.formats = map[string]format{}
	for path, in := range o.Pipeline.EachInput() {
		var made format
		var err error
		switch at := path + ".format"; {
		case in.Format.Name == lang.FormatRegistry:
			path = "schema_registry"
			made, err = o.openRegistry()
		case in.Format.Kinds() > 1:
			o.Fail(at, "%v", errOneFormat)
			continue
		case in.Format.Name == lang.FormatText:
			made.Format = decode.Text{}
		case in.Format.Name == lang.FormatRaw:
			made.Format = decode.Raw{}
		case in.Format.Name == lang.FormatCSV || in.Format.CSV != nil:
			path = at + ".csv"
			dialect := cmp.Or(in.Format.CSV, &lang.CSV{})
			made.Format, err = csv.New(dialect.Delimiter, dialect.Quote, dialect.Columns)
		case in.Format.Avro != "":
			path = at + ".avro"
			made, err = avroFormat(in.Format.Avro)
		case in.Format.Protobuf.File != "":
			path = at + ".protobuf"
			made, err = protobufFormat(in.Format.Protobuf)
		default:
			continue
		}
		if err != nil {
			o.Fail(path, "%v", err)
			continue
		}
		o.formats[in.Topic] = made
	}
}

var errOneFormat = errors.New("records have one format: remove all but one of them")

// openRegistry opens the schema registry for all inputs and outputs. It sends no request yet.
func (o *opening) openRegistry() (format, error) {
	if o.registry == nil {
		of := o.Pipeline.Registry
		if of.URL == "" {
			return format{}, errors.New("missing: a format reads or writes by a registry. Write schema_registry: https://HOST:PORT")
		}
		made, err := registry.New(registry.Options{URL: of.URL, User: of.User, Password: of.Password, Token: of.Token, TokenFile: of.TokenFile})
		if err != nil {
			return format{}, err
		}
		o.registry = made
	}
	return format{Format: o.registry}, nil
}

// openTables sets up tables that read rows with the schema registry or with schemas of files. These
// schemas must have the fields.
func (o *opening) openTables(b *bound) {
	for _, of := range b.Rows {
		spec, at := &b.Tables[of.Table], of.Path+".format"
		var made format
		var err error
		switch f := &of.Format; {
		case f.IsJSON():
			continue
		case f.Kinds() > 1:
			err = errOneFormat
		case f.Name == lang.FormatRegistry:
			if _, err = o.openRegistry(); err == nil {
				spec.Schemas = o.registry
				continue
			}
			at = "schema_registry"
		case f.Avro != "":
			made, err = avroFormat(f.Avro)
		case f.Protobuf.File != "":
			made, err = protobufFormat(f.Protobuf)
		}
		if err != nil {
			o.Fail(at, "%v", err)
			continue
		}
		spec.Schema, spec.Digest, o.Pinned[at] = made.Format.(table.Schema), made.digest, made.digest
		if of.Format.Protobuf.File != "" && spec.Envelope != envelope.None {
			continue // its fields have no paths
		}
		fits := func(fields []decode.Field) error {
			_, err := made.Decoder(fields)
			return err
		}
		if err := spec.Envelope.FitsRows(of.Fields, fits); err != nil {
			o.Fail(of.Path+".fields", "%v", err)
			o.Hint(rowHint)
		}
	}
}

func avroFormat(file string) (made format, err error) {
	schema, text, err := openAvro(file)
	return format{schema, generation.Hash(text)}, err
}

func protobufFormat(of lang.Protobuf) (made format, err error) {
	read, err := openProtobuf(of)
	return format{read.Schema, read.digest}, err
}

// openAvro reads a schema from a file, and returns it with its text.
func openAvro(file string) (schema *avro.Schema, text string, err error) {
	data, err := spec.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	if schema, err = avro.Parse(string(data)); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return schema, string(data), nil
}

// openJSONSchema reads a schema from a file, and returns it with its text.
func openJSONSchema(file string) (schema *jsonschema.Schema, text string, err error) {
	data, err := spec.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	if schema, err = jsonschema.Parse(string(data)); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return schema, string(data), nil
}

// openedProtobuf is a message type from a file.
type openedProtobuf struct {
	*protobuf.Schema
	digest  string // digest of all its files
	text    string // text of the file; "" for a FileDescriptorSet
	imports []string
}

// written returns the schema in the form of a registry.
func (o *openedProtobuf) written(file string) (w registry.Written, err error) {
	switch {
	case o.text == "":
		return w, fmt.Errorf("%s is not the text of a schema, and a registry needs the text: name the .proto file", file)
	case len(o.imports) > 0:
		return w, fmt.Errorf("%s imports %s, and with schema_registry a schema is one file: copy the imported messages into it. Imports of google/protobuf may stay", file, strings.Join(o.imports, ", "))
	}
	return registry.Written{Type: registry.Protobuf, Text: o.text, Index: o.Index()}, nil
}

func openProtobuf(of lang.Protobuf) (made openedProtobuf, err error) {
	if filepath.Ext(of.File) != ".proto" {
		set, err := spec.ReadFile(of.File)
		if err != nil {
			return made, err
		}
		if made.Schema, err = protobuf.ParseSet(set, of.Message); err != nil {
			return made, fmt.Errorf("%s: %w", of.File, err)
		}
		made.digest = generation.Hash(string(set))
		return made, nil
	}
	var all []string // its files, one after the other
	root := filepath.Base(of.File)
	read, err := protobuf.Parse(root, func(name string) (io.ReadCloser, error) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s is not below the folder of %s", name, of.File)
		}
		text, err := spec.ReadFile(filepath.Join(filepath.Dir(of.File), name))
		all = append(all, name+"\n"+string(text))
		if name == root {
			made.text = string(text)
		}
		return io.NopCloser(bytes.NewReader(text)), err
	})
	if err == nil {
		made.imports = read.Uses()
		made.Schema, err = read.Named(of.Message)
	}
	if err != nil {
		return made, fmt.Errorf("%s: %w", of.File, err)
	}
	slices.Sort(all)
	made.digest = generation.Hash(strings.Join(all, "\n"))
	return made, nil
}
