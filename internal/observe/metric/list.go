package metric

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
)

// List is a list of the metrics of an S, a snapshot, in families. It is the source for /metrics,
// for the output of commands and for the reference page.
type List[S any] []Family[S]

// Family is a set of metrics with the same labels, about parts of an S.
type Family[S any] interface {
	Described
	show(out chan<- prometheus.Metric, s S)
	print(out io.Writer, s S) error
}

// Each returns a family about the Ts of an S. each must call show with every T and the values of
// its labels.
func Each[S, T any](prefix string, labels []string, each func(s S, show func(of T, labels ...string)), rows ...Row[T]) Family[S] {
	return &family[S, T]{NewTable(prefix, labels, rows...), labels, each}
}

// Titled is Each for a family with column heads that differ from the names of its labels.
func Titled[S, T any](prefix string, labels, heads []string, each func(s S, show func(of T, labels ...string)), rows ...Row[T]) Family[S] {
	return &family[S, T]{NewTable(prefix, labels, rows...), heads, each}
}

type family[S, T any] struct {
	*Table[T]
	heads []string // heads of the label columns
	each  func(s S, show func(of T, labels ...string))
}

func (f *family[S, T]) show(out chan<- prometheus.Metric, s S) {
	f.each(s, func(of T, labels ...string) { f.Show(out, of, labels...) })
}

// print prints the columns as a table, or nothing if S has no T.
func (f *family[S, T]) print(out io.Writer, s S) error {
	if len(f.columns) == 0 {
		return nil
	}
	table, begun := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.TabIndent), false
	f.each(s, func(of T, labels ...string) {
		if !begun {
			begun = true
			heads := slices.Clone(f.heads)
			for _, c := range f.columns {
				heads = append(heads, c.head)
			}
			fmt.Fprintf(table, "\n%s\n", strings.ToUpper(strings.Join(heads, "\t")))
		}
		cells := slices.Clone(labels)
		for _, c := range f.columns {
			cells = append(cells, c.text(of))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	})
	return table.Flush()
}

// In also prints the row, as a whole number in a column.
func (r Row[T]) In(head string) Row[T] {
	return r.As(head, func(of T) string { return fmt.Sprintf("%.0f", r.value(of)) })
}

// As also prints the row, as text in a column.
func (r Row[T]) As(head string, text func(T) string) Row[T] {
	r.column, r.head, r.text = true, head, text
	return r
}

// Column returns a row that is printed but is not a metric.
func Column[T any](head string, text func(T) string) Row[T] { return Row[T]{}.As(head, text) }

// Infos returns the descriptions of the metrics.
func (l List[S]) Infos() (all []Info) {
	for _, f := range l {
		all = append(all, f.Infos()...)
	}
	return all
}

// Collector returns a Prometheus collector of the metrics. It calls snapshot for each scrape,
// possibly from several goroutines at once.
func (l List[S]) Collector(snapshot func() S) prometheus.Collector {
	var all []Described
	for _, f := range l {
		all = append(all, f)
	}
	return NewCollector(func(out chan<- prometheus.Metric) {
		s := snapshot()
		for _, f := range l {
			f.show(out, s)
		}
	}, all...)
}

// Print prints the families with columns, one table per family.
func (l List[S]) Print(out io.Writer, s S) error {
	for _, f := range l {
		if err := f.print(out, s); err != nil {
			return err
		}
	}
	return nil
}
