package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/sys/plot"
	"github.com/afterbay/afterbay/stream"
)

// Compare compares the outputs of a generation with the earlier ones. It returns one comparison per
// topic, and one chart per numeric field.
func Compare(ctx context.Context, d inspect.Directory, pipeline string, topics []string, p *reprocess.Progress) ([]*reprocess.Comparison, []plot.Chart, error) {
	var all []*reprocess.Comparison
	var charts []plot.Chart
	begun := generation.Begun{Pipeline: pipeline, Generation: p.Generation, Into: p.Into}
	went := map[string][]string{} // several topics can be compared with the same output topic
	for _, topic := range topics {
		if topic != deadletter.Topic(pipeline) {
			went[begun.TopicOf(topic)] = append(went[begun.TopicOf(topic)], topic)
		}
	}
	for _, derived := range slices.Sorted(maps.Keys(went)) {
		topic := strings.Join(went[derived], ", ")
		found, err := reprocess.Compare(topic, pipeline, p, recordsOf(ctx, d, went[derived]...), recordsOf(ctx, d, derived))
		if errors.Is(err, stream.ErrUnknownTopic) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, found)
		for i := range found.Fields {
			if f := &found.Fields[i]; f.Old != nil && f.New != nil {
				charts = append(charts, chartOf(topic, f))
			}
		}
	}
	return all, charts[:min(len(charts), chartsMax)], nil
}

// recordsOf yields the records of topics, one topic after the other.
func recordsOf(ctx context.Context, d inspect.Directory, topics ...string) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for _, topic := range topics {
			for r, err := range d.Records(ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

const (
	chartsMax  = 24
	chartParts = 40
)

// chartOf draws the distribution of a numeric field.
func chartOf(topic string, f *reprocess.Field) plot.Chart {
	from, to := min(f.Old.Least, f.New.Least), max(f.Old.Most, f.New.Most)
	if from == to {
		to = from + 1
	}
	chart := plot.Chart{Title: topic + ": " + f.Name, X: f.Name, Y: "share of outputs"}
	for _, of := range []struct {
		name   string
		spread *reprocess.Spread
	}{{"before", f.Old}, {"reprocessed", f.New}} {
		line := plot.Line{Name: of.name}
		for i, share := range of.spread.Share(from, to, chartParts) {
			line.Points = append(line.Points, plot.Point{X: from + (float64(i)+0.5)*(to-from)/chartParts, Y: share})
		}
		chart.Lines = append(chart.Lines, line)
	}
	return chart
}

// WriteComparison writes the differences between the outputs of a topic.
func WriteComparison(out io.Writer, c *reprocess.Comparison) {
	share := 0.0
	if c.Both > 0 {
		share = 100 * float64(c.Changed) / float64(c.Both)
	}
	fmt.Fprintf(out, "%s: %d of %d outputs differ (%.2f %%); %d exist only before, %d only now\n", c.Topic, c.Changed, c.Both, share, c.OnlyOld, c.OnlyNew)
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Old != nil && f.New != nil {
			fmt.Fprintf(out, "  %s: %d differ, by %.4g in the mean, %.4g at most; mean %.4g -> %.4g, p5 %.4g -> %.4g, median %.4g -> %.4g, p95 %.4g -> %.4g\n", f.Name, f.Changed, f.Mean, f.Most,
				f.Old.Mean, f.New.Mean, f.Old.P5, f.New.P5, f.Old.P50, f.New.P50, f.Old.P95, f.New.P95)
		}
		kinds := slices.SortedFunc(maps.Keys(f.Values), func(a, b string) int {
			if n := f.Values[b] - f.Values[a]; n != 0 {
				return int(n)
			}
			return strings.Compare(a, b)
		})
		for _, kind := range kinds {
			fmt.Fprintf(out, "  %s: %d times %s\n", f.Name, f.Values[kind], kind)
		}
	}
}
