package scenario

import (
	"os"
	"strings"
	"testing"
)

func TestReferencePageIsRight(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```")
	const pipeline = `pipeline
  pipeline: visits
  input: {topic: visits, key: page, fields: {page: string}}
  steps:
    - features: {seen: {windows: [1h], aggregates: [count]}}
    - emit: {topic: counts, value: [page, seen.count_1h]}
`
	s, err := Parse("scenarios.md", []byte(strings.Replace(blocks[1], "pipeline visits.yaml\n", pipeline, 1)))
	if err != nil {
		t.Fatal(err)
	}
	failures, err := s.Run(t.Context(), Options{})
	if err != nil || failures != nil {
		t.Errorf("the example: %v %v", failures, err)
	}
	named := stages
	for _, w := range words {
		named = append(named, w.name)
	}
	for _, word := range append(named, shows...) {
		if !strings.Contains(string(page), "`"+word+"`") && !strings.Contains(string(page), "`"+word+" ") {
			t.Errorf("%s is not on the page", word)
		}
	}
	if rows := strings.Count(string(page), "\n| memory |") + strings.Count(string(page), "\n| embedded |"); rows != len(ways) {
		t.Errorf("the page has %d ways of %d", rows, len(ways))
	}
}
