package main

import (
	"slices"
	"strings"
)

// Commands and flags that were renamed before version 0.1.0. docs/upgrading.md has a row for each.
var (
	renamedCommands = []struct{ old, new string }{ // a longer command precedes its own prefix
		{"features", "dataset"},
		{"parked run", "queue retry"},
		{"parked", "queue"},
		{"rederive", "reprocess"},
		{"verdict", "placement"},
	}
	renamedFlags = []struct{ command, old, new string }{
		{"bench", "retain", "retention-bytes"},
		{"bench", "sessions", "parallelism"},
		{"bench", "state-limit", "state-memory"},
		{"bench", "warm", "warmup"},
		{"demo", "sessions", "parallelism"},
		{"gateway", "leave", "leave-group"},
		{"gateway", "standbys", "standby-replicas"},
		{"gateway", "state-limit", "state-memory"},
		{"model bench", "dry", "dry-run"},
		{"model bench", "for", "duration"},
		{"placement", "sessions", "parallelism"},
		{"placement", "stages", "phases"},
		{"run", "leave", "leave-group"},
		{"run", "sessions", "parallelism"},
		{"run", "standbys", "standby-replicas"},
		{"run", "state-limit", "state-memory"},
		{"run", "trace-share", "trace-ratio"},
		{"simulate", "cap", "max"},
		{"simulate", "for", "duration"},
		{"token issue", "for", "duration"},
	}
)

// checkRenamed returns an error if a command line begins with the old name of a command.
func checkRenamed(args []string) error {
	for _, r := range renamedCommands {
		if words := strings.Fields(r.old); len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return usage("afterbay %s is now afterbay %s: see afterbay %s --help", r.old, r.new, r.new)
		}
	}
	return nil
}

// newFlag returns the new name of a flag of a command, or "" if the flag was not renamed.
func newFlag(command, old string) string {
	for _, r := range renamedFlags {
		if r.command == command && r.old == old {
			return r.new
		}
	}
	return ""
}
