package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/ops/report"
)

const pricesPipeline = `pipeline: prices
input:
  topic: orders
  partitions: 1
  key: customer
  fields: {customer: string, amount: number, parts: number}
steps:
  - features:
      seen: {windows: [24h], aggregates: [count]}
  - let: {each: 'amount / parts'}
  - emit: {topic: priced, value: [customer, each, seen.count_24h]}
`

// lettersOfOrders makes a data directory with two dead letters: one that a
// corrected pipeline takes, and one that none does.
func lettersOfOrders(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "prices.yaml", pricesPipeline)
	must(t, `{"customer":"c1","amount":6,"parts":2}
{"customer":"c1","amount":6,"parts":0}
{"customer":"c2","amount":"six","parts":1}
{"customer":"c1","amount":8,"parts":2}
`, "produce", "orders", "--partitions", "1", "--key", "customer")
	must(t, "", "run", "prices.yaml", "--listen", "none", "--until-idle")
	write(t, "prices.yaml", strings.Replace(pricesPipeline, "'amount / parts'", "'parts == 0.0 ? 0.0 : amount / parts'", 1))
}

var anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT[0-9:.]+Z`)

func TestDeadLettersAreListedShownAndCounted(t *testing.T) {
	if apart(t) {
		return
	}
	lettersOfOrders(t)
	list := anyTime.ReplaceAllString(must(t, "", "dlq", "ls", "prices"), "TIME")
	const want = `prices.dlq/0@0  TIME  orders/0@1  let: each: column 8: division by zero
prices.dlq/0@1  TIME  orders/0@2  decode: field "amount" at byte 26: want number, got a string
`
	if d := cmp.Diff(want, list); d != "" {
		t.Error(d)
	}
	for line, want := range map[string]int{
		"--stage let": 1, "--reason division": 1, "--key c2": 1, "--id orders/0@1": 1, "--partition 0": 2, "--partition 1": 0,
		"--since 1h": 2, "--until 1h": 0, "--limit 1": 1, "--stage let --key c2": 0,
	} {
		if got := strings.Count(must(t, "", append([]string{"dlq", "ls", "prices"}, fields(line)...)...), "\n"); got != want {
			t.Errorf("%s: %d letters, want %d", line, got, want)
		}
	}
	var one report.Letter
	if err := json.Unmarshal([]byte(must(t, "", "dlq", "ls", "prices", "--stage", "let", "--json")), &one); err != nil || one.Resume != "from let each" || one.Origin != "orders/0@1" || one.Refusal != "" {
		t.Errorf("%+v: %v", one, err)
	}
	for _, name := range []string{"orders/0@1", "prices.dlq/0@0"} {
		shown := must(t, "", "dlq", "show", "prices", name)
		for _, want := range []string{"from let each", "division by zero", `"seen.count_24h":2`, `{"customer":"c1","amount":6,"parts":0}`, "open"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, shown)
			}
		}
	}
	stats := regexp.MustCompile(` +`).ReplaceAllString(anyTime.ReplaceAllString(must(t, "", "dlq", "stats", "prices"), "TIME"), " ")
	const wantStats = `OPEN SETTLED STAGE FIRST LAST REASON
