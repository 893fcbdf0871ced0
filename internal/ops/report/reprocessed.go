package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Reprocess executes a request on the log. If another process holds the log, that process executes
// it.
func Reprocess(ctx context.Context, d inspect.Directory, runner *pipeline.Runner, request reprocess.Request) iter.Seq2[reprocess.Progress, error] {
	if client, ok := d.(*admin.Client); ok {
		return client.Reprocess(ctx, request)
	}
	if request.DryRun {
		return reprocess.DryRun(ctx, d.(*inspect.Local).Log, runner, request.Job())
	}
	job := request.Job()
	return reprocess.Run(ctx, d.(*inspect.Local).Log, runner, job)
}

// FollowReprocessing reads the progress of a request and returns its last progress. It writes each
// progress to out as JSON, or a line per second to errs. done is false if the caller gave up;
// FollowReprocessing then reports that.
func FollowReprocessing(ctx context.Context, all iter.Seq2[reprocess.Progress, error], out, errs io.Writer, asJSON bool) (last reprocess.Progress, done bool, err error) {
	shown := time.Time{}
	for p, err := range all {
		switch {
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(out, "%s%d of %d events are done: run the same command again for the others\n", generationOf(&last), last.Events, last.Of)
			return last, false, nil
		case err != nil && last.Generation > 0:
			return last, false, fmt.Errorf("%w (%d of %d events are done: run the same command again for the others)", err, last.Events, last.Of)
		case err != nil:
			return last, false, err
		}
		if last = p; asJSON {
			err = json.NewEncoder(out).Encode(p)
		} else if !p.Done && time.Since(shown) > time.Second {
			shown = time.Now()
			fmt.Fprintln(errs, progressLine(&p))
		}
		if err != nil {
			return last, false, err
		}
	}
	if !last.Done {
		return last, false, fmt.Errorf("the process of this job ended: %d of %d events are done: run the same command again for the others", last.Events, last.Of)
	}
	return last, true, nil
}

func generationOf(p *reprocess.Progress) string {
	if p.Generation == 0 {
		return ""
	}
	return fmt.Sprintf("generation %d: ", p.Generation)
}

func progressLine(p *reprocess.Progress) string {
	line := fmt.Sprintf("%s%d of %d events", generationOf(p), p.Events, p.Of)
	if left := p.Of - p.Events; p.Rate > 0 && left > 0 {
		line += fmt.Sprintf(", %.0f a second, %v left", p.Rate, (time.Duration(float64(left)/p.Rate) * time.Second).Round(time.Second))
	}
	return line
}

// WriteReprocessed writes the result of a request for the pipeline called name, and the commands to
// type next. file is the pipeline's file, as it was typed.
func WriteReprocessed(out io.Writer, name, file string, r *reprocess.Request, p *reprocess.Progress) {
	if r.DryRun {
		writeDryRun(out, name, p)
		return
	}
	fmt.Fprintf(out, "generation %d of %s: %d events reprocessed, to %s\n", p.Generation, name, p.Events, strings.Join(p.Topics, ", "))
	for _, m := range p.Models {
		fmt.Fprintf(out, "  %s: %d calls paid, %d answers were in the journal", m.Model, m.Calls, m.Hits)
		if m.Price > 0 {
			fmt.Fprintf(out, ", %.2f paid, %.2f saved", float64(m.Paid)*m.Price, float64(m.Saved)*m.Price)
		}
		fmt.Fprintln(out)
	}
	if p.Sink != "" {
		fmt.Fprintf(out, "  %d of its outputs delivered to sink %s\n", p.Delivered, p.Sink)
	}
	for _, l := range p.Live {
		fmt.Fprintf(out, "  partition %d: live from offset %d on\n", l.Partition, l.Offset)
	}
	switch {
	case len(p.Live) > 0:
		if strings.Contains(strings.Join(r.Models, ""), "=") {
			fmt.Fprintf(out, "next: write the models of --model into %s, and run that file from now on\n", file)
		} else {
			fmt.Fprintf(out, "next: run %s from now on\n", file)
		}
	case r.State == "live" && p.Events == 0:
		fmt.Fprint(out, "next: start the pipeline, and run the same command again to reprocess newer events\n")
	case r.From.IsZero() && r.To.IsZero() && r.State == "" && len(p.Into) == 0 && p.CaughtUp:
		fmt.Fprint(out, "next: run the same command with --switch to switch to it\n")
	}
}

// writeDryRun writes what the request would do.
func writeDryRun(out io.Writer, name string, p *reprocess.Progress) {
	fmt.Fprintf(out, "%d events of %s would be reprocessed: %d outputs, %d dead letters\n", p.Events, name, p.Outputs, p.Dead)
	if len(p.Models) == 0 {
		fmt.Fprintln(out, "  nothing outside of the process would be called")
	}
	for _, m := range p.Models {
		fmt.Fprintf(out, "  %s: %d calls, %d answers are in the journal", m.Model, m.Calls, m.Hits)
		if m.Price > 0 {
			fmt.Fprintf(out, "; %d x %g = %.2f to pay", m.Calls, m.Price, float64(m.Paid)*m.Price)
		}
		fmt.Fprintln(out)
	}
}
