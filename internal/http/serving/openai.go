package serving

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/model"
)

const flaggedFrom = 0.5 // threshold for a category's score

// shownModel is a model in the format of OpenAI's API, with a description of its rows.
type shownModel struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	OwnedBy string       `json:"owned_by"`
	Version string       `json:"version"`
	Kind    string       `json:"kind"`
	Inputs  []shownInput `json:"inputs"`
	Outputs []shownOut   `json:"outputs"`
}

type shownInput struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Categories []string `json:"categories,omitempty"`
}

type shownOut struct {
	Name   string   `json:"name"`
	Size   int      `json:"size"`
	Labels []string `json:"labels,omitempty"`
}

func (m *served) shown() shownModel {
	s := shownModel{ID: m.Name, Object: "model", Created: m.created.Unix(), OwnedBy: "afterbay", Version: m.Version, Kind: m.kind}
	for _, in := range m.inputs {
		s.Inputs = append(s.Inputs, shownInput{in.name, string(in.kind), in.categories})
	}
	for _, out := range m.outputs {
		s.Outputs = append(s.Outputs, shownOut{out.name, out.size, out.labels})
	}
	return s
}

// listModels lists each name once, with the version that requests without a version get.
func (h *Handler) listModels(w http.ResponseWriter, r *http.Request) {
	list := []shownModel{}
	for _, m := range h.models.order {
		if current, _ := h.models.find(m.Name, ""); current == m && allowed(r.Context(), m.Name) == nil {
			list = append(list, m.shown())
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (h *Handler) showModel(w http.ResponseWriter, r *http.Request) {
	if m, ok := h.model(w, r, r.PathValue("name"), ""); ok {
		writeJSON(w, http.StatusOK, m.shown())
	}
}

// textRequest has the fields that all calls with texts share.
type textRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Encoding   string          `json:"encoding_format"`
	Dimensions *int            `json:"dimensions"`
}

// readTexts reads a request and finds its model among the models of one text that satisfy fits. A
// request without a model gets the only one.
func (h *Handler) readTexts(r *http.Request, room *server.Room, fits func(*served) bool) (*served, *textRequest, [][]byte, error) {
	body, err := h.readBody(r)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := room.Work(); err != nil {
		return nil, nil, nil, err
	}
	request := &textRequest{}
	if err := room.Take(int64(len(body))); err != nil { // for a copy of the input
		return nil, nil, nil, err
	}
	if err := json.Unmarshal(body, request); err != nil {
		return nil, nil, nil, fmt.Errorf("read the request: %w", err)
	}
	suits := func(m *served) bool { return len(m.inputs) == 1 && m.inputs[0].kind == model.String && fits(m) }
	mayAsk := func(m *served) bool { return suits(m) && allowed(r.Context(), m.Name) == nil }
	var m *served
	if request.Model == "" {
		for _, one := range h.models.order {
			if mayAsk(one) && m != nil && m.Name != one.Name {
				return nil, nil, nil, refuse(http.StatusBadRequest, "model_missing", "several models can answer: name one of %s", h.models.names(r.Context()))
			} else if mayAsk(one) {
				m = one
			}
		}
	} else if m, err = h.models.ask(r.Context(), request.Model, ""); err != nil {
		return nil, nil, nil, err
	}
	if m != nil {
		asks(r.Context(), m)
	}
	if m == nil || !suits(m) {
		return nil, nil, nil, refuse(http.StatusBadRequest, "wrong_model", "model %q does not answer this: it takes no text alone, or has other outputs", request.Model)
	}
	texts, err := inputTexts(request.Input, room)
	return m, request, texts, err
}

// inputTexts reads an input: a text, a list of texts, or OpenAI's parts of type text.
func inputTexts(input []byte, room *server.Room) ([][]byte, error) {
	if text, ok := decode.String(input); ok {
		return [][]byte{text}, nil
	}
	var texts [][]byte
	w := decode.Walk(input)
	for w.Next() {
		text, ok := decode.String(w.Value)
		if !ok {
			var part struct {
				Type string  `json:"type"`
				Text *string `json:"text"`
			}
			if err := json.Unmarshal(w.Value, &part); err != nil || part.Type != "text" || part.Text == nil {
				return nil, refuse(http.StatusBadRequest, "bad_input", "input: %s is not a text: token ids and images are not supported", clip(w.Value))
			}
			text = []byte(*part.Text)
		}
		if err := room.Another(len(texts), cap(texts), textBytes); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	if w.Err() != nil || !w.Array() || len(texts) == 0 {
		return nil, refuse(http.StatusBadRequest, "bad_input", "input: want a text or a list of texts that is not empty")
	}
	return texts, nil
}

// textScores scores texts with a model that takes one text.
func (m *served) textScores(r *http.Request, texts [][]byte, room *server.Room) ([]float32, error) {
	all, err := m.score(r.Context(), model.Rows{BytesWidth: 1, Bytes: texts, N: len(texts)}, room)
	return all.Scores, err
}

// categoryScore is a category of a moderation model, and the index of its score.
type categoryScore struct {
	name  string
	score int
}

// categories returns the categories of a moderation model: its labels, or its outputs with one
// score. Of two labels only the second is a category, because it is the positive class.
func (m *served) categories() []categoryScore {
	var list []categoryScore
	at := 0
	for _, out := range m.outputs {
		for i, label := range out.labels {
			if i > 0 || out.size != 2 {
				list = append(list, categoryScore{label, at + i})
			}
		}
		if len(out.labels) == 0 && out.size == 1 {
			list = append(list, categoryScore{out.name, at})
		}
		at += out.size
	}
	return list
}

// moderate handles POST /v1/moderations: it returns a category for each score.
func (h *Handler) moderate(w http.ResponseWriter, r *http.Request) {
	room := server.RoomOf(r.Context())
	defer room.Rest()
	m, _, texts, err := h.readTexts(r, room, func(m *served) bool { return len(m.categories()) > 0 })
	var scores []float32
	if err == nil {
		scores, err = m.textScores(r, texts, room)
	}
	var text []byte
	if err == nil {
		text, err = m.moderation(scores, room)
	}
	if err != nil {
		asRefusal(err, false).write(w)
		return
	}
	room.Rest()
	writeText(w, text)
}

// moderation returns the reply to a moderation request, with categories sorted by name.
func (m *served) moderation(scores []float32, room *server.Room) ([]byte, error) {
	categories := m.categories()
	slices.SortStableFunc(categories, func(a, b categoryScore) int { return strings.Compare(a.name, b.name) })
	names, size := make([][]byte, len(categories)), len(`{"flagged":false,"categories":{},"category_scores":{}},`)
	for i, c := range categories {
		names[i] = append(appendJSON(nil, c.name), ':')
		size += 2*len(names[i]) + len("false,") + numberBytes
	}
	text := appendJSON([]byte(`{"id":`), "modr-"+m.pinned())
	text = append(appendJSON(append(text, `,"model":`...), m.Name), `,"results":[`...)
	for i := range len(scores) / m.width {
		row := scores[i*m.width : (i+1)*m.width]
		flagged := false
		for _, c := range categories {
			if v := float64(row[c.score]); math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, refuse(http.StatusInternalServerError, "model_failed", "input %d: the score of %s is %v", i, c.name, v)
			}
			flagged = flagged || row[c.score] >= flaggedFrom
		}
		var err error
		if text, err = room.Grow(text, size+len("]}")); err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendBool(append(text, `{"flagged":`...), flagged), `,"categories":{`...)
		for j, c := range categories {
			text = strconv.AppendBool(append(separated(text, j), names[j]...), row[c.score] >= flaggedFrom)
		}
		text = append(text, `},"category_scores":{`...)
		for j, c := range categories {
			text = appendNumber(append(separated(text, j), names[j]...), row[c.score])
		}
		text = append(text, '}', '}')
	}
	return append(text, ']', '}'), nil
}

// tokenCounter is a model with a tokenizer. It must be safe for concurrent use.
type tokenCounter interface{ CountTokens(text []byte) int }

// tokens counts the tokens of texts with the model's tokenizer, or the words if it has none.
func (h *Handler) tokens(m *served, texts [][]byte) (n int) {
	count := func(text []byte) int { return len(bytes.Fields(text)) }
	if counter, ok := m.Model.(tokenCounter); ok {
		count = counter.CountTokens
	}
	for _, text := range texts {
		n += count(text)
	}
	h.measures.tokens.WithLabelValues(m.pinned()).Add(float64(n))
	return n
}

// separated appends a comma, except before the first element.
func separated(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// embed handles POST /v1/embeddings: it returns all scores of each text, as numbers or in base64.
func (h *Handler) embed(w http.ResponseWriter, r *http.Request) {
	room := server.RoomOf(r.Context())
	defer room.Rest()
	m, request, texts, err := h.readTexts(r, room, func(m *served) bool {
		return len(m.outputs) == 1 && m.words == 0 && len(m.outputs[0].labels) == 0
	})
	if err == nil {
		err = request.embeddable(m)
	}
	var scores []float32
	if err == nil {
		scores, err = m.textScores(r, texts, room)
	}
	var text []byte
	if err == nil {
		text, err = m.embeddings(scores, h.tokens(m, texts), request.Encoding == "base64", room)
	}
	if err != nil {
		asRefusal(err, false).write(w)
		return
	}
	room.Rest()
	writeText(w, text)
}

// embeddings returns the reply to a request for embeddings.
func (m *served) embeddings(scores []float32, tokens int, encoded bool, room *server.Room) (text []byte, err error) {
	var raw []byte
	size := numberBytes * m.width
	if encoded {
		size = base64.StdEncoding.EncodedLen(4 * m.width)
		if raw, err = room.Grow(nil, 4*m.width); err != nil {
			return nil, err
		}
	}
	text = []byte(`{"object":"list","data":[`)
	for i := range len(scores) / m.width {
		if text, err = room.Grow(text, size+len(m.Name)+200); err != nil { // plus the surrounding text
			return nil, err
		}
		text = fmt.Appendf(separated(text, i), `{"object":"embedding","index":%d,"embedding":`, i)
		one := scores[i*m.width : (i+1)*m.width]
		if encoded {
			text = append(base64.StdEncoding.AppendEncode(append(text, '"'), appendFloats(raw[:0], one)), `"}`...)
			continue
		}
		text = append(text, '[')
		for j, s := range one {
			text = appendNumber(separated(text, j), s)
		}
		text = append(text, ']', '}')
	}
	text = appendString(append(text, `],"model":`...), []byte(m.Name))
	return fmt.Appendf(text, `,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, tokens, tokens), nil
}

// writeText sends a JSON reply.
func writeText(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	if _, err := w.Write(text); err == nil {
		_, _ = w.Write([]byte{'\n'}) // an error means that the client has disconnected
	}
}

// embeddable returns an error if the model cannot serve the request.
func (r *textRequest) embeddable(m *served) error {
	if r.Dimensions != nil && *r.Dimensions != m.width {
		return refuse(http.StatusBadRequest, "bad_dimensions", "dimensions %d: the model has %d", *r.Dimensions, m.width)
	}
	if !slices.Contains([]string{"", "float", "base64"}, r.Encoding) {
		return refuse(http.StatusBadRequest, "bad_encoding_format", "encoding_format %q: use float or base64", r.Encoding)
	}
	return nil
}
