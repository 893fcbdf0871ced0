package observe_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/observe"
)

func TestCountsNameThePrioritiesInJSON(t *testing.T) {
	want := observe.Counts{QueueCounts: observe.QueueCounts{Dispatched: observe.ByPriority[uint64]{3, 2, 1}, WaitSeconds: observe.ByPriority[float64]{0, 0.5, 1}}}
	data, err := json.Marshal(want)
	if err != nil || !strings.Contains(string(data), `"async_queue_dispatched":{"high":3,"normal":2,"low":1},"async_queue_wait_seconds":{"high":0,"normal":0.5,"low":1}`) {
		t.Fatalf("%s, %v", data, err)
	}
	var got observe.Counts
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