1 0 decode TIME TIME field "amount" at byte #: want number, got a string
1 0 let TIME TIME each: column #: division by zero
2 0 all
`
	if d := cmp.Diff(wantStats, stats); d != "" {
		t.Error(d)
	}
}

// TestDeadLettersAreSettledWithAndWithoutAProcess does it on the directory, and
// through the process that holds it.
func TestDeadLettersAreSettledWithAndWithoutAProcess(t *testing.T) {
	if apart(t) {
		return
	}
	for _, running := range []bool{false, true} {
		lettersOfOrders(t)
		end := func() int { return exitOK }
		if running {
			var out *screen
			out, end = background(t, "run", "prices.yaml", "--listen", "127.0.0.1:0")
			out.wait(t, "afterbay tail priced --follow")
		}
		if got := must(t, "", "dlq", "redrive", "prices", "--stage", "let", "--dry-run"); got != "would send back 1 of 1 that are selected\n" {
			t.Error(got)
		}
		if got := must(t, "", "dlq", "redrive", "prices", "--stage", "let"); got != "1 of 2 open dead letters sent back\n" {
			t.Error(got)
		}
		if got := must(t, "", "dlq", "redrive", "prices", "--stage", "let"); got != "0 of 1 open dead letters sent back\n" {
			t.Errorf("once more: %s", got)
		}
		if running {
			follow, endFollow := background(t, "tail", "priced", "--follow")
			follow.wait(t, `{"customer":"c1","each":0,"seen_count_24h":2}`)
			endFollow()
		} else {
			must(t, "", "run", "prices.yaml", "--listen", "none", "--until-idle")
		}
		if got := must(t, "", "tail", "priced"); strings.Count(got, "\n") != 3 || !strings.Contains(got, `{"customer":"c1","each":0,"seen_count_24h":2}`) {
			t.Error(got)
		}
		if r := command(t, "", "dlq", "drop", "prices"); r.code != exitUsage || !strings.Contains(r.stderr, "--everything") {
			t.Errorf("%+v", r)
		}
		if got := must(t, "", "dlq", "drop", "prices", "--reason", "amount"); got != "1 of 1 open dead letters dropped\n" {
			t.Error(got)
		}
		if got := must(t, "", "dlq", "ls", "prices"); got != "" {
			t.Error(got)
		}
		if got := must(t, "", "dlq", "ls", "prices", "--all"); strings.Count(got, "settled\n") != 2 {
			t.Error(got)
		}
		if got := must(t, "", "lag"); strings.Contains(got, "prices.dlq") {
			t.Errorf("the group of settled letters is shown as a pipeline:\n%s", got)
		}
		if r := command(t, "", "dlq", "resume", "prices"); r.code != exitFailure {
			t.Errorf("%+v", r)
		}
		if r := command(t, "", "dlq", "redrive", "nobody"); r.code != exitFailure || !strings.Contains(r.stderr, "nobody.dlq") {
			t.Errorf("%+v", r)
		}
		if code := end(); code != exitOK {
			t.Errorf("the process ended with %d", code)
		}
	}
}

// TestDeadLettersOfPipelinesAndSinksAreSentBackOnEveryEngine corrects a pipeline
// and a service, and sends back what each of them refused.
func TestDeadLettersOfPipelinesAndSinksAreSentBackOnEveryEngine(t *testing.T) {
	if apart(t) {
		return
	}
	for name, engine := range map[string]func(*testing.T) string{
		"embedded": func(*testing.T) string { return "" }, "kafka": func(t *testing.T) string { return fakeEngine(t) }, "broker": realEngine,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AFTERBAY_ENGINE", engine(t))
			t.Chdir(t.TempDir())
			service := &parcels{refuses: "c2", calls: map[string]int{}}
			server := httptest.NewServer(service)
			defer server.Close()
			const names = "returns"
			file := strings.NewReplacer("pipeline: prices", "pipeline: "+names, "topic: orders", "topic: "+names+"-in", "topic: priced", "topic: "+names+"-out").
				Replace(pricesPipeline) + "sinks:\n  - {from: returns-out, name: post, http: {url: '" + server.URL + "'}}\n"
			write(t, "p.yaml", file)
			must(t, `{"customer":"c1","amount":6,"parts":2}
{"customer":"c1","amount":6,"parts":0}
{"customer":"c2","amount":8,"parts":2}
`, "produce", names+"-in", "--partitions", "1", "--key", "customer")
			must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle", "--parallelism", "1")
			if got := must(t, "", "dlq", "ls", names+".post"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "sink:post: refused: POST") {
				t.Error(got)
			}
			if got := must(t, "", "dlq", "show", names+".post", names+":"+names+"-in/0@2:"+names+"-out"); !strings.Contains(got, "goes on      deliver") {
				t.Error(got)
			}
			write(t, "p.yaml", strings.Replace(file, "'amount / parts'", "'parts == 0.0 ? 0.0 : amount / parts'", 1))
			service.refuses = ""
			for _, of := range []string{names, names + ".post"} {
				for _, want := range []string{"1 of 1 open dead letters sent back\n", "0 of 0 open dead letters sent back\n"} {
					if got := must(t, "", "dlq", "redrive", of); got != want {
						t.Errorf("%s: %s, want %s", of, got, want)
					}
				}
			}
			must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle", "--parallelism", "1")
			want := map[string]int{}
			for i, calls := range []int{1, 1, 2} {
				want[fmt.Sprintf("%[1]s:%[1]s-in/0@%[2]d:%[1]s-out", names, i)] = calls
			}
			if d := cmp.Diff(want, service.calls); d != "" {
				t.Error(d)
			}
			if got := must(t, "", "tail", names+"-out"); strings.Count(got, "\n") != 3 {
				t.Errorf("outputs:\n%s", got)
			}
		})
	}
}

// parcels is a service that refuses a customer.
type parcels struct {
	refuses string

	mu    sync.Mutex // guards calls
	calls map[string]int
}

func (p *parcels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[r.Header.Get("Idempotency-Key")]++
	if p.refuses != "" && strings.Contains(string(body), p.refuses) {
		http.Error(w, "unknown", http.StatusUnprocessableEntity)
	}
}
