package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/state/packed"
)

// Key identifies a request. Requests with the same key have the same answer.
type Key [sha256.Size]byte

// Request holds everything that an answer depends on.
type Request struct {
	Endpoint   string // destination of the call, such as a URL and the name of a model
	Version    string // pinned version of the model
	Parameters string // parameters of the call, such as a temperature
	Body       []byte // the question
	// Event is the event id for models that may answer the same question differently. It is "" for
	// models with interchangeable answers.
	Event string
}

// keyed is a prefix of the hashed bytes. It separates these hashes from others.
const keyed = "afterbay journal 1"

// Key returns the hash of the whole request. It hashes each field with its length, so that
// different requests have different input.
func (r *Request) Key() Key {
	h := sha256.New()
	var length [binary.MaxVarintLen64]byte
	for _, field := range [...]string{keyed, r.Endpoint, r.Version, r.Parameters, r.Event} {
		h.Write(length[:binary.PutUvarint(length[:], uint64(len(field)))])
		h.Write([]byte(field))
	}
	h.Write(r.Body) // it is the last field, so it needs no length
	return Key(h.Sum(nil))
}

// NaN values of float32 in an encoded row: for a missing number, and before a 64-bit number.
const missing, wide = 0x7fc00000, 0x7fc00001

// AppendRow appends a model row as the body of a request. Equal rows have equal encodings, and
// different rows have different ones. Numbers count by their bits, except that every NaN counts as
// missing. A number that float32 can hold is encoded as float32. Any other number follows a NaN
// that marks 64 bits. In bytes, nil means missing and differs from empty.
func AppendRow(b []byte, values []float64, bytes [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(values)))
	for _, value := range values {
		near := float32(value)
		switch {
		case value != value:
			b = binary.LittleEndian.AppendUint32(b, missing)
		case float64(near) == value:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(near))
		default:
			b = binary.LittleEndian.AppendUint32(b, wide)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(value))
		}
	}
	return packed.AppendTexts(b, bytes)
}

// AppendAnswer appends the scores and texts of a row as an answer. A nil text means that there is
// no text, and differs from an empty one.
func AppendAnswer(b []byte, scores []float32, texts [][]byte) []byte {
	for _, score := range scores {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(score))
	}
	return packed.AppendTexts(b, texts)
}

var errAnswer = errors.New("not an answer of this model")

// ReadAnswer decodes the result of AppendAnswer into scores and texts. The numbers of both must
// match, otherwise it returns an error. The texts alias answer.
func ReadAnswer(scores []float32, texts [][]byte, answer []byte) error {
	rest := answer
	wrong := len(rest) < 4*len(scores)
	for i := range scores {
		if wrong {
			break
		}
		scores[i] = math.Float32frombits(binary.LittleEndian.Uint32(rest))
		rest = rest[4:]
	}
	for i := range texts {
		if wrong {
			break
		}
		text, after, ok := packed.NextText(rest)
		if wrong = !ok; ok {
			texts[i], rest = text, after
		}
	}
	if wrong || len(rest) > 0 {
		return fmt.Errorf("journalled answer of %d bytes for %d scores and %d texts: %w", len(answer), len(scores), len(texts), errAnswer)
	}
	return nil
}
