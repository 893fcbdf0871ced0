package reprocess

import (
	"encoding/json"
	"time"
)

// Request is a job in the form sent to a process.
type Request struct {
	File     string    `json:"file"`               // file of the new version of the pipeline; an absolute path
	Pipeline string    `json:"pipeline,omitempty"` // pipeline in the file; "" is its only one
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

// Job returns the job of the request.
func (r *Request) Job() Job {
	return Job{From: r.From, To: r.To, Rate: r.Rate, Follow: r.Follow, Switch: r.Switch, Into: r.Into, State: r.State}
}

// String encodes the request; Parse decodes it.
func (r *Request) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("rederive: a request cannot be encoded: " + err.Error()) // plain data can always be encoded
	}
	return string(text)
}

// Parse decodes a request that String encoded.
func Parse(text string) (r Request, err error) { return r, json.Unmarshal([]byte(text), &r) }
