package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/observe/otlp"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// traceFlags set where traces are sent. The environment variables are those of OpenTelemetry.
type traceFlags struct {
	Traces       string  `help:"Send traces of events to this collector of OpenTelemetry, OTLP over HTTP, such as http://localhost:4318." env:"OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL"`
	TraceRatio   float64 `help:"Share of events to trace, for events without a trace context. A trace context of an event decides for itself." default:"0.1" env:"OTEL_TRACES_SAMPLER_ARG" placeholder:"RATIO"`
	TraceHeaders string  `hidden:"" env:"OTEL_EXPORTER_OTLP_HEADERS"`
}

// exporter returns the exporter of the traces, or nil if tracing is off.
func (f *traceFlags) exporter(a *app) (*otlp.Exporter, error) {
	if f.Traces == "" {
		return nil, nil
	}
	if !(f.TraceRatio >= 0 && f.TraceRatio <= 1) {
		return nil, usage("--trace-ratio %v: use 0 to 1", f.TraceRatio)
	}
	headers := http.Header{}
	for item := range strings.SplitSeq(f.TraceHeaders, ",") {
		name, value, ok := strings.Cut(item, "=")
		if text, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			headers.Set(strings.TrimSpace(name), text)
		}
	}
	exporter, err := otlp.New(otlp.Options{URL: f.Traces, Headers: headers, Version: version(), Logger: a.log})
	if err != nil {
		return nil, failure.As(failure.OfUsage, fmt.Errorf("--traces: %w", err))
	}
	return exporter, nil
}

// trace returns a function that sets the tracing options of a pipeline.
func (f *traceFlags) trace(traces *otlp.Exporter) func(*pipeline.Options) {
	return func(o *pipeline.Options) {
		if traces != nil {
			o.Traces, o.TraceShare = traces.Add, f.TraceRatio
		}
	}
}
