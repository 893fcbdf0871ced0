package metric

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Times counts durations in buckets.
type Times struct {
	Count uint64
	Sum   time.Duration
	Each  iter.Seq2[time.Duration, uint64] // upper bound and count of each non-empty bucket
}

// histogram exports durations in both classic and native buckets. The constant histograms of the
// Prometheus library have only one of them.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair // sorted by name
	times  Times
}

const (
	schema        = 3    // native buckets grow by a factor of 2^(2^-3), which is 9 %
	zeroThreshold = 1e-9 // seconds
)

// classicBounds are upper bounds of the classic buckets.
var classicBounds = [...]time.Duration{
	10 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute,
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric. It counts a bucket of Times in the bucket that contains its
// upper bound.
func (h *histogram) Write(out *dto.Metric) error {
	out.Label = h.labels
	sum, count, schema, threshold := h.times.Sum.Seconds(), h.times.Count, int32(schema), float64(zeroThreshold)
	shown := &dto.Histogram{SampleCount: &count, SampleSum: &sum, Schema: &schema, ZeroThreshold: &threshold}
	zero := uint64(0)
	shown.ZeroCount = &zero
	classic := make([]uint64, len(classicBounds))
	for upper, n := range h.times.Each {
		if i, _ := slices.BinarySearch(classicBounds[:], upper); i < len(classic) {
			classic[i] += n
		}
		if upper.Seconds() <= threshold {
			zero += n
			continue
		}
		addNative(shown, int32(math.Ceil(math.Ldexp(math.Log2(upper.Seconds()), int(schema)))), int64(n))
	}
	seen := uint64(0)
	for i, n := range classic {
		seen += n
		bound, cumulative := classicBounds[i].Seconds(), seen
		shown.Bucket = append(shown.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &cumulative})
	}
	if len(shown.PositiveSpan) == 0 { // distinguishes a native histogram from a classic one
		shown.PositiveSpan = []*dto.BucketSpan{span(0, 0)}
	}
	out.Histogram = shown
	return nil
}

func span(offset int32, length uint32) *dto.BucketSpan {
	return &dto.BucketSpan{Offset: &offset, Length: &length}
}

// addNative adds n to the native bucket at an index. The index must not be below that of the last
// bucket.
func addNative(h *dto.Histogram, index int32, n int64) {
	next := int32(0) // index after the last bucket
	var last, before int64
	for _, s := range h.PositiveSpan {
		next += s.GetOffset() + int32(s.GetLength())
	}
	for _, delta := range h.PositiveDelta {
		before = last
		last += delta
	}
	switch {
	case len(h.PositiveSpan) > 0 && index < next: // the same bucket
		h.PositiveDelta[len(h.PositiveDelta)-1] = last + n - before
		return
	case len(h.PositiveSpan) > 0 && index == next:
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
	default:
		h.PositiveSpan = append(h.PositiveSpan, span(index-next, 1))
	}
	h.PositiveDelta = append(h.PositiveDelta, n-last)
}
