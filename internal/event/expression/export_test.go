package expression

import (
	"strconv"

	"github.com/afterbay/afterbay/internal/event/value"
)

// AppendJSON evaluates the expression and appends the result as AppendValue
// would. On an error dst is returned as it was.
func (p *Program) AppendJSON(dst []byte, row *value.Row) ([]byte, error) {
	row.Begin()
	var err *Error
	switch kind := p.typ.Kind; kind {
	case value.Bool:
		dst, err = appendResult(dst, p.bool, row, strconv.AppendBool)
	case value.Number:
		dst, err = appendResult(dst, p.number, row, appendNumber)
	case value.Int:
		dst, err = appendResult(dst, p.int, row, appendInt)
	case value.Time:
		dst, err = appendResult(dst, p.int, row, appendTime)
	default:
		dst, err = appendResult(dst, p.text, row, func(dst []byte, text string) []byte { return AppendElement(dst, kind, value.Element{Str: text}) })
	}
	if err != nil {
		return dst, err
	}
	return dst, nil
}

func appendResult[T any](dst []byte, f eval[T], row *value.Row, write func([]byte, T) []byte) ([]byte, *Error) {
	v, err := f(row)
	switch err {
	case nil:
		return write(dst, v), nil
	case absent:
		return append(dst, "null"...), nil
	}
	return dst, err
}
