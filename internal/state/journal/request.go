package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/state/packed"
)

// Key stands for a request: two of the same key have the same answer.
type Key [sha256.Size]byte

// Request is all that an answer depends on.
type Request struct {
	Endpoint   string // where it is asked and for what, such as a URL and the name of a model
	Version    string // of the model, pinned
	Parameters string // of the call, such as a temperature
	Body       []byte // what is asked
	// Event is the id of the event, for models that answer the same question in
	// different ways; "" for those of which one answer is as good as another.
	Event string
}

// keyed begins what is hashed: hashes of other meanings differ.
const keyed = "afterbay journal 1"

// Key returns the hash of the whole request. Each field counts with its length,
// so that no two requests are written alike.
func (r *Request) Key() Key {
	h := sha256.New()
	var length [binary.MaxVarintLen64]byte
	for _, field := range [...]string{keyed, r.Endpoint, r.Version, r.Parameters, r.Event} {
		h.Write(length[:binary.PutUvarint(length[:], uint64(len(field)))])
		h.Write([]byte(field))
	}
	h.Write(r.Body) // the last, so its length is that of the rest
	return Key(h.Sum(nil))
}

// NaNs of float32 that stand in a row for a missing number, and before a number of
// 64 bits.
const missing, wide = 0x7fc00000, 0x7fc00001

// AppendRow appends a row of a model as the body of a request: equal rows are
// written alike, and different ones differently. Numbers count by their bits,
// but for NaN, which is missing whatever its bits are. One that float32 holds is
// written as float32; any other behind a NaN that is not that of missing numbers.
// Of the bytes nil, which is missing, differs from empty.
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

// AppendAnswer appends the scores and texts of a row as an answer. Of the texts
// nil, which there is none of, differs from empty.
func AppendAnswer(b []byte, scores []float32, texts [][]byte) []byte {
	for _, score := range scores {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(score))
	}
	return packed.AppendTexts(b, texts)
}

var errAnswer = errors.New("not an answer of this model")

// ReadAnswer reads what AppendAnswer wrote, as many scores and texts as there is
// room for. An answer of others is an error. The texts are those of answer.
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
