// Package pipeline has pipelines that run. New makes a Runner of a pipeline: its tasks, its
// sinks and what they count. RunChain runs several of them on one log, each with its sinks.
package pipeline
