package pipeline

import (
	"context"
	"slices"

	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/spec"
)

// GroupStats is what a group of a pipeline counts in this process.
type GroupStats struct {
	Name             string
	Open, Bytes      int64     // groups that have not ended, and what is stored of their events
	Ended            [4]uint64 // by group.Reason
	Duplicates, Late uint64    // events left out, and those whose group had ended
}

// Groups counts what the groups of the pipeline do. It may be read at any time.
func (r *Runner) Groups() []GroupStats {
	var all []GroupStats
	counts := r.tasks[0].Groups()
	for i, g := range r.Plan.Groups.Groups {
		c := &counts[i]
		s := GroupStats{Name: g.Name, Open: c.Open.Load(), Bytes: c.Bytes.Load(), Duplicates: c.Duplicates.Load(), Late: c.Late.Load()}
		for reason := range s.Ended {
			s.Ended[reason] = c.Ended[reason].Load()
		}
		all = append(all, s)
	}
	return all
}

// Fetched counts what the fetch steps of the pipeline did; ok is false where it has
// none. It may be read at any time.
func (r *Runner) Fetched() (s fetch.Stats, ok bool) {
	if r.Fetcher == nil {
		return s, false
	}
	return r.Fetcher.Stats(), true
}

// LookupStats is what the lookups of a name found outside of the log.
type LookupStats struct {
	Name string
	lookups.Stats
}

// Lookups counts what the lookups outside of the log do, by name. It may be read at
// any time.
func (r *Runner) Lookups() []LookupStats {
	var all []LookupStats
	for _, f := range r.Finds {
		i := slices.IndexFunc(all, func(s LookupStats) bool { return s.Name == f.Name })
		if i < 0 { // cases of a route may share a name
			i, all = len(all), append(all, LookupStats{Name: f.Name})
		}
		all[i].Stats = all[i].Plus(f.Stats())
	}
	return all
}

// CheckLookups asks where lookups outside of the log find rows and documents whether
// they can be found as the lookups say: Errors, or nil. It changes nothing there.
func (r *Runner) CheckLookups(ctx context.Context) error {
	var found spec.Problems
	for _, f := range r.Finds {
		if err := f.Check(ctx); err != nil {
			found = append(found, err)
		}
	}
	if found == nil {
		return nil
	}
	return found
}
