package serve

import (
	"flag"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/http/server"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt")

// TestMetricNamesAreWhatTheyWere compares the names and labels of metrics with
// testdata/metrics.txt, which `go test ./serve -run TestMetricNames -update` writes:
// dashboards and alerts are made of them.
func TestMetricNamesAreWhatTheyWere(t *testing.T) {
	checkMetrics(t, []prometheus.Collector{
		newPipelineCollector(nil), newScoredCollector(nil), newJournalCollector(&Server{}), newEndpointCollector(nil), newLagCollector(nil),
		newBacklogs(nil, slog.New(slog.DiscardHandler)), newSinkCollector(nil), newLookupCollector(nil), newGroupCollector(nil), newFetchCollector(nil), newBudgetCollector(nil),
		newRestoreCollector(nil), newStandbyCollector(nil), GatewayCollector(nil), newBoundsCollector(&Gateway{}), newTokensCollector(nil),
		server.Collector{},
	})
}

func checkMetrics(t *testing.T, all []prometheus.Collector) {
	t.Helper()
	described := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: (\{.*?\})`)
	lines := map[string]bool{}
	for _, c := range all {
		descs := make(chan *prometheus.Desc)
		go func() {
			c.Describe(descs)
			close(descs)
		}()
		for d := range descs {
			found := described.FindStringSubmatch(d.String())
			if found == nil {
				t.Fatalf("%s", d)
			}
			lines[found[1]+" "+found[2]] = true
		}
	}
	text := strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
	const path = "testdata/metrics.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s has other metrics: got\n%s\n-update writes it, if this is meant", path, text)
	}
}
