package main

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
)

type modelVerifyCommand struct {
	Manifests []string `arg:"" help:"Manifests of models, .yaml."`
}

// Run verifies the manifests one by one.
func (c *modelVerifyCommand) Run(a *app) error {
	wrong := 0
	for _, path := range c.Manifests {
		if !lang.NamesManifest(path) {
			return usage("%s: name a manifest, .yaml: `afterbay model add` writes one", path)
		}
		m, manifest, report, err := a.registry().Load(a.ctx, path)
		if err != nil {
			fmt.Fprintln(a.stderr, err)
			wrong++
			continue
		}
		said := "no golden vectors: name a file of them with golden, as `afterbay model add` does"
		if report.Rows > 0 {
			said = fmt.Sprintf("%s passed, alone, shuffled and in batches", counted(report.Rows, "golden vector"))
			if report.Exact != "" {
				said += fmt.Sprintf("; %ss differ by %g at most", report.Exact, report.Worst)
			}
		}
		fmt.Fprintf(a.stdout, "%s: %s version %d, %s: %s\n", path, manifest.Name, manifest.Version, m.Info().Kind, said)
	}
	if wrong > 0 {
		return failure.As(failure.OfFiles, fmt.Errorf("%s of %d not usable", counted(wrong, "model"), len(c.Manifests)))
	}
	return nil
}

type modelBenchCommand struct {
	File     string        `arg:"" help:"Manifest of a model, .yaml, or a model alone."`
	Rows     string        `help:"CSV file of rows to score; the default is the golden vectors, or generated rows." placeholder:"CSV"`
	Duration time.Duration `help:"How long to measure." default:"2s"`
	DryRun   bool          `name:"dry-run" help:"Print the policy, but do not write it into the manifest."`
}

// Run measures and writes the policy.
func (c *modelBenchCommand) Run(a *app) error {
	costs, policy, manifest, err := a.registry().Sweep(a.ctx, c.File, c.Rows, c.Duration)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%8s %12s %12s %14s\n", "rows", "p50", "p99", "rows/s")
	for _, cost := range costs {
		sorted := ""
		if cost.ByLength {
			sorted = "  sorted by length"
		}
		fmt.Fprintf(a.stdout, "%8d %12v %12v %14.0f%s\n", cost.Rows, cost.P50, cost.P99, cost.PerSecond, sorted)
	}
	if manifest != nil {
		policy.Wait = manifest.Batch.Wait
	}
	fmt.Fprintf(a.stdout, "batch: size %d, sorted by length: %v\n", policy.Size, policy.ByLength)
	if manifest == nil || c.DryRun {
		return nil
	}
	return a.registry().WritePolicy(c.File, policy)
}
