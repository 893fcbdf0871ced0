// Package pipeline runs pipelines. New makes a Runner of a pipeline: its tasks, its sinks and its
// metrics. RunChain runs several Runners on one log, each with its sinks.
package pipeline
