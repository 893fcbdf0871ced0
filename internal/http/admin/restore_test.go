package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/stream"
)

type restoring []stream.Restoring

func (r restoring) Restores() []stream.Restoring { return r }

type following []stream.Standby

func (f following) Standbys() []stream.Standby { return f }

func TestRestoresAndStandbysAreMetrics(t *testing.T) {
	log := restoring{{Group: "g", Partition: stream.Partition{Topic: "in", Index: 3}, Left: 70, Took: 1500 * time.Millisecond}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newRestoreCollector(log))
	registry.MustRegister(newStandbyCollector(following{{Group: "g", Partition: stream.Partition{Topic: "in", Index: 4}, Behind: 12}}))
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
