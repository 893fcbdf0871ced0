package serving

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

const headerLength = "Inference-Header-Content-Length" // length of the JSON before binary tensors

var extensions = []string{"binary_tensor_data", "model_stream_infer", "predict_stream"}

func (h *Handler) healthy(w http.ResponseWriter, r *http.Request) {
	if h.ctx.Err() != nil {
		h.refusal(r, http.StatusServiceUnavailable, "shutting_down", "the process is ending").write(w)
		return
	}
	key := "ready"
	if strings.HasSuffix(r.URL.Path, "live") {
		key = "live"
	}
	writeJSON(w, http.StatusOK, map[string]bool{key: true})
}

func (h *Handler) serverMetadata(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"name": "afterbay", "version": h.options.Version, "extensions": extensions})
}

func (h *Handler) modelReady(w http.ResponseWriter, r *http.Request) {
	if m, ok := h.model(w, r, r.PathValue("name"), r.PathValue("version")); ok {
		writeJSON(w, http.StatusOK, map[string]any{"name": m.Name, "ready": true})
	}
}

func (h *Handler) modelMetadata(w http.ResponseWriter, r *http.Request) {
	m, ok := h.model(w, r, r.PathValue("name"), r.PathValue("version"))
	if !ok {
		return
	}
	inputs, outputs := m.tensors()
	writeJSON(w, http.StatusOK, map[string]any{
		"name": m.Name, "versions": h.models.versions(m.Name), "platform": m.platform(), "inputs": inputs, "outputs": outputs,
	})
}

// versions returns the versions of a model in the given order.
func (r *registry) versions(name string) []string {
	var list []string
	for _, m := range r.byName[name] {
		list = append(list, m.Version)
	}
	return list
}

// platform returns the model's platform, for clients that know frameworks.
func (m *served) platform() string { return "afterbay_" + m.kind }

// inferREST serves inference of the protocol over HTTP.
func (h *Handler) inferREST(w http.ResponseWriter, r *http.Request) {
	m, ok := h.model(w, r, r.PathValue("name"), r.PathValue("version"))
	if !ok {
		return
	}
	room := server.RoomOf(r.Context())
	defer room.Rest()
	rest, in, err := h.readInference(r, m, room)
	var answers []answer
	if err == nil {
		answers, err = m.infer(r.Context(), in, room)
	}
	if err == nil {
		err = writeAnswers(w, m, rest, answers, room)
	}
	if err != nil {
		asRefusal(err, true).write(w)
	}
}

// asRefusal returns the reply for an error.
func asRefusal(err error, plain bool) *refusal {
	var bad *refusal
	if why, ok := server.AsRefusal(err); ok {
		bad = refuse(why.Status, why.Code, "%s", why.Error())
	} else if !errors.As(err, &bad) {
		bad = refuse(http.StatusBadRequest, "bad_request", "%v", err)
	}
	bad.plain = plain
	return bad
}

// readBody reads the body of a request that is not a stream.
func (h *Handler) readBody(r *http.Request) ([]byte, error) {
	return server.ReadBody(r, h.options.BodyBytesMax, server.Gzip, server.Deflate, server.Zstd)
}

// readInference reads a request: JSON, followed by the bytes of tensors without data in the JSON. A
// header gives the length of the JSON.
func (h *Handler) readInference(r *http.Request, m *served, room *server.Room) (*restRequest, *request, error) {
	body, err := h.readBody(r)
	if err != nil {
		return nil, nil, err
	}
	if err := room.Work(); err != nil {
		return nil, nil, err
	}
	var raw []byte
	if text := r.Header.Get(headerLength); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(body) {
			return nil, nil, fmt.Errorf("%s %q of a body of %d bytes", headerLength, text, len(body))
		}
		body, raw = body[:n], body[n:]
	}
	rest, err := parseREST(body, m)
	if err != nil {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	in := &request{id: rest.id}
	for i := range rest.inputs {
		one := &rest.inputs[i]
		t := tensor{name: one.name, datatype: one.datatype, shape: one.shape}
		if one.size != nil {
			n, err := strconv.Atoi(string(one.size))
			if err != nil || n < 0 || n > len(raw) {
				return nil, nil, fmt.Errorf("input %q: binary_data_size %s, and %d bytes are left", one.name, one.size, len(raw))
			}
			if t, err = unpack(&oip.Tensor{Name: one.name, Datatype: one.datatype, Shape: one.shape, Raw: raw[:n]}, room); err != nil {
				return nil, nil, err
			}
			raw = raw[n:]
		} else if err := t.setJSON(one.data, room); err != nil {
			return nil, nil, err
		}
		in.inputs = append(in.inputs, t)
	}
	if len(raw) > 0 {
		return nil, nil, fmt.Errorf("%d bytes behind the last tensor", len(raw))
	}
	for _, o := range rest.outputs {
		in.outputs = append(in.outputs, o.name)
	}
	return rest, in, nil
}

// binary reports whether the client wants an output in binary form.
func (r *restRequest) binary(name string) bool {
	for _, o := range r.outputs {
		if o.name == name {
			return o.binary
		}
	}
	return r.binaryAll
}

// writeAnswers sends the outputs. An error means that there is no memory for them; nothing has been
// written then.
func writeAnswers(w http.ResponseWriter, m *served, rest *restRequest, answers []answer, room *server.Room) (err error) {
	text := appendString([]byte(`{"model_name":`), []byte(m.Name))
	text = appendString(append(text, `,"model_version":`...), []byte(m.Version))
	if rest.id != "" {
		text = appendString(append(text, `,"id":`...), []byte(rest.id))
	}
	text = append(text, `,"outputs":[`...)
	var raw []byte
	binary := false
	for i, a := range answers {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendString(append(text, `{"name":`...), []byte(a.name))
		text = fmt.Appendf(text, `,"datatype":%q,"shape":[%d,%d],`, a.datatype(), a.shape[0], a.shape[1])
		if rest.binary(a.name) {
			binary = true
			before := len(raw)
			if raw, err = a.appendRaw(raw, room); err != nil {
				return err
			}
			text = fmt.Appendf(text, `"parameters":{"binary_data_size":%d}}`, len(raw)-before)
			continue
		}
		if a.kind == model.Bytes {
			text = append(text, `"parameters":{"content_type":"base64"},`...) // the notation of MLServer
		}
		if text, err = a.appendJSON(append(text, `"data":`...), room); err != nil {
			return err
		}
		text = append(text, '}')
	}
	text = append(text, ']', '}')
	w.Header().Set("Content-Type", "application/json")
	if binary {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(headerLength, strconv.Itoa(len(text)))
	}
	room.Rest()
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+len(raw)))
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(text); err == nil {
		_, _ = w.Write(raw) // an error means that the client has disconnected
	}
	return nil
}
