package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/task/async"
)

// Ordered is the number of events that a command affected.
type Ordered struct {
	Events int `json:"events"`
}

func (s *Server) command(w http.ResponseWriter, r *http.Request) {
	command := async.Command{Partition: -1, Offset: -1}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&command); err != nil {
		problem(w, http.StatusBadRequest, `send {"drop":false,"partition":-1,"offset":-1}`, "read the order: %v", err)
		return
	}
	runner, err := inspect.FindRunner(s.options.Runners, r.PathValue("pipeline"))
	if err != nil {
		refuse(w, err)
		return
	}
	events, err := runner.Command(r.Context(), command)
	if err != nil {
		problem(w, http.StatusConflict, "", "%v", err)
		return
	}
	ingest.WriteJSON(w, http.StatusOK, Ordered{events})
}

// Command applies a command to the events in a pipeline's async queue.
func (c *Client) Command(ctx context.Context, pipeline string, command async.Command) (events int, err error) {
	body, err := json.Marshal(command)
	if err != nil {
		return 0, err
	}
	var reply Ordered
	err = c.call(ctx, http.MethodPost, "/v1/queue/"+url.PathEscape(pipeline), body, &reply, "Content-Type", "application/json")
	return reply.Events, err
}
