package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestRenamedCommandsAndFlagsAreNamed sees that the old name of each command and
// flag is refused with the new one, which works, and that docs/upgrading.md lists it.
func TestRenamedCommandsAndFlagsAreNamed(t *testing.T) {
	page, err := os.ReadFile("../../docs/upgrading.md")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(want, row string, args ...string) {
		t.Helper()
		if r := command(t, "", args...); r.code != exitUsage || r.stderr != "afterbay: "+want+"\n" {
			t.Errorf("%q: exit code %d, %q; want %q", args, r.code, r.stderr, want)
		}
		if !strings.Contains(string(page), "\n"+row) {
			t.Errorf("docs/upgrading.md has no row %s", row)
		}
	}
	for _, r := range renamedCommands {
		want := fmt.Sprintf("afterbay %s is now afterbay %s: see afterbay %[2]s --help", r.old, r.new)
		row := fmt.Sprintf("| `%s` | `%s` |", r.old, r.new)
		refused(want, row, append(strings.Fields(r.old), "x")...)
		refused(want, row, append([]string{"help"}, strings.Fields(r.old)...)...)
		must(t, "", append(strings.Fields(r.new), "--help")...)
	}
	for _, r := range renamedFlags {
		words := strings.Fields(r.command)
		want := fmt.Sprintf("--%s is now --%s: see afterbay %s --help", r.old, r.new, r.command)
		row := fmt.Sprintf("| `%s` | `--%s` | `--%s` |", r.command, r.old, r.new)
		for _, flag := range []string{"--" + r.old, "--" + r.old + "=1"} {
			refused(want, row, append(words, flag)...)
		}
		help := must(t, "", append(words, "--help")...)
		if !strings.Contains(help, " --"+r.new) || strings.Contains(help, " --"+r.old+"=") || strings.Contains(help, " --"+r.old+" ") {
			t.Errorf("help of %s: --%s is not --%s: %s", r.command, r.old, r.new, help)
		}
	}
}
