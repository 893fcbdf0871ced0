package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sys/term"
)

// orderTime shows the microseconds of a frontier, if it has any.
const orderTime = "2006-01-02 15:04:05.999999"

// WriteOrder writes the progress of a pipeline that reads several partitions in time order.
func WriteOrder(out io.Writer, o *pipeline.Order) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, in the order of %s: %s held, %d forced, %d late since the process began\n", o.Pipeline, o.Order, term.Counted(o.Held, "event"), o.Forced, o.Late)
	switch s, stage := o.Holder(), o.Stage(); {
	case o.Order == "arrival":
		text.WriteString("no event waits for another partition\n")
	case s != nil:
		fmt.Fprintf(&text, "waits for %s, %s, for %v: %s\n", s.Source, frontierOf(s), metric.Rounded(s.For), holds(s))
		fmt.Fprintf(&text, "to skip it: afterbay order skip %s --source %s\n", o.Pipeline, s.Source)
	case stage != nil && o.IsStage(stage.Topic):
		fmt.Fprintf(&text, "%s waits for the answer of %s about an event, for %v: it is behind, see afterbay lag %s\n", stage.Topic, o.Pipeline, metric.Rounded(stage.Seconds), o.Pipeline)
	case stage != nil:
		fmt.Fprintf(&text, "waits for answers of %s, for %v: it is behind, or does not run, see afterbay lag %s\n", stage.WaitsFor, metric.Rounded(stage.Seconds), o.Pipeline)
	case len(o.Partitions) == 0:
		text.WriteString("this process reads none of its partitions: ask another process, with --url\n")
	default:
		text.WriteString("no event waits\n")
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nSOURCE\tFRONTIER\tNEXT\tNOT COPIED\tOLDEST\tHOLDS\tFOR\tWAITED SO FAR")
	for i := range o.Sources {
		s := &o.Sources[i]
		frontier := "-"
		if s.Frontier != nil {
			frontier = s.Frontier.Format(orderTime)
		}
		next, records, oldest := fmt.Sprint(s.Copied.Next), fmt.Sprint(s.Copied.Records), whereSome(s.Copied.Records > 0, s.Copied.Seconds)
		if s.Copied.Error != "" {
			next, records = "?", "?"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%v\n", s.Source, frontier, next, records, oldest, s.Holds, whereSome(s.Holds > 0, s.For), metric.Rounded(s.Waited))
	}
	fmt.Fprintln(table, "\nREADS\tHELD\tFIRST EVENT\tWAITS FOR\tFOR")
	for _, p := range o.Partitions {
		first, waits, held := "-", "-", fmt.Sprint(p.Held)
		if p.Spilled {
			held += " and more in state"
		}
		if p.First != nil {
			first, waits = p.First.Format(orderTime), p.WaitsFor
		}
		fmt.Fprintf(table, "%s/%d\t%s\t%s\t%s\t%s\n", p.Topic, p.Partition, held, first, waits, whereSome(p.First != nil, p.Seconds))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range o.Sources {
		if s := &o.Sources[i]; s.Copied.Error != "" {
			fmt.Fprintf(&text, "%s cannot be read: %s\n", s.Source, s.Copied.Error)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func whereSome(some bool, seconds float64) string {
	if !some {
		return "-"
	}
	return metric.Rounded(seconds).String()
}

func frontierOf(s *pipeline.OrderSource) string {
	if s.Frontier == nil {
		return "and nothing of it was read yet"
	}
	return "at " + s.Frontier.Format(orderTime)
}

// holds says why a source partition delays events, and what to do.
func holds(s *pipeline.OrderSource) string {
	idle := time.Duration(s.Idle * float64(time.Second))
	switch c := &s.Copied; {
	case c.Error != "":
		return "it cannot be read. Check the log of the process and its brokers"
	case c.Records > 0:
		return fmt.Sprintf("%s of it %s not repartitioned, for %v. Check the process that repartitions it: afterbay lag", term.Counted(int(c.Records), "record"), areOf(c.Records), metric.Rounded(c.Seconds))
	case idle == 0:
		return "it has no more records, and idle is never. Append records to it, or set another idle"
	case s.For > 2*s.Idle+1:
		return fmt.Sprintf("it has no more records, but no process has marked it idle after idle of %v. Check the process that repartitions it", idle)
	default:
		return fmt.Sprintf("it has no more records. It becomes idle after %v", idle)
	}
}

func areOf(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
