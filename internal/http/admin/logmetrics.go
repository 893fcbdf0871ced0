package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

var logTable = metric.NewTable("log_", nil,
	metric.Counter("frames", metric.None, "Frames that were written and synced.", func(s *embedded.Stats) uint64 { return s.Frames }),
	metric.Counter("requests", metric.None, "Appends and transactions that were written.", func(s *embedded.Stats) uint64 { return s.Requests }),
	metric.Counter("fused_transactions", metric.None, "Transactions that were written by the same sync as their inputs.", func(s *embedded.Stats) uint64 { return s.FusedSteps }),
	metric.Counter("written", metric.Bytes, "Bytes that were written and synced.", func(s *embedded.Stats) uint64 { return s.Bytes }),
	metric.Counter("sync", metric.Seconds, "Time of all writes and syncs.", func(s *embedded.Stats) time.Duration { return s.SyncTotal }),
	metric.Gauge("sync_max", metric.Seconds, "Time of the longest write and sync.", func(s *embedded.Stats) time.Duration { return s.SyncMax }),
	metric.Gauge("queued_requests", metric.None, "Appends and transactions that wait to be written.", func(s *embedded.Stats) int { return s.Queued }),
	metric.Gauge("queued", metric.Bytes, "Bytes that wait to be written.", func(s *embedded.Stats) int { return s.QueuedBytes }),
	metric.Gauge("queue_limit", metric.Bytes, "Limit of the bytes that wait to be written.", func(s *embedded.Stats) int { return s.Limits.QueueBytes }),
	metric.Gauge("disk", metric.Bytes, "Size of the log's files.", func(s *embedded.Stats) int64 { return s.LogBytes }),
	metric.Gauge("segments", metric.None, "Files of the log.", func(s *embedded.Stats) int { return s.Segments }),
	metric.Gauge("spare_segments", metric.None, "Empty files that are ready to be written.", func(s *embedded.Stats) int { return s.Spares }),
	metric.Counter("retired_segments", metric.None, "Files that were removed by retention.", func(s *embedded.Stats) uint64 { return s.RetiredSegments }),
	metric.Gauge("ring", metric.Bytes, "Size of the newest records, which stay in memory.", func(s *embedded.Stats) int64 { return s.RingBytes }),
	metric.Counter("cold_reads", metric.None, "Reads of records that were not in memory.", func(s *embedded.Stats) uint64 { return s.ColdReads }),
	metric.Counter("refused_appends", metric.None, "Appends that were refused because the disk is full.", func(s *embedded.Stats) uint64 { return s.RefusedAppends }),
	metric.Gauge("checkpoint_lag_frames", metric.None, "Frames after the newest checkpoint, which a restart reads again.", func(s *embedded.Stats) uint64 { return s.Applied - min(s.Applied, s.Checkpointed) }),
	metric.Counter("checkpoints", metric.None, "Checkpoints of the state.", func(s *embedded.Stats) uint64 { return s.State.Checkpoints }),
	metric.Gauge("checkpoint", metric.Seconds, "Time that the newest checkpoint took.", func(s *embedded.Stats) time.Duration { return s.State.CheckpointTime }),
	metric.Gauge("checkpoint_disk", metric.Bytes, "Size of the checkpoint.", func(s *embedded.Stats) uint64 { return s.State.DiskBytes }),
	metric.Gauge("state_entries", metric.None, "Entries of the state in memory.", func(s *embedded.Stats) int64 { return s.State.Cells }),
	metric.Gauge("state_dirty_entries", metric.None, "Entries of the state that are not yet in the checkpoint.", func(s *embedded.Stats) int64 { return s.State.DirtyCells }),
	metric.Gauge("state", metric.Bytes, "Size of the state in memory.", func(s *embedded.Stats) int64 { return s.State.Bytes }),
	metric.Gauge("state_limit", metric.Bytes, "Limit of the state in memory.", func(s *embedded.Stats) int64 { return s.Limits.StateMemoryBytes }),
	metric.Counter("state_hits", metric.None, "Reads of the state that memory answered.", func(s *embedded.Stats) uint64 { return s.State.Hits }),
	metric.Counter("state_misses", metric.None, "Reads of the state that read the checkpoint.", func(s *embedded.Stats) uint64 { return s.State.Misses }),
	metric.Counter("state_evictions", metric.None, "Entries of the state that were removed from memory because it was full.", func(s *embedded.Stats) uint64 { return s.State.Evictions }),
)

// LogCollector shows the counts of an embedded log.
func LogCollector(stats func() embedded.Stats) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		s := stats()
		logTable.Show(out, &s)
	}, logTable)
}
