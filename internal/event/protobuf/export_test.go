package protobuf

import "google.golang.org/protobuf/reflect/protoreflect"

// Message returns the message type of a schema.
func Message(s *Schema) protoreflect.MessageDescriptor { return s.message }

// Of returns the schema of a message type.
func Of(message protoreflect.MessageDescriptor) *Schema { return &Schema{message} }
