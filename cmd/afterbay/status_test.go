package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/journal"
)

func TestStatusIsATableOfWhatThereIs(t *testing.T) {
	started := time.Unix(1000, 0)
	status := admin.Status{
		Version: "1.2", PID: 7, Started: started, Checkpoint: &admin.Checkpoint{Number: 3, Took: 0.0123456, Bytes: 5 << 20, Behind: 9},
		Pipelines: []pipeline.Snapshot{
			{Name: "plain", Counts: observe.Counts{Events: 5, Outputs: 4, DeadLetters: 1}, Stopped: &control.Stop{}},
			{
				Name: "support", Counts: observe.Counts{Events: 100, Outputs: 90}, Lag: 2, Queued: 8, Times: pipeline.Times{Events: 92, P50: 0.02, P99: 1.5},
				Cases: []pipeline.Case{{Case: "chat", Times: pipeline.Times{Events: 80, P50: 0.01, P99: 0.03}}, {Case: "call", Times: pipeline.Times{Events: 12, P50: 1, P99: 2}, Limit: 1.5, Missed: 4}},
				Parts: pipeline.Parts{
					Scored:    []pipeline.Scored{{Model: "asr@1", Rows: 42, Faults: 3}, {Model: "ocr@1", Rows: 50, Refused: 2}},
					Endpoints: []pipeline.Endpoint{{Model: "asr@1", State: "open", Calls: 40, Faults: 3, Running: 1, Limit: 2}},
					Sinks:     []pipeline.Sink{{Sink: "artifacts", Delivered: 90, Older: 2, Repeated: 1, Calls: 12, Failures: 3, Dead: 1, Waiting: 4, Resting: true, Fresh: pipeline.Times{P50: 0.5, P99: 3}}},
					Groups:    []pipeline.Group{{Group: "parts", Open: 3, Bytes: 1 << 21, Duplicates: 5, Late: 1}},
					Journal:   []journal.Count{{Model: "asr@1", Calls: 37, Hits: 4, Again: 1, Paid: 37, Saved: 4}},
				},
			},
		},
	}
	var out strings.Builder
	if err := printStatus(&out, &status, started.Add(90*time.Second)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	want := `afterbay 1.2, process 7, since 1m30s

PIPELINE  EVENTS  OUTPUTS  DEAD LETTERS  LAG  QUEUED  P50   P99
plain     5       4        1             0    0       0s    0s    stopped: afterbay dlq stats plain
support   100     90       0             2    8       20ms  1.5s

PIPELINE  CASE  EVENTS  P50   P99   BUDGET  MISSED
support   chat  80      10ms  30ms  -       0
support   call  12      1s    2s    1.5s    4

PIPELINE  MODEL  ROWS  REFUSED  FAULTS  RATE
support   asr@1  42    0        3       7.1%
support   ocr@1  50    2        0       4.0%

PIPELINE  ENDPOINT OF  STATE  CALLS  FAULTS  RATE  RUNNING  LIMIT
support   asr@1        open   40     3       7.5%  1        2

PIPELINE  JOURNAL OF  CALLS  HITS  AGAIN  UNITS PAID  UNITS SAVED
support   asr@1       37     4     1      37          4

PIPELINE  GROUP  OPEN  STATE    DUPLICATES  LATE
support   parts  3     2.0 MiB  5           1

PIPELINE  SINK       DELIVERED  OLDER  REPEATED  CALLS  FAILED  DEAD LETTERS  WAITING  FRESH P50  FRESH P99
support   artifacts  90         2      1         12     3       1             4        500ms      3s         failing: the sink only probes it

LAG: records that are not committed yet. P50, P99: times of events, see afterbay budget PIPELINE
state: 5.0 MiB on disk; 3 checkpoints since the start, the newest took 12.3ms
after a crash, a restart replays the last 9 writes of the log
`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Error(diff)
	}
}
