// Package protobuf reads the fields that a pipeline names from Protobuf messages, and writes
// Protobuf messages.
package protobuf

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Limits of a schema.
const (
	SchemaMax = 1 << 20 // bytes of all its files
	filesMax  = 256
)

// Schema is the message type of records.
type Schema struct {
	message protoreflect.MessageDescriptor
}

// File is a .proto file with all its imports.
type File struct{ linker.File }

// Parse reads a .proto file. open opens files, including this one, by the names that the file and
// its imports use. The files of google/protobuf are built in. A file may be the base64 of a
// FileDescriptorProto, as clients of schema registries write it.
func Parse(file string, open func(name string) (io.ReadCloser, error)) (*File, error) {
	left, files := SchemaMax, 0
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(name string) (found protocompile.SearchResult, err error) {
		if files++; files > filesMax {
			return found, fmt.Errorf("the schema has more than %d files", filesMax)
		}
		f, err := open(name)
		if err != nil {
			return found, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, int64(left)+1))
		if err != nil {
			return found, err
		}
		if left -= len(text); left < 0 {
			return found, fmt.Errorf("the files of the schema have more than %d bytes", SchemaMax)
		}
		if of, err := base64.StdEncoding.DecodeString(string(text)); err == nil && len(of) > 0 {
			found.Proto, err = descriptorOf(of, name)
			return found, err
		}
		found.Source = bytes.NewReader(text)
		return found, nil
	})), MaxParallelism: 1}
	found, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return nil, err
	}
	return &File{found[0]}, nil
}

// descriptorOf reads a FileDescriptorProto and gives it a name. It adds JSON names, which the
// compiler requires and generated code leaves out.
func descriptorOf(encoded []byte, name string) (*descriptorpb.FileDescriptorProto, error) {
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(encoded, &file); err != nil {
		return nil, err
	}
	file.Name = &name
	for all := slices.Clone(file.MessageType); len(all) > 0; {
		for _, f := range all[0].Field {
			if f.JsonName == nil {
				f.JsonName = f.Name
			}
		}
		all = append(all[1:], all[0].NestedType...)
	}
	return &file, nil
}

// Named returns the message type with a full name, or the first of the file for "".
func (f *File) Named(message string) (*Schema, error) {
	return named(message, f.Messages(), func() protoreflect.Descriptor { return f.FindDescriptorByName(protoreflect.FullName(message)) })
}

// At returns the message type at an index: the number of a message of the file, then of a message
// declared inside it, and so on.
func (f *File) At(index ...int) (*Schema, error) {
	all := f.Messages()
	var of protoreflect.MessageDescriptor
	for _, i := range index {
		if i < 0 || i >= all.Len() {
			return nil, fmt.Errorf("the schema has no message at the index %v", index)
		}
		of = all.Get(i)
		all = of.Messages()
	}
	if of == nil {
		return nil, errors.New("the index of the message is empty")
	}
	return &Schema{of}, nil
}

// Index returns the index of the message type in its file, in the form that At takes.
func (s *Schema) Index() (index []int) {
	for of := protoreflect.Descriptor(s.message); of != nil; of = of.Parent() {
		if _, is := of.(protoreflect.MessageDescriptor); !is {
			break
		}
		index = append(index, of.Index())
	}
	slices.Reverse(index)
	return index
}

// Column reports whether a message has the JSON form of a key: an object with one text or whole
// number.
func (s *Schema) Column() bool {
	if s.message.Fields().Len() != 1 {
		return false
	}
	f := s.message.Fields().Get(0)
	t := targetOf(nil, f)
	return !f.IsList() && !f.IsMap() && (t.fits(value.Int) || t.fits(value.String) || t.fits(value.Bytes) || t.fits(value.Time))
}

// Uses returns the files that the file imports, except those of google/protobuf.
func (f *File) Uses() (names []string) {
	all := f.Imports()
	for i := range all.Len() {
		if name := all.Get(i).Path(); !strings.HasPrefix(name, "google/protobuf/") {
			names = append(names, name)
		}
	}
	return names
}

// ParseSet reads a FileDescriptorSet, as protoc --descriptor_set_out --include_imports writes it.
// message is the full name of the type; "" is the first of the last file.
func ParseSet(set []byte, message string) (*Schema, error) {
	if len(set) > SchemaMax {
		return nil, fmt.Errorf("the schema has %d bytes: at most %d", len(set), SchemaMax)
	}
	var all descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &all); err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(&all)
	if err != nil {
		return nil, err
	}
	if len(all.File) == 0 {
		return nil, errors.New("the set has no files")
	}
	last, err := files.FindFileByPath(all.File[len(all.File)-1].GetName())
	if err != nil {
		return nil, err
	}
	return named(message, last.Messages(), func() protoreflect.Descriptor {
		of, _ := files.FindDescriptorByName(protoreflect.FullName(message))
		return of
	})
}

// named returns the schema for a name, or for the first of the types if the name is empty.
func named(message string, all protoreflect.MessageDescriptors, find func() protoreflect.Descriptor) (*Schema, error) {
	if message == "" {
		if all.Len() == 0 {
			return nil, errors.New("the file has no message")
		}
		return &Schema{all.Get(0)}, nil
	}
	of, ok := find().(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("the schema has no message %q", message)
	}
	return &Schema{of}, nil
}
