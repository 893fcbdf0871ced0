package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// make release sets these with the linker; other builds leave them empty.
var (
	release string // such as v0.1.0
	commit  string // in full
	date    string // of the commit, such as 2026-11-28
)

type versionCommand struct{}

// Run prints the version.
func (c *versionCommand) Run(a *app) error {
	built := ""
	if commit != "" {
		built = fmt.Sprintf("commit %.12s of %s, ", commit, date)
	}
	fmt.Fprintf(a.stdout, "afterbay %s (%s%s, %s/%s)\n", version(), built, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// version returns the version of the release or of the module, or else the commit that was built.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	text := "devel"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text += "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += "-modified"
		}
	}
	return text
}
