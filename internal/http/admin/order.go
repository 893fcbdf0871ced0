package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Orders lists the pipelines of a process that read several source partitions in one order, with
// the state of that order.
type Orders struct {
	Pipelines []pipeline.Order `json:"pipelines"`
}

// copiedTimeout limits the wait for the state of source partitions. Their topic may be unreachable.
const copiedTimeout = 2 * time.Second

// showOrder replies with the state of the order of one or of all pipelines.
func (s *Server) showOrder(w http.ResponseWriter, r *http.Request) {
	all := Orders{Pipelines: []pipeline.Order{}}
	name := r.PathValue("pipeline")
	if name != "" {
		if _, err := inspect.FindRunner(s.options.Runners, name); err != nil {
			refuse(w, err)
			return
		}
	}
	for _, runner := range s.options.Runners {
		if o := runner.Order(time.Now()); o != nil && (name == "" || name == runner.Name()) {
			s.addCopied(r.Context(), runner, o)
			all.Pipelines = append(all.Pipelines, *o)
		}
	}
	if name != "" && len(all.Pipelines) == 0 {
		problem(w, http.StatusConflict, "only pipelines with repartition or inputs wait for source partitions", "pipeline %q reads its topic in its own order", name)
		return
	}
	ingest.WriteJSON(w, http.StatusOK, all)
}

// addCopied adds how far the source partitions are copied, as far as they can be reached.
func (s *Server) addCopied(ctx context.Context, r *pipeline.Runner, o *pipeline.Order) {
	ctx, cancel := context.WithTimeout(ctx, copiedTimeout)
	defer cancel()
	for _, read := range r.CopyReads() {
		lags, err := s.local.LagOf(ctx, read)
		o.Add(read.Topic, lags, err)
	}
}

// skip makes a pipeline stop waiting for a source partition.
func (s *Server) skip(w http.ResponseWriter, r *http.Request) {
	var command struct {
		Source string `json:"source"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&command); err != nil || command.Source == "" {
		problem(w, http.StatusBadRequest, `send {"source":"topic/partition"}`, "read the source partition: %v", err)
		return
	}
	runner, err := inspect.FindRunner(s.options.Runners, r.PathValue("pipeline"))
	if err != nil {
		refuse(w, err)
		return
	}
	done, err := runner.Skip(r.Context(), s.log, pipeline.Skip{Source: command.Source, By: access.From(r.Context()).Name, At: time.Now().UTC()})
	if err != nil {
		problem(w, http.StatusConflict, "", "%v", err)
		return
	}
	ingest.WriteJSON(w, http.StatusOK, done)
}

// Orders returns the state of the order of a pipeline of the process; "" means all pipelines.
func (c *Client) Orders(ctx context.Context, pipeline string) (all Orders, err error) {
	path := "/v1/order"
	if pipeline != "" {
		path += "/" + url.PathEscape(pipeline)
	}
	return all, c.call(ctx, http.MethodGet, path, nil, &all)
}

// Skip makes a pipeline of the process stop waiting for a source partition.
func (c *Client) Skip(ctx context.Context, of, source string) (done pipeline.Skipped, err error) {
	body, err := json.Marshal(map[string]string{"source": source})
	if err != nil {
		return done, err
	}
	return done, c.call(ctx, http.MethodPost, "/v1/order/"+url.PathEscape(of)+"/skip", body, &done, "Content-Type", "application/json")
}
