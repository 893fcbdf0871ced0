package scoring

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/model"
)

const flaggedFrom = 0.5 // of a category's score

// shownModel is a model as OpenAI's API has it, and what its rows are.
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

// listModels shows each name once, as the version that requests get.
func (h *Handler) listModels(w http.ResponseWriter, _ *http.Request) {
	list := []shownModel{}
	for _, m := range h.models.order {
		if current, _ := h.models.find(m.Name, ""); current == m {
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

// textRequest is what calls with texts have in common.
type textRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Encoding   string          `json:"encoding_format"`
	Dimensions *int            `json:"dimensions"`
}

// readTexts reads a request, and finds its model among those of one text that fits
// says can answer; a request without one gets the only one.
func (h *Handler) readTexts(r *http.Request, fits func(*served) bool) (*served, *textRequest, [][]byte, error) {
	body, err := h.readBody(r)
	if err != nil {
		return nil, nil, nil, err
	}
	request := &textRequest{}
	if err := json.Unmarshal(body, request); err != nil {
		return nil, nil, nil, fmt.Errorf("read the request: %w", err)
	}
	suits := func(m *served) bool { return len(m.inputs) == 1 && m.inputs[0].kind == model.String && fits(m) }
	var m *served
	if request.Model == "" {
		for _, one := range h.models.order {
			if suits(one) && m != nil && m.Name != one.Name {
				return nil, nil, nil, refuse(http.StatusBadRequest, "model_missing", "there are several models that can answer: name one of %s", h.names())
			} else if suits(one) {
				m = one
			}
		}
	} else if m, _ = h.models.find(request.Model, ""); m == nil {
		return nil, nil, nil, refuse(http.StatusNotFound, "model_not_found", "no model %q: there are %s", request.Model, h.names())
	}
	if m == nil || !suits(m) {
		return nil, nil, nil, refuse(http.StatusBadRequest, "wrong_model", "model %q does not answer this: it takes no text alone, or has other outputs", request.Model)
	}
	texts, err := inputTexts(request.Input)
	return m, request, texts, err
}

// inputTexts reads an input: a text, texts, or OpenAI's parts of type text.
func inputTexts(input []byte) ([][]byte, error) {
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
				return nil, refuse(http.StatusBadRequest, "bad_input", "input: %s is no text: token ids and images are not taken", clip(w.Value))
			}
			text = []byte(*part.Text)
		}
		texts = append(texts, text)
	}
	if w.Err() != nil || !w.Array() || len(texts) == 0 {
		return nil, refuse(http.StatusBadRequest, "bad_input", "input: want a text or a list of texts that is not empty")
	}
	return texts, nil
}

// textScores scores texts with a model of one text.
func (m *served) textScores(r *http.Request, texts [][]byte) ([]float32, error) {
	all, err := m.score(r.Context(), model.Rows{BytesWidth: 1, Bytes: texts, N: len(texts)})
	return all.Scores, err
}

// category is one of a moderation model, and the place of its score.
type category struct {
	name  string
	score int
}

// categories are the labels of a moderation model, of two the second alone, which is
// the one that is looked for, or outputs of one score.
func (m *served) categories() []category {
	var list []category
	at := 0
	for _, out := range m.outputs {
		for i, label := range out.labels {
			if i > 0 || out.size != 2 {
				list = append(list, category{label, at + i})
			}
		}
		if len(out.labels) == 0 && out.size == 1 {
			list = append(list, category{out.name, at})
		}
		at += out.size
	}
	return list
}

// moderate answers POST /v1/moderations: a category for each score.
func (h *Handler) moderate(w http.ResponseWriter, r *http.Request) {
	m, _, texts, err := h.readTexts(r, func(m *served) bool { return len(m.categories()) > 0 })
	var scores []float32
	if err == nil {
		scores, err = m.textScores(r, texts)
	}
	if err != nil {
		asRefusal(err, false).write(w)
		return
	}
	type result struct {
		Flagged    bool               `json:"flagged"`
		Categories map[string]bool    `json:"categories"`
		Scores     map[string]float32 `json:"category_scores"`
	}
	categories, results := m.categories(), make([]result, len(texts))
	for i := range results {
		one := result{Categories: map[string]bool{}, Scores: map[string]float32{}}
		for _, c := range categories {
			score := scores[i*m.width+c.score]
			if v := float64(score); math.IsNaN(v) || math.IsInf(v, 0) {
				refuse(http.StatusInternalServerError, "model_failed", "input %d: the score of %s is %v", i, c.name, v).write(w)
				return
			}
			one.Scores[c.name] = score
			one.Categories[c.name] = score >= flaggedFrom
			one.Flagged = one.Flagged || score >= flaggedFrom
		}
		results[i] = one
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": "modr-" + m.pinned(), "model": m.Name, "results": results})
}

// embed answers POST /v1/embeddings: all scores of each text, as numbers or in
// base64.
func (h *Handler) embed(w http.ResponseWriter, r *http.Request) {
	m, request, texts, err := h.readTexts(r, func(m *served) bool {
		return len(m.outputs) == 1 && m.words == 0 && len(m.outputs[0].labels) == 0
	})
	if err == nil {
		err = request.embeddable(m)
	}
	var scores []float32
	if err == nil {
		scores, err = m.textScores(r, texts)
	}
	if err != nil {
		asRefusal(err, false).write(w)
		return
	}
	text := []byte(`{"object":"list","data":[`)
	for i := range texts {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"object":"embedding","index":%d,"embedding":`, i)
		one := scores[i*m.width : (i+1)*m.width]
		if request.Encoding == "base64" {
			text = appendString(text, []byte(floatsBase64(one)))
		} else {
			text = append(text, '[')
			for j, s := range one {
				if j > 0 {
					text = append(text, ',')
				}
				text = appendNumber(text, s)
			}
			text = append(text, ']')
		}
		text = append(text, '}')
	}
	text = appendString(append(text, `],"model":`...), []byte(m.Name))
	text = append(text, `,"usage":{"prompt_tokens":0,"total_tokens":0}}`...)
	writeJSON(w, http.StatusOK, json.RawMessage(text))
}

// embeddable says why the request cannot be answered by the model.
func (r *textRequest) embeddable(m *served) error {
	if r.Dimensions != nil && *r.Dimensions != m.width {
		return refuse(http.StatusBadRequest, "bad_dimensions", "dimensions %d: the model has %d", *r.Dimensions, m.width)
	}
	if !slices.Contains([]string{"", "float", "base64"}, r.Encoding) {
		return refuse(http.StatusBadRequest, "bad_encoding_format", "encoding_format %q: use float or base64", r.Encoding)
	}
	return nil
}
