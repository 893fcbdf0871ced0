package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
)

type journalCommand struct {
	Stats journalStatsCommand `cmd:"" help:"Say how many calls were paid for, how many the journal saved, and what they cost."`
}

type journalStatsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Price map[string]float64 `help:"What a unit of a model costs, a call or a token, as in chat=0.000002;scan=0.0015, instead of what the pipeline file says by journal: {price: ...}: adds the money paid and saved." placeholder:"MODEL=PRICE;..."`
	JSON  bool               `name:"json" help:"Print one object of JSON: answers, bytes, models, a list of model, calls, hits, paid, saved, which are units, money_paid, money_saved."`
}

// journalStats is what the command prints as JSON.
type journalStats struct {
	Answers uint64         `json:"answers"`
	Bytes   uint64         `json:"bytes"`
	Models  []journalCount `json:"models"`
}

type journalCount struct {
	journal.Count
	MoneyPaid  *float64 `json:"money_paid,omitempty"` // nil without a price
	MoneySaved *float64 `json:"money_saved,omitempty"`
}

// Run prints what the journal of a pipeline was good for.
func (c *journalStatsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	stats, err := c.read(a, directory)
	if err != nil {
		return err
	}
	priced, err := c.priced(stats)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(priced)
	}
	return printJournal(a, priced)
}

// read returns the sum over the partitions of the pipeline.
func (c *journalStatsCommand) read(a *app, directory admin.Directory) (sum journal.Stats, err error) {
	partitions := 0
	for entry, err := range directory.EntriesOf(a.ctx, c.Pipeline, statekey.JournalHead) {
		if err != nil {
			return sum, err
		}
		stats, err := journal.ReadStats(entry.Value)
		if err != nil {
			return sum, fmt.Errorf("state of %q beside partition %d: %w", c.Pipeline, entry.Partition, err)
		}
		sum.Add(stats)
		partitions++
	}
	if partitions == 0 {
		return sum, fmt.Errorf("the journal of pipeline %q is empty: it keeps answers of models and lookups outside of the process, if the file has a journal for them", c.Pipeline)
	}
	return sum, nil
}

// priced adds what the units cost.
func (c *journalStatsCommand) priced(stats journal.Stats) (journalStats, error) {
	priced := journalStats{Answers: stats.Answers, Bytes: stats.Bytes, Models: []journalCount{}}
	var names []string
	for _, count := range stats.Models {
		names = append(names, count.Model)
		m := journalCount{Count: count}
		price, given := c.Price[count.Model]
		if !given {
			price = count.Price
		}
		if given || price > 0 {
			paid, saved := price*float64(count.Paid), price*float64(count.Saved)
			m.MoneyPaid, m.MoneySaved = &paid, &saved
		}
		priced.Models = append(priced.Models, m)
	}
	for model, price := range c.Price {
		if !slices.Contains(names, model) {
			return priced, usage("--price %s=%v: the journal has answers of %s", model, price, strings.Join(names, ", "))
		}
		if math.IsNaN(price) || math.IsInf(price, 0) || price < 0 {
			return priced, usage("--price %s=%v: use a number of 0 or more", model, price)
		}
	}
	return priced, nil
}

func printJournal(a *app, stats journalStats) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
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
	_, err := fmt.Fprintf(a.stdout, "%d answers are kept, %.1f MiB of state\n", stats.Answers, float64(stats.Bytes)/(1<<20))
	return err
}
