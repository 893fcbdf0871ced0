// Package metric describes the metrics of Prometheus in tables. A row says what a
// metric is called, which unit it has and what it means, and reads it off a T.
package metric

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Unit is the base unit of a metric.
type Unit string

// The units. A metric without a unit is a number of things, or a condition.
const (
	None    Unit = ""
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
)

// Type is the type of a metric.
type Type string

// The types.
const (
	CounterType   Type = "counter"
	GaugeType     Type = "gauge"
	HistogramType Type = "histogram"
)

// Info describes one metric.
type Info struct {
	Name   string // the whole of it: prefix, unit, and _total for a counter
	Type   Type
	Unit   Unit
	Labels []string
	Help   string
}

// NewInfo describes a metric of a name without "afterbay_", unit and "_total".
func NewInfo(kind Type, name string, unit Unit, help string, labels ...string) Info {
	parts := []string{"afterbay", name}
	if unit != None {
		parts = append(parts, string(unit))
	}
	if kind == CounterType {
		parts = append(parts, "total")
	}
	return Info{Name: strings.Join(parts, "_"), Type: kind, Unit: unit, Labels: labels, Help: help}
}

// Row is one metric of a T, or a column of a table about Ts, or both. Its name has neither
// prefix nor unit nor "_total".
type Row[T any] struct {
	kind  Type // "" is no metric
	name  string
	unit  Unit
	help  string
	value func(T) float64
	times func(T) Times // of a histogram

	column bool
	head   string // of the column
	text   func(T) string
}

type number interface {
	~int | ~int32 | ~int64 | ~uint64 | ~float64
}

// Counter is a row of what only grows. A time.Duration is shown in seconds.
func Counter[T any, V number](name string, unit Unit, help string, value func(T) V) Row[T] {
	return Row[T]{kind: CounterType, name: name, unit: unit, help: help, value: func(of T) float64 { return float(value(of)) }}
}

// Gauge is a row of what grows and falls. A time.Duration is shown in seconds.
func Gauge[T any, V number](name string, unit Unit, help string, value func(T) V) Row[T] {
	return Row[T]{kind: GaugeType, name: name, unit: unit, help: help, value: func(of T) float64 { return float(value(of)) }}
}

// Flag is a row of a condition: 1 while it holds, else 0.
func Flag[T any](name, help string, value func(T) bool) Row[T] {
	return Row[T]{kind: GaugeType, name: name, help: help, value: func(of T) float64 {
		if value(of) {
			return 1
		}
		return 0
	}}
}

// Histogram is a row of durations, which are shown in seconds.
func Histogram[T any](name, help string, times func(T) Times) Row[T] {
	return Row[T]{kind: HistogramType, name: name, unit: Seconds, help: help, times: times}
}

func float[V number](v V) float64 {
	if d, ok := any(v).(time.Duration); ok {
		return d.Seconds()
	}
	return float64(v)
}

// Table is metrics of a T that have the same labels. It is immutable.
type Table[T any] struct {
	metrics []Row[T]
	columns []Row[T]
	infos   []Info
	descs   []*prometheus.Desc
}

// NewTable returns a table. prefix is put before the name of each row: it ends with
// "_" or is empty.
func NewTable[T any](prefix string, labels []string, rows ...Row[T]) *Table[T] {
	t := &Table[T]{}
	for _, r := range rows {
		if r.column {
			t.columns = append(t.columns, r)
		}
		if r.kind == "" {
			continue
		}
		t.metrics = append(t.metrics, r)
		info := NewInfo(r.kind, prefix+r.name, r.unit, r.help, labels...)
		t.infos = append(t.infos, info)
		t.descs = append(t.descs, prometheus.NewDesc(info.Name, info.Help, labels, nil))
	}
	return t
}

// Show sends the metrics of a T. The values of labels are in the order of NewTable.
func (t *Table[T]) Show(out chan<- prometheus.Metric, of T, labels ...string) {
	for i, r := range t.metrics {
		switch r.kind {
		case CounterType:
			out <- prometheus.MustNewConstMetric(t.descs[i], prometheus.CounterValue, r.value(of), labels...)
		case GaugeType:
			out <- prometheus.MustNewConstMetric(t.descs[i], prometheus.GaugeValue, r.value(of), labels...)
		case HistogramType:
			out <- &histogram{t.descs[i], prometheus.MakeLabelPairs(t.descs[i], labels), r.times(of)}
		}
	}
}

// Infos describes the metrics of the table.
func (t *Table[T]) Infos() []Info { return t.infos }

func (t *Table[T]) describe(out chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		out <- d
	}
}

// Described is a Table of any T.
type Described interface {
	Infos() []Info
	describe(out chan<- *prometheus.Desc)
}

// Infos describes the metrics of tables.
func Infos(tables ...Described) (all []Info) {
	for _, t := range tables {
		all = append(all, t.Infos()...)
	}
	return all
}

// NewCollector returns a collector of the metrics of tables. show sends them with
// Table.Show; it is called for each scrape, perhaps by several goroutines at once.
func NewCollector(show func(out chan<- prometheus.Metric), tables ...Described) prometheus.Collector {
	return &collector{show, tables}
}

type collector struct {
	show   func(out chan<- prometheus.Metric)
	tables []Described
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, t := range c.tables {
		t.describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) { c.show(out) }
