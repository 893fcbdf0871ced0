package protobuf

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// Limits of the JSON of a message.
const (
	textMax  = 4 << 20 // bytes; fields that a message does not set are included
	depthMax = decode.MaxDepth
)

// AppendJSON appends a whole message as JSON. Fields have the names of the schema and the values
// that a Decoder reads. Integers are numbers, a Timestamp is a text of RFC 3339, and an enum is its
// name. A field without presence has its default; an unset field with presence is left out. Bytes
// are base64, and numbers that are not finite are null.
func (s *Schema) AppendJSON(dst, message []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(s.message)
	if !read(message, m) {
		return nil, &decode.Error{Reason: "no message " + string(s.message.FullName()) + " of Protobuf"}
	}
	t := texts{most: len(dst) + textMax}
	dst = t.message(dst, m)
	if t.reason == "" && len(dst) > t.most {
		t.reason = fmt.Sprintf("its JSON has more than %d bytes", textMax)
	}
	if t.reason != "" {
		return nil, &decode.Error{Reason: t.reason}
	}
	return dst, nil
}

// read reads a message, and reports only whether it is valid: the library's error texts differ
// between builds. read also handles a panic of the library. The library panics if the key of a map
// entry occurs twice, the second time with another wire type.
func read(message []byte, m proto.Message) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return proto.UnmarshalOptions{RecursionLimit: depthMax, AllowPartial: true}.Unmarshal(message, m) == nil
}

// texts writes messages as JSON, until there is a reason to stop.
type texts struct {
	most   int // limit of the output in bytes
	reason string
}

// message appends a message.
func (t *texts) message(dst []byte, m protoreflect.Message) []byte {
	switch name := m.Descriptor().FullName(); {
	case wrappers[name]:
		of := m.Descriptor().Fields().ByNumber(1)
		return t.one(dst, of, m.Get(of))
	case name == timestamp:
		return t.time(dst, m)
	case known[name]:
		return t.known(dst, m)
	}
	dst = append(dst, '{')
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) || t.reason != "" || len(dst) > t.most {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(quoted(dst, string(f.Name())), ':')
		switch v := m.Get(f); {
		case f.IsMap():
			dst = t.entries(dst, f, v.Map())
		case f.IsList():
			dst = t.list(dst, f, v.List())
		default:
			dst = t.one(dst, f, v)
		}
	}
	return append(dst, '}')
}

// list appends the elements of a field.
func (t *texts) list(dst []byte, f protoreflect.FieldDescriptor, l protoreflect.List) []byte {
	dst = append(dst, '[')
	for i := 0; i < l.Len() && len(dst) <= t.most; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.one(dst, f, l.Get(i))
	}
	return append(dst, ']')
}

// entries appends a map, sorted by the texts of its keys.
func (t *texts) entries(dst []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	type entry struct {
		key   string
		value protoreflect.Value
	}
	var all []entry
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		all = append(all, entry{k.String(), v})
		return true
	})
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, e := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.one(append(quoted(dst, e.key), ':'), f.MapValue(), e.value)
	}
	return append(dst, '}')
}

// one appends one value of a field.
func (t *texts) one(dst []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return t.message(dst, v.Message())
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool())
	case protoreflect.StringKind:
		return quoted(dst, v.String())
	case protoreflect.BytesKind:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes()), '"')
	case protoreflect.EnumKind:
		if of := f.Enum().Values().ByNumber(v.Enum()); of != nil {
			return quoted(dst, string(of.Name()))
		}
		return quoted(dst, strconv.Itoa(int(v.Enum())))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return append(dst, "null"...)
		}
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 64)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(dst, v.Uint(), 10)
	}
	return strconv.AppendInt(dst, v.Int(), 10)
}

// time appends a Timestamp.
func (t *texts) time(dst []byte, m protoreflect.Message) []byte {
	all := m.Descriptor().Fields()
	seconds, nanos := m.Get(all.ByNumber(1)).Int(), m.Get(all.ByNumber(2)).Int()
	if t.reason = notInstant(seconds, nanos); t.reason != "" {
		return dst
	}
	return quoted(dst, time.Unix(seconds, nanos).UTC().Format(time.RFC3339Nano))
}

// known are messages of google/protobuf with a special JSON form. No field of an event reads them.
var known = map[protoreflect.FullName]bool{
	"google.protobuf.Duration": true, "google.protobuf.FieldMask": true, "google.protobuf.Struct": true, "google.protobuf.Value": true, "google.protobuf.ListValue": true,
}

// known appends a message with a special JSON form.
func (t *texts) known(dst []byte, m protoreflect.Message) []byte {
	text, err := protojson.Marshal(m.Interface())
	made := bytes.NewBuffer(dst)
	if err == nil {
		err = json.Compact(made, text) // protojson adds spaces at random
	}
	if err != nil {
		t.reason = fmt.Sprintf("a %s is not valid", m.Descriptor().FullName())
	}
	return made.Bytes()
}

// quoted appends a text as a JSON string.
func quoted(dst []byte, s string) []byte {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // encoding a string cannot fail
	return append(dst, bytes.TrimSuffix(made.Bytes(), []byte("\n"))...)
}
