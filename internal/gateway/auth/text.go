package auth

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/sys/clean"
)

// Write writes the contents of the token, one field on each line with a tab after its name. Times
// are in human-readable form.
func (c *Contents) Write(out io.Writer, now time.Time) {
	show := func(name string, value any) {
		fmt.Fprintf(out, "%s\t%s\n", clean.Text(name), clean.Text(claim(name, value, now)))
	}
	show("form", c.Form)
	if c.Form == "JWT" {
		show("alg", c.Algorithm)
	}
	if c.Form != "legacy" {
		show("key", c.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		show(name, c.Claims[name])
	}
}

// claim returns a claim as text, with times in human-readable form.
func claim(name string, value any, now time.Time) string {
	switch value := value.(type) {
	case string:
		return value
	case float64:
		if !slices.Contains([]string{"iat", "exp", "nbf"}, name) || value < 0 || value > 1e11 {
			break
		}
		at := time.Unix(int64(value), 0).UTC()
		when := at.Sub(now).Round(time.Second)
		if when < 0 {
			return fmt.Sprintf("%s, %v ago", at.Format(time.RFC3339), -when)
		}
		return fmt.Sprintf("%s, in %v", at.Format(time.RFC3339), when)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
