package serving

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/model"
)

// summary is the last line of a stream. A stream without it was cut off.
type summary struct {
	Done    bool    `json:"done"`
	Records int64   `json:"records"`
	OK      int64   `json:"ok"`
	Errors  int64   `json:"errors"`
	Skipped int64   `json:"skipped,omitempty"` // errors without a line in the answers
	Aborted string  `json:"aborted,omitempty"`
	Fatal   *reason `json:"fatal,omitempty"`
	Model   string  `json:"model"`
}

// reason says why something failed.
type reason struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Line      int64  `json:"line,omitempty"` // line in the body, from 1
	Retryable bool   `json:"retryable"`
}

func (m *mark) reason() *reason {
	return &reason{Code: m.code, Message: m.fault, Line: m.line, Retryable: m.code == "model_failed"}
}

// renderer writes the answers of a stream.
type renderer interface {
	mediaType() string
	begin(dst []byte) []byte
	result(dst []byte, index int64, id []byte, said model.Answer) []byte
	fault(dst []byte, index int64, m *mark) []byte
	done(dst []byte, s *summary) []byte
}

// jsonLines writes one JSON object on each line, or as an event.
type jsonLines struct {
	model  *served
	events bool // use server-sent events
}

func (j *jsonLines) mediaType() string {
	if j.events {
		return "text/event-stream"
	}
	return "application/x-ndjson"
}

func (j *jsonLines) begin(dst []byte) []byte { return dst }

func (j *jsonLines) open(dst []byte) []byte {
	if j.events {
		return append(dst, "data: "...)
	}
	return dst
}

func (j *jsonLines) end(dst []byte) []byte {
	if j.events {
		return append(dst, '\n', '\n')
	}
	return append(dst, '\n')
}

func (j *jsonLines) start(dst []byte, index int64, id []byte) []byte {
	dst = append(j.open(dst), `{"index":`...)
	dst = strconv.AppendInt(dst, index, 10)
	if id != nil {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id...)
	}
	return dst
}

func (j *jsonLines) result(dst []byte, index int64, id []byte, said model.Answer) []byte {
	dst = append(j.start(dst, index, id), `,"prediction":`...)
	if len(j.model.outputs) == 1 {
		out := &j.model.outputs[0]
		if len(out.labels) > 0 {
			dst = appendString(dst, []byte(out.labels[best(said.Scores)]))
			dst = append(dst, `,"probabilities":`...)
		}
		return j.end(append(out.appendNext(dst, &said), '}'))
	}
	for i := range j.model.outputs {
		out := &j.model.outputs[i]
		dst = append(dst, "{,"[min(i, 1)])
		dst = out.appendNext(append(appendString(dst, []byte(out.name)), ':'), &said)
	}
	return j.end(append(dst, '}', '}'))
}

// appendNext writes an output, and removes it from said.
func (o *output) appendNext(dst []byte, said *model.Answer) []byte {
	if o.size == 0 {
		text := said.Texts[0]
		said.Texts = said.Texts[1:]
		return o.appendText(dst, text)
	}
	scores := said.Scores[:o.size]
	said.Scores = said.Scores[o.size:]
	return appendScores(dst, o, scores)
}

// appendText writes a text as JSON, null if it is missing.
func (o *output) appendText(dst, text []byte) []byte {
	if text == nil {
		return append(dst, "null"...)
	}
	return appendString(dst, o.text(text))
}

// best returns the index of the largest score, the first one of several.
func best(scores []float32) int {
	at := 0
	for i, s := range scores {
		if s > scores[at] {
			at = i
		}
	}
	return at
}

// appendScores writes one score as a number, several as an array, and scores with labels as an
// object.
func appendScores(dst []byte, out *output, scores []float32) []byte {
	switch {
	case len(out.labels) > 0:
		for i, s := range scores {
			dst = append(dst, "{,"[min(i, 1)])
			dst = append(appendString(dst, []byte(out.labels[i])), ':')
			dst = appendNumber(dst, s)
		}
		return append(dst, '}')
	case len(scores) == 1:
		return appendNumber(dst, scores[0])
	}
	for i, s := range scores {
		dst = append(dst, "[,"[min(i, 1)])
		dst = appendNumber(dst, s)
	}
	return append(dst, ']')
}

