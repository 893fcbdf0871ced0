// Package process runs pipelines in a process: over a log, with sinks, an HTTP server, a gateway
// and switches of generations. A Loader loads pipelines, Open opens the log, and Process.Run runs
// them.
package process
