package admin_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/reload"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// secret returns the token of a name.
func secret(name string) string { return name + "-0123456789abcdef0123456789abcdef" }

func tokens(t *testing.T, roles map[string]access.Roles) access.Tokens {
	t.Helper()
	set := &access.Set{}
	for name, r := range roles {
		if err := set.Add(name, sha256.Sum256([]byte(secret(name))), r); err != nil {
			t.Fatal(err)
		}
	}
	value, err := reload.New("tokens", nil, func() (*access.Set, []string, error) { return set, nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// copies returns a pipeline from in to out.
func copies(t *testing.T, log stream.Log) *running.Runner {
	t.Helper()
	runner, err := builtin.New(lang.Pipeline{
		Name: "copy", Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}, running.Options{})
	if err == nil {
		err = runner.CreateTopics(t.Context(), log)
	}
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// Two tokens that give their records the same numbers are two producers: neither makes the
// other's records repeated.
func TestProducersOfTwoTokensAreTwo(t *testing.T) {
	log := newLog(t)
	runner := copies(t, log)
	_, url := start(t, log, admin.Options{Token: "root", Runners: []*running.Runner{runner}, Tokens: tokens(t, map[string]access.Roles{
		"one": {Produce: []string{"in"}}, "other": {Produce: []string{"in"}},
	})})
	for _, token := range []string{secret("one"), secret("other")} {
		for try, repeated := range []bool{false, true} {
			status, text := request(t, http.MethodPost, url+"/v1/topics/in", `{"k":"a"}`, "Authorization", "Bearer "+token, ingest.HeaderProducer, "p", ingest.HeaderSequence, "7")
			if status != 200 || strings.Contains(text, `"repeated":1`) != repeated {
				t.Errorf("%s, try %d: %d %s", token, try, status, text)
			}
		}
	}
}

// stale are tokens of a file that changed and is wrong.
type stale struct{ access.Tokens }

func (stale) Stale() bool { return true }

func TestMetricsTellOfAWrongTokenFile(t *testing.T) {
	good := tokens(t, map[string]access.Roles{"scraper": {Metrics: true}})
	for want, given := range map[string]access.Tokens{"1": good, "0": stale{good}} {
		_, url := start(t, newLog(t), admin.Options{Token: "root", Tokens: given})
		if status, text := request(t, http.MethodGet, url+"/metrics", "", "Authorization", "Bearer "+secret("scraper")); status != http.StatusOK || !strings.Contains(text, "\nafterbay_token_file_last_reload_successful "+want+"\n") {
			t.Errorf("want %s: %d %s", want, status, text)
		}
	}
}

// A reply about a topic that is not there names those alone that the token may use.
func TestUnknownTopicsTellNoOthers(t *testing.T) {
	log := newLog(t)
	runner := copies(t, log)
	_, url := start(t, log, admin.Options{Token: "root", Runners: []*running.Runner{runner}, Tokens: tokens(t, map[string]access.Roles{
		"some": {Produce: []string{"in*"}, Read: []string{"in*"}}, "none": {Produce: []string{"other"}, Read: []string{"other"}},
	})})
	for _, c := range []struct{ token, method, path, want string }{
		{secret("some"), http.MethodPost, "/v1/topics/inn", "the topics are in;"},
		{secret("some"), http.MethodGet, "/v1/topics/inn/records", "the topics are in;"},
		{secret("none"), http.MethodPost, "/v1/topics/other", "may use no topic"},
		{secret("none"), http.MethodGet, "/v1/topics/other/records", "may use no topic"},
	} {
		if status, text := request(t, c.method, url+c.path, `{"k":"a"}`, "Authorization", "Bearer "+c.token); status != http.StatusNotFound || !strings.Contains(text, c.want) || strings.Contains(text, "out") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
}

func TestTokensOfAFileDoWhatTheirRolesSay(t *testing.T) {
	log := newLog(t)
	runner := copies(t, log)
	_, url := start(t, log, admin.Options{Token: "root", Runners: []*running.Runner{runner}, Tokens: tokens(t, map[string]access.Roles{
		"producer": {Produce: []string{"in", "o*", "*.dlq", "copy.dlq"}},
		"decider":  {Produce: []string{"out"}},
		"reader":   {Read: []string{"out"}},
		"scraper":  {Metrics: true},
		"boss":     {Admin: true},
	})})
	const append, del, put = http.MethodPost, http.MethodDelete, http.MethodPut
	for _, c := range []struct {
		token, method, path string
		want                int
	}{
		{secret("producer"), append, "/v1/topics/in", 200},
		{secret("producer"), append, "/v1/topics/one", 200},
		{secret("producer"), append, "/v1/topics/out", 403}, // a pipeline writes it, and a pattern names nothing exactly
		{secret("producer"), append, "/v1/topics/copy.dlq", 403},
		{secret("producer"), "GET", "/v1/topics/in/records", 403},
		{secret("producer"), "GET", "/metrics", 403},
		{secret("producer"), "GET", "/v1/topics", 200},
		{secret("decider"), append, "/v1/topics/out", 200},
		{secret("decider"), append, "/v1/topics/in", 403},
		{secret("reader"), "GET", "/v1/topics/out/records", 200},
		{secret("reader"), "GET", "/v1/topics/in/records", 403},
		{secret("reader"), append, "/v1/topics/in", 403},
		{secret("scraper"), "GET", "/metrics", 200},
		{secret("scraper"), "GET", "/v1/status", 200},
		{secret("scraper"), append, "/v1/topics/out", 403},
		{secret("scraper"), put, "/v1/topics/new", 403},
		{secret("boss"), put, "/v1/topics/new", 204},
		{secret("boss"), append, "/v1/topics/new", 200},
		{secret("boss"), append, "/v1/topics/out", 403},
		{secret("boss"), append, "/v1/topics/copy.dlq", 403},
		{secret("boss"), "GET", "/v1/dlq/copy", 200},
		{secret("scraper"), append, "/v1/order/copy/skip", 403},
		{secret("boss"), append, "/v1/order/copy/skip", 400}, // it names no source
		{secret("scraper"), "GET", "/v1/dlq/copy", 403},
		{secret("boss"), del, "/v1/topics/new", 204},
		{secret("boss"), del, "/v1/topics/new", 404},
		{secret("boss"), del, "/v1/topics/in", 409},
		{secret("boss"), del, "/v1/topics/out", 409},
		{secret("boss"), del, "/v1/topics/copy.dlq", 409},
		{secret("boss"), append, "/v1/reprocess", 403},
		{"root", append, "/v1/topics/in", 200},
		{"root", append, "/v1/topics/out", 403},
		{"root", append, "/v1/topics/copy.dlq", 403},
		{"", "GET", "/v1/topics", 401},
		{secret("nobody"), "GET", "/v1/topics", 401},
	} {
		body := `{"k":"a"}`
		if c.method == put {
			body = `{"partitions":1}`
		}
		headers := []string{"Authorization", "Bearer " + c.token}
		if c.token == "" {
			headers = nil
		}
		if status, text := request(t, c.method, url+c.path, body, headers...); status != c.want {
			t.Errorf("%s %s by %s: %d %s, want %d", c.method, c.path, c.token, status, text, c.want)
		}
	}
	if _, text := get(t, url+"/v1/topics", "Authorization", "Bearer "+secret("reader")); !strings.Contains(text, `"out"`) || strings.Contains(text, `"in"`) {
		t.Errorf("topics of a reader of out: %s", text)
	}
	if status, text := get(t, url+"/v1/topics", "Authorization", secret("boss")); status != 401 {
		t.Errorf("a token without Bearer: %d %s", status, text)
	}
}

func TestWithoutATokenPipelinesAreTheWritersOfTheirTopics(t *testing.T) {
	log := newLog(t)
	_, url := start(t, log, admin.Options{Runners: []*running.Runner{copies(t, log)}})
	for path, want := range map[string]int{"/v1/topics/in": 200, "/v1/topics/out": 403, "/v1/topics/copy.dlq": 403} {
		if status, text := request(t, http.MethodPost, url+path, `{"k":"a"}`); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
}

func TestTopicsThatCannotBeAreNotMade(t *testing.T) {
	log := newLog(t)
	_, url := start(t, log, admin.Options{})
	for path, body := range map[string]string{
		"a%00b": `{"partitions":1}`, "a%0Ab": `{"partitions":1}`, "%1B%5B31m": `{"partitions":1}`, "..%2F..%2Fx": `{"partitions":1}`, "a%20b": `{"partitions":1}`,
		"mine.dlq": `{"partitions":1}`, "__mine": `{"partitions":1}`, "none": `{"partitions":0}`, "many": `{"partitions":100000}`,
		"key": `{"partitions":1,"key":"a\u001b"}`,
	} {
		if status, text := request(t, http.MethodPut, url+"/v1/topics/"+path, body); status != 400 {
			t.Errorf("%s: %d %s, want 400", path, status, text)
		}
	}
	if status, text := request(t, http.MethodPut, url+"/v1/topics/huge", `{"partitions":65535}`); status != 409 || !strings.Contains(text, "delete a topic") {
		t.Errorf("more partitions than fit: %d %s", status, text)
	}
	if topics, err := log.Topics(t.Context()); err != nil || len(topics) != 2 {
		t.Errorf("topics %v, %v", topics, err)
	}
}
