package main

import "fmt"

type lintCommand struct {
	Files []string `arg:"" name:"file" help:"Pipeline files."`
}

// Run checks the files.
func (c *lintCommand) Run(a *app) error {
	pipelines, err := a.load(c.Files, 1)
	if err != nil {
		return err
	}
	for _, p := range pipelines {
		fmt.Fprintf(a.stdout, "%s: pipeline %s is right: it reads %s\n", p.file, p.runner.Name(), p.describe())
		for _, w := range p.runner.Warnings() {
			fmt.Fprintf(a.stdout, "%s: pipeline %s: warning: %s\n", p.file, p.runner.Name(), w)
		}
	}
	return nil
}
