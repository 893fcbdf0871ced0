package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// Version is a version of a subject.
type Version struct {
	subject     string
	id, version int
	known       *answer
	mode        sr.CompatibilityLevel // compatibility mode for the next version
}

// Subject returns the default subject for the values of a topic.
func Subject(topic string) string { return topic + "-value" }

// KeySubject returns the default subject for the keys of a topic.
func KeySubject(topic string) string { return topic + "-key" }

// Newest requests the newest version of a subject. It returns nil if the subject does not exist.
func (r *Registry) Newest(ctx context.Context, subject string) (*Version, error) {
	schema, err := r.client.SchemaByVersion(ctx, subject, -1)
	if code := refusal(err); code == sr.ErrSubjectNotFound.Code || code == sr.ErrVersionNotFound.Code {
		return nil, nil
	}
	if err != nil {
		return nil, away(err)
	}
	v := &Version{subject: subject, id: schema.ID, version: schema.Version}
	if v.known, err = r.parse(ctx, schema.Schema); err != nil {
		return nil, err
	}
	mode := r.client.Compatibility(sr.WithParams(ctx, sr.DefaultToGlobal), subject)[0]
	if v.mode = mode.Level; refusal(mode.Err) != 0 { // for older registries, which have no default
		mode = r.client.Compatibility(ctx)[0]
		v.mode = mode.Level
	}
	if mode.Err != nil {
		return nil, away(mode.Err)
	}
	return v, nil
}

// Fits returns the reason why events of the version cannot be read, or nil. With Protobuf one of
// its messages must fit.
func (v *Version) Fits(fields []decode.Field) error {
	err := v.known.err
	if err == nil {
		err = fits(v.known, fields)
	}
	return v.wrong(err)
}

// wrong adds the version to an error. It returns nil for nil.
func (v *Version) wrong(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("version %d of subject %s, schema id %d, does not fit: %w", v.version, v.subject, v.id, err)
}

// Paths reports whether fields may be inside members of a record.
func (v *Version) Paths() bool { return v.known.protobuf == nil }

// FitsKey returns the reason why keys of the version cannot be read, or nil. If column is true, a
// key must be one text or whole number.
func (v *Version) FitsKey(column bool) error {
	err := v.known.err
	switch {
	case err != nil || v.known.json != nil:
	case column && !v.known.column():
		err = errors.New("a key is one text or whole number, or a record with one")
	}
	return v.wrong(err)
}

// column reports whether records have the JSON form of a key: no object, or an object with one text
// or whole number. With Protobuf one of its messages must have this form.
func (a *answer) column() bool {
	if a.protobuf == nil {
		return a.avro.Column()
	}
	for i := range a.protobuf.Messages().Len() {
		if schema, err := a.protobuf.At(i); err == nil && schema.Column() {
			return true
		}
	}
	return false
}

func fits(known *answer, fields []decode.Field) error {
	if known.protobuf == nil {
		_, err := decoderOf("", known, fields)
		return err
	}
	first := errors.New("it has no message")
	for i := range known.protobuf.Messages().Len() {
		schema, err := known.protobuf.At(i)
		if err == nil {
			_, err = schema.Decoder(fields)
		}
		if err == nil {
			return nil
		}
		if i == 0 {
			first = err
		}
	}
	return first
}

// Unsafe returns the changes that the subject's compatibility mode allows for the next version and
// that would make its events dead letters. It returns "" if no change is unsafe.
func (v *Version) Unsafe() string {
	if v.known.json != nil {
		return "" // JSON fields are found by name, independent of the schema
	}
	switch v.mode {
	case sr.CompatForward, sr.CompatForwardTransitive, sr.CompatFull, sr.CompatFullTransitive:
		return ""
	}
	mode := strings.TrimSpace(v.mode.String())
	return fmt.Sprintf("subject %s has the compatibility mode %s: its next version may lack a required field or change its type, and then events become dead letters. The modes FORWARD and FULL keep such fields", v.subject, mode)
}
