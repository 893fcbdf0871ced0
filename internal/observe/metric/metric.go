// Package metric describes Prometheus metrics in tables. A row gives the name, the unit and the
// meaning of a metric, and reads its value from a T.
package metric

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Unit is the base unit of a metric.
type Unit string

// Units. A metric without a unit is a count or a condition.
const (
	None    Unit = ""
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
)

// Type is the type of a metric.
type Type string

// Types of metrics.
const (
	CounterType   Type = "counter"
	GaugeType     Type = "gauge"
	HistogramType Type = "histogram"
)

// Info describes one metric.
type Info struct {
	Name   string // full name: prefix, unit, and _total for a counter
	Type   Type
	Unit   Unit
	Labels []string
	Help   string
}

// NewInfo describes a metric. name has no "afterbay_", unit or "_total"; NewInfo adds them.
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

// Row is one metric of a T, a column of a table about Ts, or both. Its name has no prefix, unit or
// "_total".
type Row[T any] struct {
	kind  Type // "" if the row is not a metric
	name  string
	unit  Unit
	help  string
	value func(T) float64
	times func(T) Times // for a histogram

	column bool
	head   string // head of the column
	text   func(T) string
}

type number interface {
	~int | ~int32 | ~int64 | ~uint64 | ~float64
}

// Counter returns a row for a value that only grows. A time.Duration is exported in seconds.
func Counter[T any, V number](name string, unit Unit, help string, value func(T) V) Row[T] {
	return Row[T]{kind: CounterType, name: name, unit: unit, help: help, value: func(of T) float64 { return float(value(of)) }}
}

// Gauge returns a row for a value that can grow and fall. A time.Duration is exported in seconds.
func Gauge[T any, V number](name string, unit Unit, help string, value func(T) V) Row[T] {
	return Row[T]{kind: GaugeType, name: name, unit: unit, help: help, value: func(of T) float64 { return float(value(of)) }}
}

// Flag returns a row for a condition: 1 if it is true, otherwise 0.
func Flag[T any](name, help string, value func(T) bool) Row[T] {
	return Row[T]{kind: GaugeType, name: name, help: help, value: func(of T) float64 {
		if value(of) {
			return 1
		}
		return 0
	}}
}

// Histogram returns a row for durations, which are exported in seconds.
func Histogram[T any](name, help string, times func(T) Times) Row[T] {
	return Row[T]{kind: HistogramType, name: name, unit: Seconds, help: help, times: times}
}

func float[V number](v V) float64 {
	if d, ok := any(v).(time.Duration); ok {
		return d.Seconds()
	}
	return float64(v)
}

// Table is a set of metrics of a T with the same labels. It is immutable.
type Table[T any] struct {
	metrics []Row[T]
	columns []Row[T]
	infos   []Info
	descs   []*prometheus.Desc
}

// NewTable returns a table. prefix precedes the name of each row. It must be empty or end with "_".
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

// Show sends the metrics of a T. The label values are in the order of the labels of NewTable.
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

// Infos returns the descriptions of the table's metrics.
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

// Infos returns the descriptions of the metrics of all tables.
func Infos(tables ...Described) (all []Info) {
	for _, t := range tables {
		all = append(all, t.Infos()...)
	}
	return all
}

// NewCollector returns a Prometheus collector of the metrics of tables. show sends the metrics with
// Table.Show. It is called for each scrape, possibly from several goroutines at once.
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
