package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// timing replies with the times of an event in a pipeline.
func (s *Server) timing(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	partition, err := strconv.ParseInt(values.Get("partition"), 10, 32)
	offset, err1 := strconv.ParseInt(values.Get("offset"), 10, 64)
	if err = errors.Join(err, err1); err != nil || values.Get("topic") == "" {
		problem(w, http.StatusBadRequest, "send topic, partition and offset, and pipeline where several read the topic", "query %q: partition or offset is not a whole number, or topic is missing", r.URL.RawQuery)
		return
	}
	for _, runner := range s.options.Runners {
		if name := values.Get("pipeline"); name != "" && name != runner.Name() {
			continue
		}
		for _, p := range slices.Backward(runner.Timings()) { // newest first
			if p.Has(values.Get("topic"), int32(partition), offset) {
				ingest.WriteJSON(w, http.StatusOK, inspect.NewTiming(runner.Name(), p).Of(offset))
				return
			}
		}
	}
	problem(w, http.StatusNotFound, "a process keeps the times of its newest events", "no times of %s/%d@%d are kept", values.Get("topic"), partition, offset)
}

// Timing returns the times of an event in a pipeline, if the process still has them.
func (c *Client) Timing(ctx context.Context, pipeline string, p stream.Partition, offset stream.Offset) (timing inspect.Timing, found bool, err error) {
	values := url.Values{
		"pipeline": {pipeline}, "topic": {p.Topic},
		"partition": {strconv.Itoa(int(p.Index))}, "offset": {strconv.FormatInt(int64(offset), 10)},
	}
	err = c.call(ctx, http.MethodGet, "/v1/timing?"+values.Encode(), nil, &timing)
	var failure *StatusError
	if errors.As(err, &failure) && failure.Status == http.StatusNotFound {
		return inspect.Timing{}, false, nil
	}
	return timing, err == nil, err
}
