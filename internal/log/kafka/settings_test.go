package kafka

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/spec"
)

// TestOldSettingsNameTheNewWord sees settings of a typed URL, and of one that stands in a file.
func TestOldSettingsNameTheNewWord(t *testing.T) {
	for setting, want := range map[string]string{
		"groups=server":         "`groups` is now `group_protocol`",
		"group_protocol=server": "`group_protocol: server` is now `group_protocol: consumer`",
		"replication=3":         "`replication` is now `replication_factor`",
	} {
		_, typed := ParseSettings("kafka://h:1?" + setting)
		inFile := Settings{URL: "kafka://h:1?" + setting}.Check()
		for from, found := range map[string]spec.Problems{"typed": typed, "in a file": inFile} {
			if text := found.Error(); !strings.Contains(text, want) || !strings.Contains(text, "docs/upgrading.md") {
				t.Errorf("%s %s: %q, want %s", setting, from, text, want)
			}
		}
	}
}
