package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Lags holds the lag of pipelines as JSON, largest first.
type Lags struct {
	Lag     []observe.Lag     `json:"lag"`
	Sources []pipeline.Source `json:"sources,omitempty"` // of the pipelines that the process runs
}

func (s *Server) showLag(w http.ResponseWriter, r *http.Request) {
	list, err := s.local.Lag(r.Context(), r.PathValue("pipeline"))
	if err != nil {
		refuse(w, err)
		return
	}
	all := Lags{Lag: list}
	for _, runner := range s.options.Runners {
		if name := r.PathValue("pipeline"); name == "" || name == runner.Name() {
			all.Sources = append(all.Sources, s.pipeline(runner).Sources...)
		}
	}
	ingest.WriteJSON(w, http.StatusOK, all)
}

const (
	lagEvery    = time.Second      // minimum time between two measurements
	lagShare    = 10               // minimum time as a multiple of a measurement's duration
	lagEveryMax = 10 * time.Second // maximum time between two measurements
	lagStale    = 30 * time.Second // an older measurement is not used
)

// lagWatch measures the lag of the pipelines of a process about every second, and compares it with
// the limits in their files.
type lagWatch struct {
	local    *inspect.Local
	runners  []*pipeline.Runner
	backlogs *backlogs
	logger   *slog.Logger

	mu     sync.Mutex // guards the fields below
	latest []observe.Lag
	at     time.Time       // time of the latest measurement; zero before the first
	err    error           // why there is no later one; nil if nothing failed
	warned map[string]bool // pipelines with a logged warning
}

func newLagWatch(l *inspect.Local, runners []*pipeline.Runner, b *backlogs, logger *slog.Logger) *lagWatch {
	return &lagWatch{local: l, runners: runners, backlogs: b, logger: logger, warned: map[string]bool{}}
}

// run measures until ctx is done.
func (w *lagWatch) run(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := time.Now()
		w.measure(ctx)
		wait := min(max(lagEvery, lagShare*time.Since(begun)), lagEveryMax)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

func (w *lagWatch) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lagStale)
	defer cancel()
	w.backlogs.begin()
	list, err := w.local.OwnLag(ctx)
	if err == nil {
		w.backlogs.measured(time.Now(), list)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.err == nil && ctx.Err() == nil {
			w.logger.Warn("lag cannot be measured", "reason", err)
		}
		w.err = err
		return
	}
	w.latest, w.at, w.err = list, time.Now(), nil
	for _, r := range w.runners {
		worst, limit := w.worst(r), r.Pipeline.Lag.Warn
		above := exceeds(worst, limit)
		switch {
		case above && !w.warned[r.Name()]:
			w.logger.Warn("pipeline falls behind", "pipeline", r.Name(), "lag", rounded(worst.Age()), "warn", limit,
				"topic", worst.Topic, "partition", worst.Partition, "records", worst.Records)
		case !above && w.warned[r.Name()]:
			w.logger.Info("pipeline caught up", "pipeline", r.Name(), "lag", rounded(worst.Age()), "warn", limit)
		}
		w.warned[r.Name()] = above
	}
}

// worst returns the largest lag of a pipeline. The caller holds mu.
func (w *lagWatch) worst(r *pipeline.Runner) observe.Lag {
	reads := r.Reads()
	for _, l := range w.latest { // latest is sorted, largest first
		if slices.Contains(reads, observe.Read{Group: l.Group, Topic: l.Topic}) {
			return l
		}
	}
	return observe.Lag{}
}

// exceeds reports whether a lag exceeds a limit; 0 means no limit.
func exceeds(l observe.Lag, limit time.Duration) bool { return limit != 0 && l.Age() > limit }

// late returns why a pipeline is too far behind for the process to be ready, or "". A lag that
// cannot be measured does not count.
func (w *lagWatch) late() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runners {
		limit := r.Pipeline.Lag.Critical
		worst := w.worst(r)
		switch {
		case limit == 0 || r.Ended() != nil:
		case w.at.IsZero() && w.err == nil:
			return fmt.Sprintf("pipeline %s: its lag is not measured yet", r.Name())
		case w.at.IsZero():
			return fmt.Sprintf("pipeline %s: its lag cannot be measured: %v", r.Name(), w.err)
		case time.Since(w.at) > lagStale:
			return fmt.Sprintf("pipeline %s: its lag was last measured %v ago: %v", r.Name(), rounded(time.Since(w.at)), w.err)
		case exceeds(worst, limit):
			return fmt.Sprintf("pipeline %s is %v and %d records behind in %s/%d: lag.critical is %v",
				r.Name(), rounded(worst.Age()), worst.Records, worst.Topic, worst.Partition, limit)
		}
	}
	return ""
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// bound says whether the lag of a pipeline is above a limit in its file.
type bound struct {
	pipeline, name string
	above          bool
}

// latestLag returns the latest measurement, or nothing if it is stale.
func (w *lagWatch) latestLag() (lags []observe.Lag, bounds []bound) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() || time.Since(w.at) > lagStale {
		return nil, nil
	}
	for _, r := range w.runners {
		worst := w.worst(r)
		for _, b := range r.Pipeline.Lag.Bounds() {
			if b.Limit != 0 {
				bounds = append(bounds, bound{r.Name(), b.Word, exceeds(worst, b.Limit)})
			}
		}
	}
	return w.latest, bounds
}
