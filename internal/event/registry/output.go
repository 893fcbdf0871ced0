package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Output is the schema of the records that a pipeline writes to a topic. The registry stores it
// under the subject of the topic.
type Output struct {
	registry *Registry
	subject  string
	schema   sr.Schema
	index    []byte // bytes after the id; only for a Protobuf schema
	register bool
	id       atomic.Uint32 // 0 until found
}

// Type is the type of a schema.
type Type = sr.SchemaType

// The types of schemas.
const (
	Avro     = sr.TypeAvro
	Protobuf = sr.TypeProtobuf
	JSON     = sr.TypeJSON
)

// Written is the schema that records are written with.
type Written struct {
	Type  Type
	Text  string
	Index []int // for a Protobuf schema: the number of a message of the file, then of one inside it, and so on
}

// Output returns the schema of a topic. If its subject does not have the schema, FindOutputs
// registers it if register is true; otherwise FindOutputs returns an error.
func (r *Registry) Output(topic string, of Written, register bool) *Output {
	return &Output{registry: r, subject: Subject(topic), schema: sr.Schema{Schema: of.Text, Type: of.Type}, index: appendIndex(nil, of.Index), register: register}
}

// appendIndex appends the index of a message type, with a leading length. The index of the first
// message of a file is a single 0.
func appendIndex(dst []byte, index []int) []byte {
	switch {
	case index == nil:
		return dst
	case len(index) == 1 && index[0] == 0:
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(index)))
	for _, n := range index {
		dst = binary.AppendVarint(dst, int64(n))
	}
	return dst
}

// Encoder returns an encoder of records that begin with the id of the schema.
func (o *Output) Encoder(of encode.Encoder) encode.Encoder { return framed{o, of} }

// Data returns a record without its prefix.
func (o *Output) Data(record []byte) []byte {
	return record[min(PrefixBytes+len(o.index), len(record)):]
}

type framed struct {
	of *Output
	encode.Encoder
}

// Append implements encode.Encoder.
func (p framed) Append(dst []byte, row *value.Row) ([]byte, error) {
	dst = binary.BigEndian.AppendUint32(append(dst, 0), p.of.id.Load())
	return p.Encoder.Append(append(dst, p.of.index...), row)
}

// FindOutputs finds the ids of outputs. It registers a missing schema if mayRegister and the Output
// allow it. An id does not change once found. If the registry does not answer, FindOutputs retries,
// and calls away with the reason after each attempt. It returns an error only for an invalid schema
// or subject, or if ctx ends.
func (r *Registry) FindOutputs(ctx context.Context, outputs []*Output, mayRegister bool, away func(error)) error {
	for _, o := range outputs {
		for attempt := 1; o.id.Load() == 0; attempt++ {
			id, err := o.find(ctx, mayRegister && o.register)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_, unreachable := errors.AsType[*awayError](err)
			r.found(err, unreachable)
			if err == nil {
				o.id.Store(uint32(id))
				continue
			}
			if !unreachable {
				return err
			}
			away(err)
			select {
			case <-time.After(r.backoff.Delay(o.subject, attempt)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// found counts an attempt to find an output.
func (r *Registry) found(err error, unreachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awaited = nil; unreachable {
		r.stats.Faults++
		r.awaited = err
	} else {
		r.stats.Lookups++
	}
}

// find returns the id of the schema in the subject.
func (o *Output) find(ctx context.Context, register bool) (int, error) {
	id, err := o.lookUp(ctx)
	switch {
	case err != nil || id != 0:
		return id, err
	case !register && o.register:
		return 0, fmt.Errorf("subject %s does not have the schema: a replay registers none. Run the pipeline first", o.subject)
	case !register:
		return 0, fmt.Errorf("subject %s does not have the schema: register it, or write `register: true`", o.subject)
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	id, err = o.registry.client.RegisterSchema(ctx, o.subject, o.schema, -1, -1)
	if err != nil {
		return 0, o.judge(err, "register it")
	}
	return o.valid(id)
}

// lookUp returns the id of the schema in the subject, or 0 if the subject does not have it.
func (o *Output) lookUp(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	known, err := o.registry.client.LookupSchema(ctx, o.subject, o.schema)
	switch code := refusal(err); {
	case code == sr.ErrSubjectNotFound.Code || code == sr.ErrSchemaNotFound.Code || code == sr.ErrSubjectSoftDeleted.Code:
		return 0, nil
	case err != nil:
		return 0, o.judge(err, "look it up")
	}
	return o.valid(known.ID)
}

// valid refuses an id that a record's prefix cannot hold.
func (o *Output) valid(id int) (int, error) {
	if id < 1 || id > math.MaxInt32 {
		return 0, &awayError{fmt.Errorf("the registry says that the schema of subject %s has the id %d", o.subject, id)}
	}
	return id, nil
}

// judge distinguishes a refusal of the schema from a registry that does not answer.
func (o *Output) judge(err error, doing string) error {
	said, ok := errors.AsType[*sr.ResponseError](err)
	if ok && said.ErrorCode != 0 && (said.StatusCode == http.StatusConflict || said.StatusCode == http.StatusUnprocessableEntity) {
		return fmt.Errorf("the registry refuses the schema for subject %s: %d: %.500s", o.subject, said.ErrorCode, said.Message)
	}
	return fmt.Errorf("subject %s: %s: %w", o.subject, doing, away(err))
}

// Check returns the errors in the schema for its subject, and changes nothing. If reached is false,
// the registry did not answer, and err is the reason.
func (o *Output) Check(ctx context.Context) (reached bool, err error) {
	id, err := o.lookUp(ctx)
	if err == nil && id == 0 {
		err = o.next(ctx)
	}
	_, unreachable := errors.AsType[*awayError](err)
	return !unreachable, err
}

// next returns the reason why the schema cannot be the next version of the subject, or nil.
func (o *Output) next(ctx context.Context) error {
	if !o.register {
		return fmt.Errorf("subject %s does not have the schema: register it, or write `register: true`", o.subject)
	}
	ctx, cancel := context.WithTimeout(sr.WithParams(ctx, sr.Verbose), callMax)
	defer cancel()
	result, err := o.registry.client.CheckCompatibility(ctx, o.subject, -1, o.schema)
	switch code := refusal(err); {
	case code == sr.ErrSubjectNotFound.Code || code == sr.ErrVersionNotFound.Code:
		return nil // it is the first version
	case err != nil:
		return o.judge(err, "check its compatibility")
	case !result.Is:
		return fmt.Errorf("the schema is not compatible with the newest version of subject %s: %.500q", o.subject, result.Messages)
	}
	return nil
}
