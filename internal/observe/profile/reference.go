package profile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

const (
	ReferenceVersion = 1        // format of a Reference
	ReferenceMax     = 64 << 20 // bytes of an encoded Reference
	FeaturesMax      = 4096     // features of a Reference
)

// Reference holds the profiles of the features that a model was trained with.
type Reference struct {
	Model    string              // name of the model
	Rows     uint64              // training rows
	Digest   string              // sha256 of the training rows as NDJSON, 64 hex digits
	Features map[string]*Profile // by name
}

// head is the first line of a Reference.
type head struct {
	Version int    `json:"version"`
	Model   string `json:"model"`
	Rows    uint64 `json:"rows"`
	Digest  string `json:"rows_sha256"`
}

// Encode returns the reference as JSON, with a line for each feature, sorted by name. Equal references have equal bytes.
func (r *Reference) Encode() ([]byte, error) {
	first, err := json.Marshal(head{ReferenceVersion, r.Model, r.Rows, r.Digest})
	if err != nil {
		return nil, err
	}
	text := append(first[:len(first)-1], ",\"features\":{\n"...)
	for i, name := range slices.Sorted(maps.Keys(r.Features)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		counted, err := r.Features[name].Encode()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = append(append(append(text, quoted...), ':'), counted...)
	}
	return append(text, "\n}}\n"...), nil
}

// Sum returns the digest of an encoded reference: its sha256, 64 hex digits.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// DecodeReference reads what Encode of a Reference wrote. Other bytes, also of the same meaning, are refused.
func DecodeReference(data []byte) (*Reference, error) {
	var e struct {
		head
		Features map[string]json.RawMessage `json:"features"`
	}
	if len(data) > ReferenceMax {
		return nil, fmt.Errorf("%d bytes; at most %d", len(data), ReferenceMax)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	switch {
	case e.Version != ReferenceVersion:
		return nil, fmt.Errorf("version %d; this program reads version %d", e.Version, ReferenceVersion)
	case len(e.Features) == 0 || len(e.Features) > FeaturesMax:
		return nil, fmt.Errorf("%d features; 1 to %d", len(e.Features), FeaturesMax)
	}
	r := &Reference{Model: e.Model, Rows: e.Rows, Digest: e.Digest, Features: map[string]*Profile{}}
	for _, name := range slices.Sorted(maps.Keys(e.Features)) {
		p, err := Decode(e.Features[name])
		if err != nil {
			return nil, fmt.Errorf("feature %q: %w", name, err)
		}
		r.Features[name] = p
	}
	if again, err := r.Encode(); err != nil || !bytes.Equal(again, data) {
		return nil, errors.New("not written by Encode: another order, spacing or spelling")
	}
	return r, nil
}

// Numeric reports whether the column is one of numbers, and not of texts.
func (p *Profile) Numeric() bool { return len(p.Edges) > 0 }
