package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// reason is why a request was refused: a label of metrics.
type reason uint8

const (
	tooMany    reason = iota // of its class are under way
	tooLarge                 // it needs more memory than its size allows
	overMemory               // other requests use all of it
	reasons
)

var reasonNames = [reasons]string{"too_many", "too_large", "over_memory"}

// counters count refusals by reason.
type counters [reasons]atomic.Uint64

func (c *counters) add(why reason) { c[why].Add(1) }

var (
	connectionsDesc = prometheus.NewDesc("afterbay_http_connections", "Open connections.", []string{"server"}, nil)
	evictedDesc     = prometheus.NewDesc("afterbay_http_connections_evicted_total", "Connections without a request that were closed to make room for others.", []string{"server"}, nil)
	turnedDesc      = prometheus.NewDesc("afterbay_http_connections_refused_total", "Connections that were refused, since all others had requests under way.", []string{"server"}, nil)
	requestsDesc    = prometheus.NewDesc("afterbay_http_requests", "Requests under way, by the bound that they count against.", []string{"server", "class"}, nil)
	refusedDesc     = prometheus.NewDesc("afterbay_http_refused_total", "Requests that were refused: too_many under way, too_large for their size, over_memory of the process.", []string{"server", "reason"}, nil)
	memoryDesc      = prometheus.NewDesc("afterbay_http_memory_bytes", "Memory that requests have of the process's budget.", nil, nil)
	budgetDesc      = prometheus.NewDesc("afterbay_http_memory_limit_bytes", "The budget, which the servers of a process share.", nil, nil)
)

// Collector shows what the servers of a process count. They share a Budget.
type Collector []*Server

var _ prometheus.Collector = Collector(nil)

// Describe implements prometheus.Collector.
func (c Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectionsDesc, evictedDesc, turnedDesc, requestsDesc, refusedDesc, memoryDesc, budgetDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c {
		s.collect(out)
	}
	if len(c) > 0 {
		memory := c[0].options.Memory
		out <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(memory.Used()))
		out <- prometheus.MustNewConstMetric(budgetDesc, prometheus.GaugeValue, float64(memory.Bytes()))
	}
}

func (s *Server) collect(out chan<- prometheus.Metric) {
	name := s.options.Name
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{name}, labels...)...)
	}
	s.conns.mu.Lock()
	open, evicted, refused := s.conns.open+s.conns.spare, s.conns.evicted, s.conns.refused
	s.conns.mu.Unlock()
	show(connectionsDesc, prometheus.GaugeValue, float64(open))
	show(evictedDesc, prometheus.CounterValue, float64(evicted))
	show(turnedDesc, prometheus.CounterValue, float64(refused))
	for class, places := range s.classes {
		if places != nil {
			show(requestsDesc, prometheus.GaugeValue, float64(len(places)), Class(class).String())
		}
	}
	for why := range s.refusals {
		show(refusedDesc, prometheus.CounterValue, float64(s.refusals[why].Load()), reasonNames[why])
	}
}