// appendNumber writes a score with the fewest digits that identify it. If it is not finite, it
// becomes null, because JSON has no such numbers.
func appendNumber(dst []byte, v float32) []byte {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}

func (j *jsonLines) fault(dst []byte, index int64, m *mark) []byte {
	dst = append(j.start(dst, index, m.id), `,"error":`...)
	return j.end(append(appendJSON(dst, m.reason()), '}'))
}

func (j *jsonLines) done(dst []byte, s *summary) []byte {
	return j.end(appendJSON(j.open(dst), s))
}

// appendJSON writes plain data as JSON.
func appendJSON(dst []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("scoring: plain data cannot be encoded: " + err.Error())
	}
	return append(dst, text...)
}

// appendString writes text as a JSON string; invalid UTF-8 becomes U+FFFD.
func appendString(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRune(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += size - 1
		}
		i++
	}
	return append(dst, '"')
}

// csvLines writes CSV rows: index, id, a column for each score and text, error. In the last row the
// index is "done", and the error is the summary as JSON.
type csvLines struct {
	model  *served
	header bool
}

func (c *csvLines) mediaType() string {
	if c.header {
		return "text/csv; charset=utf-8; header=present"
	}
	return "text/csv; charset=utf-8; header=absent"
}

func (c *csvLines) begin(dst []byte) []byte {
	if !c.header {
		return dst
	}
	dst = append(dst, "index,id"...)
	for _, out := range c.model.outputs {
		for i := range max(out.size, 1) {
			name := out.name
			switch {
			case len(out.labels) > 0:
				name = out.labels[i]
			case out.size > 1:
				name += "_" + strconv.Itoa(i)
			}
			dst = appendCell(append(dst, ','), []byte(name))
		}
	}
	return append(dst, ",error\n"...)
}

func (c *csvLines) start(dst []byte, index int64, id []byte) []byte {
	dst = append(strconv.AppendInt(dst, index, 10), ',')
	if text, ok := decode.String(id); ok {
		id = text
	}
	return append(appendCell(dst, id), ',')
}

func (c *csvLines) result(dst []byte, index int64, id []byte, said model.Answer) []byte {
	dst = c.start(dst, index, id)
	for i := range c.model.outputs {
		out := &c.model.outputs[i]
		if out.size == 0 {
			dst = append(appendCell(dst, out.text(said.Texts[0])), ',')
			said.Texts = said.Texts[1:]
		}
		for _, s := range said.Scores[:out.size] {
			dst = append(strconv.AppendFloat(dst, float64(s), 'g', -1, 32), ',')
		}
		said.Scores = said.Scores[out.size:]
	}
	return append(dst, '\n')
}

func (c *csvLines) empty(dst []byte) []byte {
	for range c.model.width + c.model.words {
		dst = append(dst, ',')
	}
	return dst
}

func (c *csvLines) fault(dst []byte, index int64, m *mark) []byte {
	dst = c.empty(c.start(dst, index, m.id))
	return append(appendCell(dst, []byte(m.code+": line "+strconv.FormatInt(m.line, 10)+": "+m.fault)), '\n')
}

func (c *csvLines) done(dst []byte, s *summary) []byte {
	dst = c.empty(append(dst, "done,,"...))
	return append(appendCell(dst, appendJSON(nil, s)), '\n')
}

// appendCell writes a cell, quoted if necessary.
func appendCell(dst, text []byte) []byte {
	plain := true
	for _, c := range text {
		if c == '"' || c == ',' || c == '\n' || c == '\r' {
			plain = false
			break
		}
	}
	if plain {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// appendFloats writes scores as little-endian float32.
func appendFloats(dst []byte, scores []float32) []byte {
	for _, s := range scores {
		bits := math.Float32bits(s)
		dst = append(dst, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return dst
}
