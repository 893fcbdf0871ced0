// Package demo holds the examples in the binary: generators of events, with the pipelines and
// models of examples/.
package demo
