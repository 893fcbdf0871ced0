package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// copied is a log with states that are restored, and copies of others.
type copied struct{ *memory.Log }

func (copied) Restores() []stream.Restoring {
	return []stream.Restoring{{Group: "g", Partition: stream.Partition{Topic: "in", Index: 3}, Left: 70, Took: 1500 * time.Millisecond}}
}

func (copied) Standbys() []stream.Standby {
	return []stream.Standby{{Group: "g", Partition: stream.Partition{Topic: "in", Index: 4}, Behind: 12}}
}

func TestRestoresAndStandbysAreMetrics(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(Unheard(copied{log}, Options{}).snapshot))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()+labels(m)] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"afterbay_restore_remaining_records group=g partition=3 topic=in": 70, "afterbay_restore_seconds group=g partition=3 topic=in": 1.5,
		"afterbay_standby_lag_records group=g partition=4 topic=in": 12,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
