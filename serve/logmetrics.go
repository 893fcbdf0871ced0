package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/stream/embedded"
)

// LogCollector shows the counts of an embedded log.
func LogCollector(stats func() embedded.Stats) prometheus.Collector {
	c := &logCollector{figures[*embedded.Stats]{prefix: "log_"}, stats}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c.add(counter, "frames_total", "Frames written and synced.", func(s *embedded.Stats) float64 { return float64(s.Frames) })
	c.add(counter, "requests_total", "Appends and steps in frames.", func(s *embedded.Stats) float64 { return float64(s.Requests) })
	c.add(counter, "fused_steps_total", "Steps written by the sync of their inputs.", func(s *embedded.Stats) float64 { return float64(s.FusedSteps) })
	c.add(gauge, "queued_requests", "Appends and steps that wait.", func(s *embedded.Stats) float64 { return float64(s.Queued) })
	c.add(gauge, "queued_bytes", "Bytes that wait.", func(s *embedded.Stats) float64 { return float64(s.QueuedBytes) })
	c.add(gauge, "queue_limit_bytes", "Bytes that may wait.", func(s *embedded.Stats) float64 { return float64(s.Limits.QueueBytes) })
	c.add(gauge, "bytes_on_disk", "Size of the log's files.", func(s *embedded.Stats) float64 { return float64(s.LogBytes) })
	c.add(gauge, "state_limit_bytes", "State kept in memory.", func(s *embedded.Stats) float64 { return float64(s.Limits.StateMemoryBytes) })
	c.add(counter, "bytes_total", "Bytes written and synced.", func(s *embedded.Stats) float64 { return float64(s.Bytes) })
	c.add(counter, "sync_seconds_total", "Time of all writes and syncs.", func(s *embedded.Stats) float64 { return s.SyncTotal.Seconds() })
	c.add(gauge, "sync_max_seconds", "Longest write and sync.", func(s *embedded.Stats) float64 { return s.SyncMax.Seconds() })
	c.add(gauge, "segments", "Files of the log.", func(s *embedded.Stats) float64 { return float64(s.Segments) })
	c.add(gauge, "spare_segments", "Files ready to be written.", func(s *embedded.Stats) float64 { return float64(s.Spares) })
	c.add(counter, "retired_segments_total", "Files that retention let go of.", func(s *embedded.Stats) float64 { return float64(s.RetiredSegments) })
	c.add(gauge, "ring_bytes", "Newest records kept in memory.", func(s *embedded.Stats) float64 { return float64(s.RingBytes) })
	c.add(counter, "cold_reads_total", "Reads that memory could not serve.", func(s *embedded.Stats) float64 { return float64(s.ColdReads) })
	c.add(counter, "refused_appends_total", "Appends refused for want of space.", func(s *embedded.Stats) float64 { return float64(s.RefusedAppends) })
	c.add(gauge, "checkpoint_lag_frames", "Frames that a restart would redo.", func(s *embedded.Stats) float64 { return float64(s.Applied - min(s.Applied, s.Checkpointed)) })
	c.add(gauge, "state_cells", "State cells in memory.", func(s *embedded.Stats) float64 { return float64(s.State.Cells) })
	c.add(gauge, "state_bytes", "State in memory.", func(s *embedded.Stats) float64 { return float64(s.State.Bytes) })
	c.add(gauge, "state_dirty_cells", "State cells not yet in the checkpoint.", func(s *embedded.Stats) float64 { return float64(s.State.DirtyCells) })
	c.add(counter, "state_hits_total", "State reads served by memory.", func(s *embedded.Stats) float64 { return float64(s.State.Hits) })
	c.add(counter, "state_misses_total", "State reads that went to the checkpoint.", func(s *embedded.Stats) float64 { return float64(s.State.Misses) })
	c.add(counter, "state_evictions_total", "State cells dropped from memory.", func(s *embedded.Stats) float64 { return float64(s.State.Evictions) })
	c.add(counter, "checkpoints_total", "Checkpoints of the state.", func(s *embedded.Stats) float64 { return float64(s.State.Checkpoints) })
	c.add(gauge, "checkpoint_seconds", "Time of the newest checkpoint.", func(s *embedded.Stats) float64 { return s.State.CheckpointTime.Seconds() })
	c.add(gauge, "checkpoint_disk_bytes", "Size of the checkpoint.", func(s *embedded.Stats) float64 { return float64(s.State.DiskBytes) })
	return c
}

type logCollector struct {
	figures[*embedded.Stats]
	stats func() embedded.Stats
}

// Collect implements prometheus.Collector.
func (c *logCollector) Collect(metrics chan<- prometheus.Metric) {
	stats := c.stats()
	c.show(metrics, &stats)
}
