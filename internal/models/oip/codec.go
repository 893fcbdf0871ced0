package oip

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Codec passes gRPC messages unchanged: it sends a []byte and receives into a *[]byte. It panics
// for other types.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name implements encoding.CodecV2: the content is that of protobuf.
func (Codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
