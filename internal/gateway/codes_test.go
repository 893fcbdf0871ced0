package gateway

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestCloseCodesAreWrittenDown compares the close codes with the reference for authors of clients.
func TestCloseCodesAreWrittenDown(t *testing.T) {
	const page = "../../docs/reference/gateway-protocol.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for code, reason := range closeReasons {
		if row := fmt.Sprintf("| %d | `%s` | ", code, reason); !strings.Contains(string(text), row) {
			t.Errorf("%s has no row %q", page, row)
		}
	}
	if rows := strings.Count(string(text), "\n| 4"); rows != len(closeReasons) {
		t.Errorf("%s has %d codes, there are %d", page, rows, len(closeReasons))
	}
}
