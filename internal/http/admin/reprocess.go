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

// reprocess answers POST /v1/reprocess, whose request is in the query: it takes as
// long as the job does. It names a file, which may say what programs are to be run:
// so its role is access.Owner.
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
			panic("serve: progress cannot be encoded: " + err.Error()) // plain data always can
		}
		return append(dst, text...)
	})
}

// ErrDeriving says that a process has another job to do.
var ErrDeriving = errors.New("a pipeline of this process is being reprocessed: wait for it, or end that command")

// Reprocess has a process derive a pipeline again, and yields how far it is.
func (c *Client) Reprocess(ctx context.Context, request reprocess.Request) iter.Seq2[reprocess.Progress, error] {
	path := "/v1/reprocess?job=" + url.QueryEscape(request.String())
	return readLines(ctx, c, http.MethodPost, path, func(line []byte) (p reprocess.Progress, err error) { return p, json.Unmarshal(line, &p) })
}
