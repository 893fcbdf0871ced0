package report

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
)

// Journal reports how many calls the journal of a pipeline saved.
type Journal struct {
	Answers uint64         `json:"answers"`
	Bytes   uint64         `json:"bytes"`
	Models  []JournalCount `json:"models"`
}

// JournalCount is the part of a Journal that belongs to one model.
type JournalCount struct {
	journal.Count
	MoneyPaid  *float64 `json:"money_paid,omitempty"` // nil without a price
	MoneySaved *float64 `json:"money_saved,omitempty"`
}

// ReadJournal reads the journal of a pipeline. price gives the price of one unit of a model, and
// overrides the pipeline file.
func ReadJournal(ctx context.Context, directory inspect.Directory, pipeline string, price map[string]float64) (*Journal, error) {
	stats, err := journalOf(ctx, directory, pipeline)
	if err != nil {
		return nil, err
	}
	return priced(stats, price)
}

// journalOf returns the sum over the partitions of the pipeline.
func journalOf(ctx context.Context, directory inspect.Directory, pipeline string) (sum journal.Stats, err error) {
	partitions := 0
	for entry, err := range directory.EntriesOf(ctx, pipeline, statekey.JournalHead) {
		if err != nil {
			return sum, err
		}
		stats, err := journal.ReadStats(entry.Value)
		if err != nil {
			return sum, fmt.Errorf("state of %q beside partition %d: %w", pipeline, entry.Partition, err)
		}
		sum.Add(stats)
		partitions++
	}
	if partitions == 0 {
		return sum, fmt.Errorf("the journal of pipeline %q is empty: it keeps answers of models and lookups outside of the process, if the file has a journal for them", pipeline)
	}
	return sum, nil
}

// priced adds the prices of the units.
func priced(stats journal.Stats, prices map[string]float64) (*Journal, error) {
	priced := &Journal{Answers: stats.Answers, Bytes: stats.Bytes, Models: []JournalCount{}}
	var names []string
	for _, count := range stats.Models {
		names = append(names, count.Model)
		m := JournalCount{Count: count}
		price, given := prices[count.Model]
		if !given {
			price = count.Price
		}
		if given || price > 0 {
			paid, saved := price*float64(count.Paid), price*float64(count.Saved)
			m.MoneyPaid, m.MoneySaved = &paid, &saved
		}
		priced.Models = append(priced.Models, m)
	}
	for model, price := range prices {
		if !slices.Contains(names, model) {
			return nil, failure.Usage("--price %s=%v: the journal has answers of %s", model, price, strings.Join(names, ", "))
		}
		if math.IsNaN(price) || math.IsInf(price, 0) || price < 0 {
			return nil, failure.Usage("--price %s=%v: use a number of 0 or more", model, price)
		}
	}
	return priced, nil
}

// Write writes the report as a table.
func (stats *Journal) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tCALLS\tHITS\tHIT SHARE\tUNITS PAID\tUNITS SAVED\tMONEY PAID\tMONEY SAVED")
	money := func(amount *float64) string {
		if amount == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", *amount)
	}
	for _, m := range stats.Models {
		share := 100 * float64(m.Hits) / max(1, float64(m.Hits+m.Calls))
		fmt.Fprintf(table, "%s\t%d\t%d\t%.1f%%\t%d\t%d\t%s\t%s\n", m.Model, m.Calls, m.Hits, share, m.Paid, m.Saved, money(m.MoneyPaid), money(m.MoneySaved))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d answers are kept, %.1f MiB of state\n", stats.Answers, float64(stats.Bytes)/(1<<20))
	return err
}
