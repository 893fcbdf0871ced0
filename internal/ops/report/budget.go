package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

const (
	budgetBar  = 40 // characters of the longest bar
	holdersMax = 3  // most source partitions to name
)

// WriteBudget writes a budget as a table.
func WriteBudget(out io.Writer, b admin.Budget) error {
	longest := longestOf(b)
	bar := func(p99, share float64) string {
		at := func(s float64) int { return int(s/longest*budgetBar + 0.5) }
		cells := []byte(strings.Repeat("#", at(p99)) + strings.Repeat(" ", budgetBar+1-at(p99)))
		if share > 0 {
			cells[at(share)] = '|'
		}
		return strings.TrimRight(string(cells), " ")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PHASE\tP50\tP99\tSHARE\tMISSED\t")
	row := func(name string, p50, p99, share float64, missed uint64) {
		allowed := "-"
		if share > 0 {
			allowed = metric.Rounded(share).String()
		}
		fmt.Fprintf(table, "%s\t%v\t%v\t%s\t%d\t%s\n", name, metric.Rounded(p50), metric.Rounded(p99), allowed, missed, bar(p99, share))
	}
	for _, h := range b.Phases {
		row(h.Phase, h.P50, h.P99, h.Share, h.Missed)
	}
	row("event", b.P50, b.P99, b.Limit, b.Missed)
	if err := table.Flush(); err != nil {
		return err
	}
	said := fmt.Sprintf("%s; the sum of the phases' p99s is %v\n", budgetOutcome(b), metric.Rounded(b.Bound))
	if len(b.Held) > 0 {
		var held []string
		for _, h := range b.Held[:min(len(b.Held), holdersMax)] {
			held = append(held, fmt.Sprintf("%s for %v", h.Source, metric.Rounded(h.Seconds)))
		}
		said += fmt.Sprintf("events waited for their turn: %s; see afterbay order status %s\n", strings.Join(held, ", "), b.Pipeline)
	}
	for _, c := range b.Cases {
		said += fmt.Sprintf("case %s: %d events, %d took longer than its %v: %s\n", c.Case, c.Events, c.Missed, metric.Rounded(c.Limit), keeps(c.Events, c.Missed))
	}
	_, err := io.WriteString(out, said)
	return err
}

// longestOf returns the longest time in the table.
func longestOf(b admin.Budget) float64 {
	longest := max(b.P99, b.Limit, 1e-9)
	for _, h := range b.Phases {
		longest = max(longest, h.P99, h.Share)
	}
	return longest
}

// budgetOutcome says whether the budget is met, and if not, which phases exceed it.
func budgetOutcome(b admin.Budget) string {
	if b.Limit == 0 {
		return fmt.Sprintf("%d events; the pipeline has no budget", b.Events)
	}
	text := fmt.Sprintf("%d events, %d took longer than the %v of the budget", b.Events-b.Own, b.Missed, metric.Rounded(b.Limit))
	if b.Missed > 0 {
		worst := slices.MaxFunc(b.Phases, func(x, y admin.BudgetPhase) int {
			return int(min(x.Missed, 1<<40)) - int(min(y.Missed, 1<<40))
		})
		text += fmt.Sprintf(", %d of them because of %s", worst.Missed, worst.Phase)
	}
	return text + ": " + keeps(b.Events-b.Own, b.Missed)
}

// keeps says whether 99 of 100 events meet a limit.
func keeps(events, missed uint64) string {
	if 100*missed > events {
		return "it is not kept"
	}
	return "it is kept"
}

// PlotBudget draws the p99 of each phase as a bar, with a line at its share.
func PlotBudget(b admin.Budget) string {
	const left, width, height = 80.0, 560.0, 34.0
	scale := width / longestOf(b)
	rows := append(slices.Clone(b.Phases), admin.BudgetPhase{Phase: "event", P99: b.P99, P50: b.P50, Share: b.Limit, Missed: b.Missed})
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="13">`+"\n", left+width+150, float64(len(rows)+2)*height)
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" fill="white"/><text x="10" y="22" font-size="15">%s: p99 by phase (bar), share of the budget (line)</text>`+"\n", b.Pipeline)
	for i, h := range rows {
		y := float64(i+1) * height
		colour := "#4878a8"
		if h.Share > 0 && h.P99 > h.Share {
			colour = "#c0504d"
		}
		fmt.Fprintf(&svg, `<text x="10" y="%.0f">%s</text><rect x="%.0f" y="%.0f" width="%.1f" height="%.0f" fill="%s"/>`+"\n", y+18, h.Phase, left, y+4, max(h.P99*scale, 1), height-14, colour)
		if h.Share > 0 {
			fmt.Fprintf(&svg, `<path d="M%.1f %.0fv%.0f" stroke="black" stroke-width="2"/>`+"\n", left+h.Share*scale, y, height-6)
		}
		fmt.Fprintf(&svg, `<text x="%.1f" y="%.0f">%v, %d missed</text>`+"\n", left+max(h.P99, h.Share)*scale+8, y+18, metric.Rounded(h.P99), h.Missed)
	}
	fmt.Fprintf(&svg, `<text x="10" y="%.0f">sum of the p99s of the phases: %v</text>`+"\n</svg>\n", float64(len(rows)+1)*height+18, metric.Rounded(b.Bound))
	return svg.String()
}
