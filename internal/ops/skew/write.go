package skew

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Write writes the result as text.
func (r *Result) Write(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "pipeline %s: %d keys, %d events, %d outputs and %d entries of state compared: %d values differ\n", r.Pipeline, r.Keys, r.Events, r.Outputs, r.Entries, r.Differences)
	if r.Keys == 0 {
		text.WriteString("no key of the log is in the sample: use a larger --sample\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&text, "%s\n", note)
	}
	if d := r.First; d != nil {
		for _, line := range [][2]string{
			{"first", cmp.Or(d.Event, "none")}, {"key", d.Key}, {"output", cmp.Or(d.ID, "none: it is in the state")}, {"step", d.Step}, {"name", d.Name}, {"live", d.Live}, {"recomputed", d.Recomputed},
		} {
			fmt.Fprintf(&text, "%-12s %s\n", line[0], line[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Names)) {
		fmt.Fprintf(&text, "%d differ in %s\n", r.Names[name], name)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
