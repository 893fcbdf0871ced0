package protobuf

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// AppendJSON appends a message as JSON, all of it, for people. Fields have the names of the schema, and
// those that the message does not set are left out.
func (s *Schema) AppendJSON(dst, message []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(s.message)
	if err := proto.Unmarshal(message, m); err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	made := bytes.NewBuffer(dst)
	if err := json.Compact(made, text); err != nil { // protojson adds spaces at random
		return nil, err
	}
	return made.Bytes(), nil
}
