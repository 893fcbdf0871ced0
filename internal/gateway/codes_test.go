package gateway

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestCloseCodesAreWrittenDown compares them with what the howto tells those who
// write clients of their own.
func TestCloseCodesAreWrittenDown(t *testing.T) {
	const howto = "../../docs/howto/gateway-clients.md"
	text, err := os.ReadFile(howto)
	if err != nil {
		t.Fatal(err)
	}
	for code, reason := range closeReasons {
		if row := fmt.Sprintf("| %d | `%s` | ", code, reason); !strings.Contains(string(text), row) {
			t.Errorf("%s has no row %q", howto, row)
		}
	}
	if rows := strings.Count(string(text), "\n| 4"); rows != len(closeReasons) {
		t.Errorf("%s has %d codes, there are %d", howto, rows, len(closeReasons))
	}
}
