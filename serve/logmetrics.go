package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/stream/embedded"
)

// LogCollector shows the counts of an embedded log.
func LogCollector(stats func() embedded.Stats) prometheus.Collector {
	c := &logCollector{stats: stats}
	add := func(kind prometheus.ValueType, name, help string, value func(*embedded.Stats) float64) {
		c.figures = append(c.figures, logFigure{kind, prometheus.NewDesc("afterbay_log_"+name, help, nil, nil), value})
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add(counter, "frames_total", "Frames written and synced.", func(s *embedded.Stats) float64 { return float64(s.Frames) })
	add(counter, "requests_total", "Appends and steps in frames.", func(s *embedded.Stats) float64 { return float64(s.Requests) })
	add(counter, "fused_steps_total", "Steps written by the sync of their inputs.", func(s *embedded.Stats) float64 { return float64(s.FusedSteps) })
	add(gauge, "queued_requests", "Appends and steps that wait.", func(s *embedded.Stats) float64 { return float64(s.Queued) })
	add(gauge, "queued_bytes", "Bytes that wait.", func(s *embedded.Stats) float64 { return float64(s.QueuedBytes) })
	add(gauge, "queue_limit_bytes", "Bytes that may wait.", func(s *embedded.Stats) float64 { return float64(s.Limits.QueueBytes) })
	add(gauge, "bytes_on_disk", "Size of the log's files.", func(s *embedded.Stats) float64 { return float64(s.LogBytes) })
	add(gauge, "state_limit_bytes", "State kept in memory.", func(s *embedded.Stats) float64 { return float64(s.Limits.StateMemoryBytes) })
	add(counter, "bytes_total", "Bytes written and synced.", func(s *embedded.Stats) float64 { return float64(s.Bytes) })
	add(counter, "sync_seconds_total", "Time of all writes and syncs.", func(s *embedded.Stats) float64 { return s.SyncTotal.Seconds() })
	add(gauge, "sync_max_seconds", "Longest write and sync.", func(s *embedded.Stats) float64 { return s.SyncMax.Seconds() })
	add(gauge, "segments", "Files of the log.", func(s *embedded.Stats) float64 { return float64(s.Segments) })
	add(gauge, "spare_segments", "Files ready to be written.", func(s *embedded.Stats) float64 { return float64(s.Spares) })
	add(counter, "retired_segments_total", "Files that retention let go of.", func(s *embedded.Stats) float64 { return float64(s.RetiredSegments) })
	add(gauge, "ring_bytes", "Newest records kept in memory.", func(s *embedded.Stats) float64 { return float64(s.RingBytes) })
	add(counter, "cold_reads_total", "Reads that memory could not serve.", func(s *embedded.Stats) float64 { return float64(s.ColdReads) })
	add(counter, "refused_appends_total", "Appends refused for want of space.", func(s *embedded.Stats) float64 { return float64(s.RefusedAppends) })
	add(gauge, "checkpoint_lag_frames", "Frames that a restart would redo.", func(s *embedded.Stats) float64 { return float64(s.Applied - min(s.Applied, s.Checkpointed)) })
	add(gauge, "state_cells", "State cells in memory.", func(s *embedded.Stats) float64 { return float64(s.State.Cells) })
	add(gauge, "state_bytes", "State in memory.", func(s *embedded.Stats) float64 { return float64(s.State.Bytes) })
	add(gauge, "state_dirty_cells", "State cells not yet in the checkpoint.", func(s *embedded.Stats) float64 { return float64(s.State.DirtyCells) })
	add(counter, "state_hits_total", "State reads served by memory.", func(s *embedded.Stats) float64 { return float64(s.State.Hits) })
	add(counter, "state_misses_total", "State reads that went to the checkpoint.", func(s *embedded.Stats) float64 { return float64(s.State.Misses) })
	add(counter, "state_evictions_total", "State cells dropped from memory.", func(s *embedded.Stats) float64 { return float64(s.State.Evictions) })
	add(counter, "checkpoints_total", "Checkpoints of the state.", func(s *embedded.Stats) float64 { return float64(s.State.Checkpoints) })
	add(gauge, "checkpoint_disk_bytes", "Size of the checkpoint.", func(s *embedded.Stats) float64 { return float64(s.State.DiskBytes) })
	return c
}

type logCollector struct {
	stats   func() embedded.Stats
	figures []logFigure
}

type logFigure struct {
	kind  prometheus.ValueType
	desc  *prometheus.Desc
	value func(*embedded.Stats) float64
}

// Describe implements prometheus.Collector.
func (c *logCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		descs <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *logCollector) Collect(metrics chan<- prometheus.Metric) {
	stats := c.stats()
	for _, f := range c.figures {
		metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&stats))
	}
}
