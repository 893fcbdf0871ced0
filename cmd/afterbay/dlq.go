package main

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type dlqCommand struct {
	Ls      dlqLsCommand      `cmd:"" help:"List dead letters that are not settled, a line each."`
	Show    dlqShowCommand    `cmd:"" help:"Show one dead letter: why, where, the row so far, the event."`
	Stats   dlqStatsCommand   `cmd:"" help:"Count dead letters by stage and kind of reason."`
	Redrive dlqRedriveCommand `cmd:"" help:"Send events of dead letters back to where they failed; what was done before is not done twice."`
	Drop    dlqDropCommand    `cmd:"" help:"Settle dead letters without sending their events back. Their records stay in the topic."`
	Resume  dlqResumeCommand  `cmd:"" help:"Resume a pipeline that stopped because of dlq.stop_above."`
}

// dlqFlags select dead letters.
type dlqFlags struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Stage     string  `help:"Take those that failed at this stage: decode, time, late, let, features, score, decide, emit ..." placeholder:"STAGE"`
	Reason    string  `help:"Take those whose reason has this in it." placeholder:"TEXT"`
	Key       string  `help:"Take those of events with this key." placeholder:"KEY"`
	ID        string  `help:"Take that of the event with this id." name:"id" placeholder:"ID"`
	Partition []int32 `help:"Take those of this partition; may come again." placeholder:"N"`
	Since     moment  `help:"Take those of events from this time on: RFC 3339, or so long before now, as in 2h." placeholder:"TIME"`
	Until     moment  `help:"Take those of events before this time." placeholder:"TIME"`
}

func (f *dlqFlags) filter() report.Filter {
	return report.Filter{
		Stage: f.Stage, Reason: f.Reason, Key: f.Key, ID: f.ID, Partitions: f.Partition,
		Since: f.Since.Time, Until: f.Until.Time,
	}
}

// moment is a time, given as such or as a duration before now.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	var err error
	if m.Time, err = time.Parse(time.RFC3339Nano, string(text)); err == nil {
		return nil
	}
	ago, err := time.ParseDuration(string(text))
	if err != nil || ago < 0 {
		return fmt.Errorf("%q: use a time such as 2026-01-31T12:00:00Z, or a duration such as 2h", text)
	}
	m.Time = time.Now().Add(-ago)
	return nil
}
