// Package afterbay is a streaming inference engine. It reads events from a partitioned log,
// computes decisions with keyed state and models, and writes the decisions to a partitioned log. It
// does so in transactions that are atomic and deterministic.
package afterbay
