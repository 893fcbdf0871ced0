// Package afterbay is a streaming inference engine: events in a partitioned
// log become decisions in a partitioned log, through keyed state and models, by
// steps that are atomic and deterministic.
package afterbay
