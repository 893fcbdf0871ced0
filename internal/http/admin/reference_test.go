package admin

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

const reference = "../../../docs/reference/metrics.md"

var update = flag.Bool("update", false, "write "+reference)

// TestReferenceListsEveryMetric holds the names, types, units, labels and help of all
// metrics, since dashboards and alerts are made of them.
// `go test ./internal/http/admin -run TestReference -update` writes the page.
func TestReferenceListsEveryMetric(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# Metrics

A server shows its metrics at ` + "`/metrics`" + `, as Prometheus reads them: ` + "`afterbay run`" + ` at ` + "`--listen`" + `, ` + "`afterbay gateway`" + ` at ` + "`--admin`" + `, ` + "`afterbay serve`" + ` at its address.
Names have base units: times are in seconds, sizes in bytes. A counter ends in ` + "`_total`" + `. A metric that is absent does not apply, for example that of a sink where no pipeline has one.
The metrics ` + "`go_*` and `process_*`" + ` of Prometheus' client are there too. Histograms have classic and native buckets, except that of ` + "`afterbay serve`" + `, which has classic ones.

This page is generated: ` + "`go test ./internal/http/admin -run TestReference -update`" + ` writes it.
`)
	gateways, pipelines := split(Metrics(), func(i metric.Info) bool { return strings.HasPrefix(i.Name, "afterbay_gateway_") })
	for _, section := range []struct {
		title string
		list  []metric.Info
	}{
		{"Pipelines and their log", pipelines}, {"Gateways", gateways}, {"Served models (`afterbay serve`, `afterbay run`)", serving.Metrics()},
		{"HTTP servers", append(server.Metrics(), access.TokensMetrics()...)},
	} {
		fmt.Fprintf(&page, "\n## %s\n\n| Metric | Type | Unit | Labels | Value |\n|---|---|---|---|---|\n", section.title)
		slices.SortFunc(section.list, func(a, b metric.Info) int { return strings.Compare(a.Name, b.Name) })
		for _, i := range section.list {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", i.Name, i.Type, i.Unit, strings.Join(i.Labels, ", "), i.Help)
		}
	}
	if *update {
		if err := os.WriteFile(reference, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page.String()); diff != "" {
		t.Errorf("%s: -update writes it if the change is meant: %s", reference, diff)
	}
}

// TestCountsOfStatusAreNamedAsMetrics compares the fields of a pipeline's counts in JSON
// with the metrics.
func TestCountsOfStatusAreNamedAsMetrics(t *testing.T) {
	known := map[string]bool{}
	for _, i := range Metrics() {
		known[i.Name] = true
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[observe.Counts]()) {
		if field.Anonymous {
			continue
		}
		name := field.Tag.Get("json")
		if base, _, ok := strings.Cut(name, "_batches_"); ok { // by reason, a label
			name = base + "_batches"
		}
		if !known["afterbay_"+name+"_total"] {
			t.Errorf("%s is %q, and no metric is afterbay_%s_total", field.Name, field.Tag, name)
		}
	}
}

func split(list []metric.Info, is func(metric.Info) bool) (yes, no []metric.Info) {
	for _, i := range list {
		if is(i) {
			yes = append(yes, i)
		} else {
			no = append(no, i)
		}
	}
	return yes, no
}

func allMetrics() []metric.Info {
	return slices.Concat(Metrics(), serving.Metrics(), server.Metrics(), access.TokensMetrics())
}

// TestMetricsPassPromlint gives each metric one sample.
func TestMetricsPassPromlint(t *testing.T) {
	var families []*dto.MetricFamily
	seen := map[string]bool{}
	for _, i := range allMetrics() {
		kind, zero, count := dto.MetricType(dto.MetricType_value[strings.ToUpper(string(i.Type))]), 0.0, uint64(0)
		sample := &dto.Metric{}
		for _, l := range i.Labels {
			sample.Label = append(sample.Label, &dto.LabelPair{Name: &l, Value: new(string)})
		}
		switch kind {
		case dto.MetricType_COUNTER:
			sample.Counter = &dto.Counter{Value: &zero}
		case dto.MetricType_GAUGE:
			sample.Gauge = &dto.Gauge{Value: &zero}
		default:
			sample.Histogram = &dto.Histogram{SampleCount: &count, SampleSum: &zero}
		}
		families = append(families, &dto.MetricFamily{Name: &i.Name, Help: &i.Help, Type: &kind, Metric: []*dto.Metric{sample}})
		if seen[i.Name] || strings.Contains(i.Name, "__") || !strings.HasSuffix(i.Help, ".") || len(i.Help) < 10 {
			t.Errorf("%s: a second time, or without a name part or a sentence of help: %q", i.Name, i.Help)
		}
		seen[i.Name] = true
		for _, unit := range []metric.Unit{metric.Seconds, metric.Bytes} {
			if strings.Contains(i.Name, string(unit)) != (i.Unit == unit) {
				t.Errorf("%s has unit %q", i.Name, i.Unit)
			}
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestEveryCollectorIsInTheReference compares what the collectors describe with the page.
func TestEveryCollectorIsInTheReference(t *testing.T) {
	known := map[string]bool{}
	for _, i := range allMetrics() {
		known[prometheus.NewDesc(i.Name, i.Help, i.Labels, nil).String()] = true
	}
	for _, c := range []prometheus.Collector{collector(nil), server.NewCollector(), access.NewTokensCollector(nil)} {
		descs := make(chan *prometheus.Desc)
		go func() {
			c.Describe(descs)
			close(descs)
		}()
		for d := range descs {
			if !known[d.String()] {
				t.Errorf("%s is not in the reference", d)
			}
		}
	}
}

// TestNoMetricIsOutsideOfTheTables reads the sources of the module: metrics are made in
// tables that the reference lists, and nowhere else.
func TestNoMetricIsOutsideOfTheTables(t *testing.T) {
	tables := map[string]string{ // what may make metrics, and the folders where
		"metric.Each": "internal/http/admin", "metric.Titled": "internal/http/admin",
		"metric.NewTable": "internal/http/server internal/http/access internal/http/serving", "metric.NewInfo": "internal/http/serving",
		"prometheus.NewDesc": "internal/observe/metric", "prometheus.MustNewConstMetric": "internal/observe/metric",
		"prometheus.NewCounterVec": "internal/http/serving", "prometheus.NewHistogramVec": "internal/http/serving",
	}
	makes := regexp.MustCompile(`\b(?:metric\.(?:Each|Titled|NewTable|NewInfo)|(?:prometheus|promauto)\.(?:MustNew|New)(?:Const|Counter|Gauge|Histogram|Summary|Untyped|Desc)\w*)\b`)
	root := os.DirFS("../../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bench", "examples", "docs"}, path)) {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		for _, made := range makes.FindAllString(string(text), -1) {
			if !slices.Contains(strings.Fields(tables[made]), filepath.ToSlash(filepath.Dir(path))) {
				t.Errorf("%s: %s: a metric has a row in the figures of internal/http/admin", path, made)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDocumentsNameMetricsThatExist reads the names of metrics in the documentation. A
// name that a page shortens to its end begins with "_" and is the end of some metric.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, i := range allMetrics() {
		known[i.Name] = true
	}
	columns := regexp.MustCompile(`^afterbay_(source|generation|offset|record|version|positions|stamp|id|partition|time|key|position|pipeline|models|approximate|fallback|stage|error|value|deleted)$`)
	named := regexp.MustCompile("\\b(afterbay_[a-z_]+)[`{)]|`(_[a-z][a-z_]+)[`{]")
	err := fs.WalkDir(os.DirFS("../../../docs"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") || strings.HasPrefix(path, "results/") || path == "upgrading.md" {
			return err
		}
		text, err := os.ReadFile("../../../docs/" + path)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			whole, end := m[1], m[2]
			ends := func(name string) bool { return strings.HasSuffix(name, end) }
			if end == "" && !known[whole] && !columns.MatchString(whole) || end != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(known)), ends) {
				t.Errorf("docs/%s: no metric is called %s%s", path, whole, end)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
