package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/stream"
)

const examineMax = time.Minute

// errUnfit is the error of a command that found brokers unsuitable and has reported it.
var errUnfit = errors.New("the brokers do not meet the needs of pipelines")

// examiner is a log that can be checked for the needs of pipelines.
type examiner interface {
	Examine(context.Context, stream.Process, kafka.Plan) ([]kafka.Finding, error)
}

// aboutBrokers reports whether the command examines brokers rather than a directory.
func (c *doctorCommand) aboutBrokers() bool {
	if c.Engine != "" || len(c.Paths) == 0 {
		return c.Engine != ""
	}
	about, err := os.Stat(c.Paths[0])
	return err == nil && about.Mode().IsRegular()
}

// examine checks the brokers of an engine against the pipelines of files, or against what pipelines
// left on the brokers.
func (c *doctorCommand) examine(a *app) error {
	var pipelines []process.Pipeline
	if len(c.Paths) > 0 {
		var err error
		if pipelines, err = a.load(c.Paths, 1, nil, noPrograms); err != nil {
			return err
		}
	}
	flags := engineFlags{cmp.Or(c.Engine, os.Getenv("AFTERBAY_ENGINE"))}
	engine, err := flags.resolve(pipelines)
	if err != nil {
		return err
	}
	if !engine.Shared() {
		return usage("%s names no brokers: add --engine kafka://HOST:PORT, or `engine: kafka://HOST:PORT` to the file; to check a data directory, name its folder", strings.Join(c.Paths, ", "))
	}
	examiner, ok := engine.Config.(examiner)
	if !ok {
		return usage("%s: doctor cannot check a log of kind %s", engine.Typed, engine.Kind)
	}
	ctx, cancel := context.WithTimeout(a.ctx, examineMax)
	defer cancel()
	findings, err := examiner.Examine(ctx, engine.Process(a.log, stream.Process{}), process.PlanOf(pipelines))
	if found := lang.EngineProblems(err); found != nil {
		return engine.Wrong(found)
	}
	if err != nil {
		return fmt.Errorf("examine the brokers: %w", err)
	}
	healthy := true
	for _, f := range findings {
		healthy = healthy && f.Level != kafka.Fault
	}
	if c.JSON {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(struct {
			Healthy  bool            `json:"healthy"`
			Findings []kafka.Finding `json:"findings"`
		}{healthy, findings})
	} else {
		err = writeFindings(a, findings)
	}
	if err == nil && !healthy {
		err = failure.As(failure.OfRun, errUnfit)
	}
	return err
}

func writeFindings(a *app, findings []kafka.Finding) error {
	out := bufio.NewWriter(a.stdout)
	counts := map[kafka.Level]int{}
	for _, f := range findings {
		counts[f.Level]++
		fmt.Fprintf(out, "%-8s %s: %s\n", f.Level, f.About, f.Found)
		if f.Means != "" {
			fmt.Fprintf(out, "%8s %s\n", "", f.Means)
		}
		if f.Change != "" {
			fmt.Fprintf(out, "%8s change: %s\n", "", f.Change)
		}
	}
	fmt.Fprintf(out, "%s, %s, %s; %d as it should be\n", counted(counts[kafka.Fault], "fault"), counted(counts[kafka.Warning], "warning"), counted(counts[kafka.Note], "note"), counts[kafka.Sound])
	return out.Flush()
}
