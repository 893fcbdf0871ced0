package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/plot"
)

// compare prints the differences between the outputs of a generation and the earlier ones.
func (c *reprocessCommand) compare(a *app, d inspect.Directory, pipeline string, topics []string, p *reprocess.Progress) error {
	if client, ok := d.(*admin.Client); ok && len(p.Live) > 0 {
		d = c.again(a, client)
	}
	all, charts, err := report.Compare(a.ctx, d, pipeline, topics, p)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := json.NewEncoder(a.stdout).Encode(struct {
			Compare []*reprocess.Comparison `json:"compare"`
		}{all}); err != nil {
			return err
		}
	} else {
		for _, found := range all {
			report.WriteComparison(a.stdout, found)
		}
	}
	if c.Plot == "" {
		return nil
	}
	if len(charts) == 0 {
		return fmt.Errorf("--plot %s: no output has a number", c.Plot)
	}
	return plot.WriteFile(c.Plot, charts...)
}

const (
	againWait = 10 * time.Second
	againTry  = 50 * time.Millisecond
)

// again reconnects to a process after a switch, because the process restarts its server then.
func (c *reprocessCommand) again(a *app, before *admin.Client) *admin.Client {
	for deadline := time.Now().Add(againWait); time.Now().Before(deadline) && a.ctx.Err() == nil; time.Sleep(againTry) {
		next, err := before, error(nil)
		if c.URL == "" {
			next, err = process.Reach(a.ctx, c.Data)
		}
		if err == nil && (c.URL != "" || next.Token != before.Token) {
			if _, err = next.List(a.ctx); err == nil {
				return next
			}
		}
	}
	return before
}
