package reprocess

import (
	"encoding/json"
	"time"
)

// Request is a job as it is asked of a process.
type Request struct {
	File     string    `json:"file"`               // of the pipeline as it is to be, an absolute path
	Pipeline string    `json:"pipeline,omitempty"` // of the file; "" is its only one
	Models   []string  `json:"models,omitempty"`   // name@version, or name@version=file
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
	State    string    `json:"state,omitempty"` // as in Job
	Rate     float64   `json:"rate,omitempty"`
	Follow   bool      `json:"follow,omitempty"`
	Switch   bool      `json:"switch,omitempty"`
	Into     []string  `json:"into,omitempty"` // as in Job
	DryRun   bool      `json:"dry_run,omitempty"`
}

// Job returns what is to be done.
func (r *Request) Job() Job {
	return Job{From: r.From, To: r.To, Rate: r.Rate, Follow: r.Follow, Switch: r.Switch, Into: r.Into, State: r.State}
}

// String returns the request as Parse reads it.
func (r *Request) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("rederive: a request cannot be encoded: " + err.Error()) // plain data always can
	}
	return string(text)
}

// Parse reads what String returned.
func Parse(text string) (r Request, err error) { return r, json.Unmarshal([]byte(text), &r) }
