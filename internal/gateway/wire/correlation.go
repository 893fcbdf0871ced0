package wire

import (
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// ValidCorrelation reports whether id is a valid, non-empty correlation id: 1 to 128 printable
// ASCII characters.
func ValidCorrelation(id string) bool {
	return id != "" && len(id) <= correlationBytesMax && printable(id)
}

// Correlation returns the correlation id of a record; "" if it has none.
func Correlation(r *stream.Record) string { return header.Get(r, header.Correlation) }

// CorrelationOf returns the correlation id of a frame; "" if it has none.
func CorrelationOf(f Frame) string {
	switch f := f.(type) {
	case *Submission:
		return f.CorrelationID
	case *Accepted:
		return f.CorrelationID
	case *ResultFrame:
		return f.CorrelationID
	case *ErrorFrame:
		return f.CorrelationID
	case *Backpressure:
		return f.CorrelationID
	}
	return ""
}
