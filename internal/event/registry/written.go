package registry

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// Schemas finds the schemas that records were written with. It blocks during a request to the
// registry. Only one goroutine may use it.
type Schemas struct {
	decoder *Decoder
	turn    uint64
}

// Schemas returns a finder of the schemas of records.
func (r *Registry) Schemas() *Schemas { return &Schemas{decoder: r.decoder(nil, true)} }

// AwayError means that the registry did not answer.
type AwayError struct{ Err error }

// Error returns the reason.
func (e *AwayError) Error() string {
	return fmt.Sprintf("the schema registry does not answer: %v", e.Err)
}

// Of returns the schema of a record, its id, and the data after the id. The error is an *AwayError
// if the registry does not answer, and a *decode.Error if the record has no schema.
func (s *Schemas) Of(ctx context.Context, record []byte) (of decode.Schema, id int, data []byte, err error) {
	for s.turn++; ; {
		woken := make(chan struct{}, 1)
		ready, why := s.decoder.Prepare(record, s.turn, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
		if ready {
			break
		}
		if why != nil {
			return nil, 0, nil, &AwayError{why}
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, 0, nil, ctx.Err()
		}
	}
	p, begin, err := s.decoder.find(record)
	if err != nil {
		return nil, 0, nil, err
	}
	id, _ = idOf(record) // find checked the id
	data = record[begin:]
	switch {
	case p.json != nil:
		return p.json, id, data, nil
	case p.avro != nil:
		return p.avro, id, data, nil
	}
	index, _ := indexOf(record[PrefixBytes:]) // find checked the index
	message, err := messageAt(p.answer, string(index))
	if err != nil {
		return nil, 0, nil, &decode.Error{Offset: PrefixBytes, Reason: err.Error()}
	}
	return message, id, data, nil
}
