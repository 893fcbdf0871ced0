package serve

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
)

// figures are metrics that are read off a T when they are asked for.
type figures[T any] struct {
	prefix string
	labels []string
	list   []figure[T]
}

type figure[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func (f *figures[T]) add(kind prometheus.ValueType, name, help string, value func(T) float64) {
	f.list = append(f.list, figure[T]{prometheus.NewDesc("afterbay_"+f.prefix+name, help, f.labels, nil), kind, value})
}

// Describe implements half of prometheus.Collector, for collectors of nothing else.
func (f *figures[T]) Describe(descs chan<- *prometheus.Desc) {
	for i := range f.list {
		descs <- f.list[i].desc
	}
}

// show sends the figures of a T, which the labels name.
func (f *figures[T]) show(metrics chan<- prometheus.Metric, of T, labels ...string) {
	for i := range f.list {
		metrics <- prometheus.MustNewConstMetric(f.list[i].desc, f.list[i].kind, f.list[i].value(of), labels...)
	}
}

// yes is a condition as a figure.
func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// find returns what runs a pipeline of this process.
func find(runners []*afterbay.Runner, pipeline string) (*afterbay.Runner, error) {
	var names []string
	for _, r := range runners {
		if r.Name() == pipeline {
			return r, nil
		}
		names = append(names, r.Name())
	}
	return nil, fmt.Errorf("%w %q: this process runs %v", ErrUnknownPipeline, pipeline, names)
}
