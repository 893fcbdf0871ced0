// Package demo holds what the binary shows: generators of events, with the pipelines and models of examples/.
package demo
