package remote_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// TestFaultOfAServerIsOneDeadLetterEach asks faulty servers for the scores of
// four events: all are dead letters that say why, and no event is lost.
func TestFaultOfAServerIsOneDeadLetterEach(t *testing.T) {
	for form, url := range map[string]string{"grpc": "grpc://", "binary": "http://", "json": "http://"} {
		host := remote.StartFake(t)
		for fault, reason := range map[string]string{
			"sum":     "",
			"never":   "late: no answer in time",
			"500":     "failed: ",
			"shape":   " rows of 1",
			"nan":     "malformed answer: ",
			"garbage": "malformed answer: ",
			"half":    "unreachable: ",
		} {
			t.Run(form+"/"+fault, func(t *testing.T) {
				host := host
				if fault == "half" { // by gRPC such a server is at its end
					host = remote.StartFake(t)
				}
				m, err := remote.Load(t.Context(), remote.Options{
					URL: url + host, JSON: form == "json", Model: fault, Timeout: 20 * time.Second,
					Inputs:  []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}},
					Outputs: []model.Output{{Name: "sum", Size: 1}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if fault == "never" {
					remote.SetTimeout(m, 50*time.Millisecond) // which to load it may take
				}
				good, dead := run(t, m)
				if fault == "sum" {
					if fmt.Sprint(good) != `[{"remote_score":1} {"remote_score":2} {"remote_score":3} {"remote_score":4}]` || len(dead) > 0 {
						t.Errorf("scores %v, dead letters %v", good, dead)
					}
					return
				}
				if len(good) > 0 || len(dead) != 4 {
					t.Errorf("scores %v, %d dead letters of 4 events", good, len(dead))
				}
				for _, why := range dead {
					if !strings.Contains(why, reason) {
						t.Errorf("the reason lacks %q:\n%s", reason, why)
					}
				}
			})
		}
	}
}

// run scores four events in a pipeline and returns its outputs and the reasons
// of its dead letters.
func run(t *testing.T, m model.Model) (outputs, reasons []string) {
	t.Helper()
	runner, err := builtin.New(lang.Pipeline{
		Name: "remote",
		Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "a", Type: "number"}, {Name: "b", Type: "number"},
		}},
		Models: []lang.Model{{
			Name: "remote", Go: "remote", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}},
			Call: &lang.Calling{Expire: time.Millisecond, Backoff: lang.Backoff{Base: 2 * time.Millisecond}},
		}},
		Steps: []lang.Step{
			&steps.Score{Model: "remote", Inputs: []string{"a", "b"}},
			&steps.Emit{Topic: "out", Names: []string{"remote.score"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"remote": m}},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var events []stream.Record
	for i := range 4 {
		value := fmt.Appendf(nil, `{"k":"ann","a":%d,"b":1}`, i)
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: value})
	}
	answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
	if err != nil {
		t.Fatal(err)
	}
	letters := answer[stream.Partition{Topic: "remote.dlq"}]
	for i := range letters {
		reasons = append(reasons, header.Get(&letters[i], header.Error))
	}
	return answer.Values("out"), reasons
}
