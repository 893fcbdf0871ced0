package admin

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
)

// renamed maps paths from before version 0.1.0 to the current paths.
var renamed = map[string]string{
	"/v1/parked":   "/v1/queue",
	"/v1/passage":  "/v1/timing",
	"/v1/rederive": "/v1/reprocess",
}

// endpoints returns the server's own endpoints, without those of Options.
func (s *Server) endpoints() []access.Endpoint {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	const data, operator, health = server.Data, server.Operator, server.Health
	ingested := ingest.NewHandler(s.log, s.options.Full, s.backlogs.admit)
	return []access.Endpoint{
		{Method: get, Pattern: "/healthz", Role: access.Public, Class: health, Summary: "Say that the process answers.", Handler: healthy(func() string { return "" })},
		{Method: get, Pattern: "/readyz", Role: access.Public, Class: health, Summary: "Say whether the process should get work.", Handler: healthy(s.unready)},
		{Method: get, Pattern: "/metrics", Role: access.Metrics, Class: operator, Summary: "Metrics, as Prometheus reads them.", Handler: s.metrics().ServeHTTP},
		{Method: post, Pattern: "/v1/topics/{topic}", Role: access.Produce, Of: "topic", Class: data, Summary: "Append records: NDJSON, or CSV with Content-Type text/csv.", Handler: s.guarded(ingested)},
		{Method: put, Pattern: "/v1/topics/{topic}", Role: access.Admin, Class: operator, Summary: "Create a topic.", Handler: s.createTopic},
		{Method: del, Pattern: "/v1/topics/{topic}", Role: access.Admin, Class: operator, Summary: "Delete a topic and its records.", Handler: s.deleteTopic},
		{Method: get, Pattern: "/v1/topics", Role: access.Known, Class: operator, Summary: "List the topics that the caller may use.", Handler: s.topics},
		{Method: get, Pattern: "/v1/topics/{topic}/records", Role: access.Read, Of: "topic", Class: operator, Lasts: follows, Summary: "Read the records of a topic; with follow=true as they come.", Handler: s.records},
		{Method: get, Pattern: "/v1/state/{pipeline}", Role: access.Admin, Class: operator, Summary: "Read the state of a pipeline.", Handler: s.state},
		{Method: get, Pattern: "/v1/state/{pipeline}/{key...}", Role: access.Admin, Class: operator, Summary: "Read the state of a key.", Handler: s.state},
		{Method: get, Pattern: "/v1/lag", Role: access.Metrics, Class: operator, Summary: "Show how far pipelines are behind.", Handler: s.showLag},
		{Method: get, Pattern: "/v1/lag/{pipeline}", Role: access.Metrics, Class: operator, Summary: "Show how far a pipeline is behind.", Handler: s.showLag},
		{Method: get, Pattern: "/v1/order", Role: access.Metrics, Class: operator, Summary: "Show which source partitions events wait for.", Handler: s.showOrder},
		{Method: get, Pattern: "/v1/order/{pipeline}", Role: access.Metrics, Class: operator, Summary: "Show which source partitions events of a pipeline wait for.", Handler: s.showOrder},
		{Method: post, Pattern: "/v1/order/{pipeline}/skip", Role: access.Admin, Class: operator, Summary: "Do not wait for a source partition any more.", Handler: s.skip},
		{Method: post, Pattern: "/v1/queue/{pipeline}", Role: access.Admin, Class: operator, Summary: "Retry or drop events of the async queue.", Handler: s.command},
		{Method: get, Pattern: "/v1/dlq/{pipeline}", Role: access.Admin, Class: operator, Summary: "Read the dead letters of a pipeline.", Handler: s.letters},
		{Method: post, Pattern: "/v1/dlq/{pipeline}/{do}", Role: access.Admin, Class: operator, Summary: "Redrive or drop dead letters.", Handler: s.change},
		{Method: post, Pattern: "/v1/reprocess", Role: access.Owner, Class: operator, Summary: "Reprocess the input of a pipeline.", Handler: s.reprocess},
		{Method: get, Pattern: "/v1/status", Role: access.Metrics, Class: operator, Summary: "Show what the process runs.", Handler: s.status},
		{Method: get, Pattern: "/v1/clients", Role: access.Admin, Class: operator, Summary: "List the clients of the gateway.", Handler: s.clients},
		{Method: get, Pattern: "/v1/timing", Role: access.Admin, Class: operator, Summary: "Show how long an event took, by phase.", Handler: s.timing},
		{Method: get, Pattern: "/v1/budget/{pipeline}", Role: access.Metrics, Class: operator, Summary: "Show the latency of a pipeline against its budget.", Handler: s.budget},
	}
}

func healthy(wrong func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if why := wrong(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// follows reports whether a request for records waits for new ones.
func follows(r *http.Request) bool {
	query, err := url.ParseQuery(r.URL.RawQuery)
	return err == nil && query.Has("follow")
}

// guarded passes on only appends to topics that the caller may write.
func (s *Server) guarded(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		topic := r.PathValue("topic")
		pipeline, written := s.local.Writer(topic)
		takes, err := s.local.Takes(r.Context(), topic)
		switch {
		case err != nil:
			refuse(w, err)
			return
		case !takes:
			problem(w, http.StatusForbidden, "append to the input of a pipeline", "topic %q belongs to the engine and accepts no other records", topic)
			return
		case written && !access.From(r.Context()).Names(access.Produce, topic):
			problem(w, http.StatusForbidden, "append to the input of the pipeline, or use a token of the token file with this exact topic in its role produce", "topic %q is written by pipeline %q: consumers could not tell the records apart", topic, pipeline)
			return
		}
		next.ServeHTTP(w, r)
	}
}
