package serving

import (
	"context"
	"net/http"
	"strings"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
)

// Endpoints returns all endpoints of the handler, for a server that has others too. A caller may
// use the models that its token has the role infer for.
func (h *Handler) Endpoints() []access.Endpoint {
	const get, post = http.MethodGet, http.MethodPost
	const data, stream, operator, health = server.Data, server.Stream, server.Operator, server.Health
	infer := func(method, pattern string, class server.Class, summary string, handle http.HandlerFunc) access.Endpoint {
		e := access.Endpoint{Method: method, Pattern: pattern, Role: access.Infer, Class: class, Summary: summary, Handler: handle}
		if strings.Contains(pattern, "{name}") {
			e.Of = "name"
		}
		return e
	}
	known := func(class server.Class, role access.Role, pattern, summary string, handle http.HandlerFunc) access.Endpoint {
		return access.Endpoint{Method: get, Pattern: pattern, Role: role, Class: class, Summary: summary, Handler: handle}
	}
	const scored = "Score a stream of records: NDJSON or CSV in, the same out."
	list := []access.Endpoint{
		infer(post, "/v1/models/{call}", stream, "Score a stream of records, by {model}:predict-stream.", h.callModel),
		infer(post, "/v1/models/{name}/predict", stream, scored, h.callModel),
		infer(post, "/v1/models/{name}/versions/{call}", stream, "Score a stream of records, by {version}:predict-stream.", h.callModel),
		infer(post, "/v1/models/{name}/versions/{version}/predict", stream, scored, h.callModel),
		infer(get, "/v1/models", data, "List the models that the caller may ask.", h.listModels),
		infer(get, "/v1/models/{name}", data, "Describe a model.", h.showModel),
		infer(post, "/v1/moderations", data, "Classify texts, as OpenAI's API does.", h.moderate),
		infer(post, "/v1/embeddings", data, "Embed texts, as OpenAI's API does.", h.embed),
		known(data, access.Known, "/v2", "Describe the server, by the Open Inference Protocol.", h.serverMetadata),
		known(health, access.Public, "/v2/health/live", "Say that the server answers.", h.healthy),
		known(health, access.Public, "/v2/health/ready", "Say whether the server takes requests.", h.healthy),
		infer(get, "/v2/models", data, "List the models that the caller may ask, by the Open Inference Protocol.", h.modelIndex),
		infer(get, "/v2/models/{name}", data, "Describe the inputs and outputs of a model.", h.modelMetadata),
		infer(get, "/v2/models/{name}/ready", data, "Say whether a model takes requests.", h.modelReady),
		infer(get, "/v2/models/{name}/versions/{version}", data, "Describe the inputs and outputs of a version.", h.modelMetadata),
		infer(get, "/v2/models/{name}/versions/{version}/ready", data, "Say whether a version takes requests.", h.modelReady),
		infer(post, "/v2/models/{name}/infer", data, "Score a batch of rows, as tensors.", h.inferREST),
		infer(post, "/v2/models/{name}/versions/{version}/infer", data, "Score a batch of rows with a version.", h.inferREST),
		infer(post, "/"+service+"/{method}", data, "gRPC of the Open Inference Protocol.", h.grpc.call),
		{Method: post, Pattern: "/" + healthService + "/{method}", Role: access.Public, Class: server.Probe, Summary: "gRPC: health.", Handler: h.grpc.callAbout},
		{Method: post, Pattern: "/" + healthService + "/Watch", Role: access.Public, Class: server.Watch, Summary: "gRPC: health, as it changes.", Handler: h.grpc.callAbout},
		{Method: post, Pattern: "/" + reflectService + "/{method}", Role: access.Known, Class: operator, Lasts: lastsAbout, Summary: "gRPC: services and messages.", Handler: h.grpc.callAbout},
		{Method: post, Pattern: "/" + reflectService1a + "/{method}", Role: access.Known, Class: operator, Lasts: lastsAbout, Summary: "gRPC: services and messages, as older clients ask.", Handler: h.grpc.callAbout},
		known(operator, access.Known, "/openapi.json", "The OpenAPI document of these endpoints.", h.showDocument),
	}
	for i := range list {
		e := &list[i]
		if strings.HasPrefix(e.Pattern, "/"+service) {
			e.Lasts = func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/"+streamCall) }
		} else if e.Role == access.Infer {
			e.Handler = h.measured(e.Method+" "+e.Pattern, e.Handler)
		}
		e.Handler = correlated(e.Handler)
	}
	return list
}

// correlated adds the correlation id of the request to the reply.
func correlated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get(correlation); id != "" {
			w.Header().Set(correlation, id)
		}
		next(w, r)
	}
}

// allowed returns a refusal if the caller may not use a model.
func allowed(ctx context.Context, name string) *refusal {
	why := access.Check(ctx, access.Infer, name)
	if why == nil {
		return nil
	}
	return refuse(why.Status, why.Code, "%s", why.Error())
}

// modelIndex lists the models for the Open Inference Protocol.
func (h *Handler) modelIndex(w http.ResponseWriter, r *http.Request) {
	type line struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		State   string `json:"state"`
		Reason  string `json:"reason"`
	}
	list := []line{}
	for _, m := range h.models.order {
		if allowed(r.Context(), m.Name) == nil {
			list = append(list, line{m.Name, m.Version, "READY", ""})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
}
