package admin

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"

	"github.com/afterbay/afterbay/internal/ops/reprocess"
)

// reprocess handles POST /v1/reprocess, with the request in the query. It runs as long as the job.
// The request names a file, which may name programs to run, so the required role is access.Owner.
func (s *Server) reprocess(w http.ResponseWriter, r *http.Request) {
	request, err := reprocess.Parse(r.URL.Query().Get("job"))
	if err != nil {
		problem(w, http.StatusBadRequest, "afterbay reprocess sends it", "read the job: %v", err)
		return
	}
	if s.options.Reprocess == nil {
		problem(w, http.StatusNotFound, "afterbay run does", "this process reprocesses no pipeline")
		return
	}
	streamLines(s, w, r, func(ctx context.Context) iter.Seq2[reprocess.Progress, error] {
		return s.options.Reprocess(ctx, request)
	}, func(dst []byte, p reprocess.Progress) []byte {
		text, err := json.Marshal(p)
		if err != nil {
			panic("serve: progress cannot be encoded: " + err.Error()) // plain data can always be encoded
		}
		return append(dst, text...)
	})
}

// ErrDeriving means that the process is already running another job.
var ErrDeriving = errors.New("a pipeline of this process is being reprocessed: wait for it, or end that command")

// Reprocess makes the process reprocess a pipeline, and yields the progress.
func (c *Client) Reprocess(ctx context.Context, request reprocess.Request) iter.Seq2[reprocess.Progress, error] {
	path := "/v1/reprocess?job=" + url.QueryEscape(request.String())
	return readLines(ctx, c, http.MethodPost, path, func(line []byte) (p reprocess.Progress, err error) { return p, json.Unmarshal(line, &p) })
}
