// Package process runs pipelines as a process does: over a log, with sinks, a server of
// HTTP, a gateway and switches of generations. A Loader loads pipelines, Open opens the log
// and Process.Run runs them.
package process
