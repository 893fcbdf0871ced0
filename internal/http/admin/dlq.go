package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// letterLine is a dead letter as a JSON line.
type letterLine struct {
	Settled bool            `json:"settled"`
	Record  json.RawMessage `json:"record"`
}

func appendLetter(dst []byte, l deadletter.Letter) []byte {
	dst = strconv.AppendBool(append(dst, `{"settled":`...), l.Settled)
	return append(inspect.AppendRecord(append(dst, `,"record":`...), &l.Record), '}')
}

func parseLetter(line []byte, pipeline string) (deadletter.Letter, error) {
	var read letterLine
	if err := json.Unmarshal(line, &read); err != nil {
		return deadletter.Letter{}, err
	}
	r, err := inspect.ParseRecord(read.Record, deadletter.Topic(pipeline))
	l := deadletter.Read(r)
	l.Settled = read.Settled
	return l, err
}

// filterValues returns a filter as URL query values.
func filterValues(f *deadletter.Filter) url.Values {
	values := url.Values{}
	for name, text := range map[string]string{"stage": f.Stage, "reason": f.Reason, "key": f.Key, "id": f.ID} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for _, p := range f.Partitions {
		values.Add("partition", strconv.Itoa(int(p)))
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return values
}

// parseFilter parses the result of filterValues.
func parseFilter(values url.Values) (f deadletter.Filter, err error) {
	f = deadletter.Filter{Stage: values.Get("stage"), Reason: values.Get("reason"), Key: values.Get("key"), ID: values.Get("id")}
	for _, text := range values["partition"] {
		p, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return f, err
		}
		f.Partitions = append(f.Partitions, int32(p))
	}
	for name, into := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if values.Has(name) {
			if *into, err = time.Parse(time.RFC3339Nano, values.Get(name)); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

const filterHint = "stage, reason, key and id are texts, partition is a number and may be repeated, since and until are times of RFC 3339"

func (s *Server) letters(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	f, err := parseFilter(values)
	if err != nil {
		problem(w, http.StatusBadRequest, filterHint, "read the query: %v", err)
		return
	}
	all := values.Get("all") == "true"
	streamLines(s, w, r, func(ctx context.Context) iter.Seq2[deadletter.Letter, error] {
		return s.local.Letters(ctx, r.PathValue("pipeline"), f, all)
	}, appendLetter)
}

func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	f, err := parseFilter(values)
	limit := 0
	if err == nil && values.Has("limit") {
		limit, err = strconv.Atoi(values.Get("limit"))
	}
	if err != nil {
		problem(w, http.StatusBadRequest, filterHint+", limit is a number", "read the query: %v", err)
		return
	}
	job := deadletter.Job{Pipeline: r.PathValue("pipeline"), Filter: f, Drop: r.PathValue("do") == "drop", Limit: max(limit, 0)}
	streamLines(s, w, r, func(ctx context.Context) iter.Seq2[deadletter.Progress, error] { return s.local.Settle(ctx, job) }, appendProgress)
}

func appendProgress(dst []byte, p deadletter.Progress) []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic("serve: progress cannot be encoded: " + err.Error()) // plain data can always be encoded
	}
	return append(dst, text...)
}

// change handles POST /v1/dlq/{pipeline}/{do}.
func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("do") {
	case "redrive", "drop":
		s.settle(w, r)
	case "resume":
		if err := s.local.Resume(r.Context(), r.PathValue("pipeline")); errors.Is(err, inspect.ErrNotStopped) {
			problem(w, http.StatusConflict, "see afterbay dlq stats", "%v", err)
		} else if err != nil {
			refuse(w, err)
		} else {
			ingest.WriteJSON(w, http.StatusOK, struct{}{})
		}
	default:
		problem(w, http.StatusNotFound, "there are redrive, drop and resume", "no such thing as %s", r.URL.Path)
	}
}

// Letters implements Directory.
func (c *Client) Letters(ctx context.Context, pipeline string, f deadletter.Filter, all bool) iter.Seq2[deadletter.Letter, error] {
	values := filterValues(&f)
	values.Set("all", strconv.FormatBool(all))
	path := "/v1/dlq/" + url.PathEscape(pipeline) + "?" + values.Encode()
	return readLines(ctx, c, http.MethodGet, path, func(line []byte) (deadletter.Letter, error) { return parseLetter(line, pipeline) })
}

// Settle implements Directory.
func (c *Client) Settle(ctx context.Context, job deadletter.Job) iter.Seq2[deadletter.Progress, error] {
	do, values := "redrive", filterValues(&job.Filter)
	if job.Drop {
		do = "drop"
	}
	values.Set("limit", strconv.Itoa(job.Limit))
	path := "/v1/dlq/" + url.PathEscape(job.Pipeline) + "/" + do + "?" + values.Encode()
	return readLines(ctx, c, http.MethodPost, path, func(line []byte) (p deadletter.Progress, err error) { return p, json.Unmarshal(line, &p) })
}

// Resume implements Directory.
func (c *Client) Resume(ctx context.Context, pipeline string) error {
	return c.call(ctx, http.MethodPost, "/v1/dlq/"+url.PathEscape(pipeline)+"/resume", nil, nil)
}

// standing returns, for readiness, which pipeline is stopped because of its dead letters, or that
// no pipeline is left running. It returns "" if neither is true.
func standing(runners []*pipeline.Runner) string {
	ended := 0
	for _, r := range runners {
		if why := r.Ended(); why != nil {
			if ended++; ended == len(runners) {
				return fmt.Sprintf("no pipeline is left running: pipeline %s ended: %v", r.Name(), why)
			}
			continue
		}
		if stop := r.Snapshot().Stopped; stop != nil {
			return fmt.Sprintf("pipeline %s is stopped since %s: %d of %d events within %v became dead letters: see afterbay dlq stats %s, and resume it by afterbay dlq resume %s",
				r.Name(), stop.Since.UTC().Format(time.RFC3339), stop.Dead, stop.Events, stop.Per, r.Name(), r.Name())
		}
	}
	return ""
}

// awaiting returns, for readiness, which pipeline waits for a schema because its schema registry is
// unavailable. It returns "" if no pipeline does.
func awaiting(runners []*pipeline.Runner) string {
	for _, r := range runners {
		if r.Ended() != nil || r.Schemas == nil {
			continue
		}
		if stats := r.Schemas.Stats(); stats.Stalled {
			return fmt.Sprintf("pipeline %s waits for the schema registry: %s", r.Name(), stats.Away)
		}
	}
	return ""
}
