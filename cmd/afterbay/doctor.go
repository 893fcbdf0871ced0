package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/process"
)

type doctorCommand struct {
	Paths  []string `arg:"" optional:"" name:"dir" help:"Data directory that no process uses; or pipeline files, to check the brokers of their engine or of --engine."`
	Engine string   `help:"Check brokers instead: connections, versions, settings, and the topics and rights of the pipelines of the files. Without files, of the pipelines that have state there. The check changes nothing." placeholder:"URL"`
	JSON   bool     `help:"Print one object of JSON." name:"json"`
	Cut    bool     `help:"Repair the directory with the remedy that loses least. The removed bytes are kept in DIR/cut-TIME."`
	Keep   uint64   `help:"With --cut, take the remedy that keeps this frame." placeholder:"FRAME"`
	Yes    bool     `help:"With --cut, do not ask."`

	dir string
}

// errDamaged is the error of a command that found damage and has reported it.
var errDamaged = errors.New("the directory is damaged")

// Run examines a directory, and repairs it if the flags say so.
func (c *doctorCommand) Run(a *app) error {
	switch {
	case !c.Cut && (c.Yes || c.Keep > 0):
		return usage("--yes and --keep belong to --cut")
	case c.Cut && c.JSON && !c.Yes:
		return usage("--json cannot ask for confirmation: add --yes")
	case c.aboutBrokers() && c.Cut:
		return usage("--cut is for a data directory")
	case c.aboutBrokers():
		return c.examine(a)
	case len(c.Paths) != 1:
		return usage("name one data directory: afterbay doctor <dir>, or brokers: --engine; afterbay doctor --help says more")
	}
	c.dir = c.Paths[0]
	check, err := embedded.Check(c.dir)
	if err != nil {
		return process.CheckError(err, c.dir)
	}
	if check.Healthy || !c.Cut {
		return c.print(a, check, "")
	}
	r, err := c.choose(check)
	if err != nil {
		if printErr := c.print(a, check, ""); !errors.Is(printErr, errDamaged) {
			return printErr
		}
		return err
	}
	if !c.Yes {
		if err := c.print(a, check, ""); !errors.Is(err, errDamaged) {
			return err
		}
		if !confirmed(a, r) {
			return failure.As(failure.OfRun, errors.New("nothing was changed: answer y, or add --yes"))
		}
	}
	folder := "cut-" + time.Now().UTC().Format("20060102T150405Z")
	if err := embedded.Cut(c.dir, r, folder); err != nil {
		return process.CheckError(err, c.dir)
	}
	if check, err = embedded.Check(c.dir); err != nil {
		return process.CheckError(err, c.dir)
	}
	return c.print(a, check, folder)
}

// choose returns the remedy to apply.
func (c *doctorCommand) choose(check *embedded.Report) (embedded.Remedy, error) {
	if r, found := check.Keeping(c.Keep); found {
		return r, nil
	}
	if len(check.Remedies) == 0 {
		return embedded.Remedy{}, failure.As(failure.OfRun, errors.New("nothing was changed: no consistent log can be cut out of the directory; restore it from a copy"))
	}
	return embedded.Remedy{}, usage("no remedy keeps frame %d", c.Keep)
}

func confirmed(a *app, r embedded.Remedy) bool {
	fmt.Fprintf(a.stdout, "\n%s? [y/N] ", strings.ToUpper(report.RemedyText(r)[:1])+report.RemedyText(r)[1:])
	answer, _ := bufio.NewReader(newEndable(a.ctx, a.stdin)).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// print writes a report, and returns errDamaged if it reports damage. folder is where a cut moved
// the part that it removed.
func (c *doctorCommand) print(a *app, check *embedded.Report, folder string) error {
	err := report.WriteCheck(a.stdout, check, folder, c.JSON)
	if err == nil && !check.Healthy {
		err = failure.As(failure.OfDirectory, errDamaged)
	}
	return err
}
