package main

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type dlqCommand struct {
	Ls      dlqLsCommand      `cmd:"" help:"List dead letters that are not settled, one in each line."`
	Show    dlqShowCommand    `cmd:"" help:"Show one dead letter: reason, stage, row so far, event."`
	Stats   dlqStatsCommand   `cmd:"" help:"Count dead letters by stage and kind of reason."`
	Redrive dlqRedriveCommand `cmd:"" help:"Redrive dead letters: their events continue at the stage that failed, and earlier steps do not run again."`
	Drop    dlqDropCommand    `cmd:"" help:"Settle dead letters without sending their events back. Their records stay in the topic."`
	Resume  dlqResumeCommand  `cmd:"" help:"Resume a pipeline that stopped because of dlq.stop_above."`
}

// dlqFlags select dead letters.
type dlqFlags struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Stage     string  `help:"Select dead letters of this stage: decode, time, late, let, features, score, decide, emit ..." placeholder:"STAGE"`
	Reason    string  `help:"Select dead letters with this text in the reason." placeholder:"TEXT"`
	Key       string  `help:"Select dead letters of events with this key." placeholder:"KEY"`
	ID        string  `help:"Select the dead letter of the event with this id." name:"id" placeholder:"ID"`
	Partition []int32 `help:"Select dead letters of this partition. May be repeated." placeholder:"N"`
	Since     moment  `help:"Select dead letters of events from this time on: RFC 3339, or a duration before now, such as 2h." placeholder:"TIME"`
	Until     moment  `help:"Select dead letters of events before this time." placeholder:"TIME"`
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
