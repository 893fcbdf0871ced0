package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/stream"
)

const shopsPipeline = `pipeline: shops
input:
  topic: payments
  partitions: 2
  key: shop
  repartition: 2
  time: {field: at, unit: rfc3339, lateness: 30s, idle: never}
  fields: {card: string, shop: string, at: time}
steps:
  - features: {seen: {windows: [1m], aggregates: [count]}}
  - emit: {topic: counts, value: [at, card, seen.*]}
`

// TestASourceThatStoppedIsNamedAndSkipped has partition 1 say nothing after 10:00:12, in a pipeline
// that waits without end. The commands name it. When it is skipped, what waited goes on, and its
// next event is forced. The same repartition topic in another log gives the same outputs.
func TestASourceThatStoppedIsNamedAndSkipped(t *testing.T) {
	t.Chdir(t.TempDir())
	const boss, scraper = "boss-0123456789abcdef0123456789abcdef", "scraper-0123456789abcdef0123456789abcdef"
	write(t, "shops.yaml", shopsPipeline)
	write(t, "tokens.yaml", "tokens:\n"+tokenLine("boss", boss, "{admin: true}")+tokenLine("scraper", scraper, "{metrics: true}"))
	must(t, `{"card":"ann","shop":"s","at":"2026-01-01T10:00:02Z"}
{"card":"ann","shop":"s","at":"2026-01-01T10:00:22Z"}
{"card":"ann","shop":"s","at":"2026-01-01T10:00:50Z"}
{"card":"dan","shop":"s","at":"2026-01-01T10:00:12Z"}
`, "produce", "payments", "--key", "card", "--partitions", "2")
	out, end := background(t, "run", "shops.yaml", "--listen", "127.0.0.1:0", "--token-file", "tokens.yaml")
	out.wait(t, "afterbay tail counts --follow")
	url := regexp.MustCompile(`http://127.0.0.1:[0-9]+`).FindString(out.String())

	var orders admin.Orders
	until(t, func() bool { // it was read, and waits for longer than a moment
		orders = admin.Orders{}
		if err := json.Unmarshal([]byte(must(t, "", "order", "status", "--json")), &orders); err != nil {
			t.Fatal(err)
		}
		h := orders.Pipelines[0].Holder()
		return h != nil && h.Source == "payments/1" && h.Holds == 2 && h.For > 1
	})
	text := must(t, "", "order", "status", "shops")
	for _, want := range []string{
		"shops, in the order of time: 2 events held, 0 forced, 0 late",
		"waits for payments/1, at 2026-01-01 10:00:12, for ", "it has no more records, and idle is never",
		"afterbay order skip shops --source payments/1\n", "\npayments/0  2026-01-01 10:00:50  3 ", "\npayments/1  2026-01-01 10:00:12  1 ",
		"shops.repartition/1  2     2026-01-01 10:00:22  payments/1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("status lacks %q:\n%s", want, text)
		}
	}
	if status := must(t, "", "status"); !regexp.MustCompile(`\nPIPELINE +HELD +FORCED +WAITS FOR +FOR *\nshops +2 +0 +payments/1 +\d`).MatchString(status) {
		t.Error(status)
	}
	if lag := must(t, "", "lag", "shops"); !regexp.MustCompile(`\nshops +shops.repartition +1 +\d+ +\d+ +2 `).MatchString("\n" + lag) { // marks are no events
		t.Error(lag)
	}
	refused(t, url, scraper)
	if said := must(t, "", "order", "skip", "shops", "--source", "payments/1", "--url", url, "--token", boss); !strings.Contains(said, "payments/1 is skipped up to now: 2 events waited for it") {
		t.Error(said)
	}
	until(t, func() bool { return strings.Count(must(t, "", "tail", "counts"), "\n") == 4 })
	if r := command(t, "", "order", "skip", "shops", "--source", "payments/1"); r.code != exitFailure || !strings.Contains(r.stderr, "no event of pipeline") {
		t.Errorf("nothing waits: %+v", r)
	}
	heldIsExplained(t)
	must(t, `{"card":"dan","shop":"s","at":"2026-01-01T10:00:35Z"}`+"\n", "produce", "payments", "--key", "card")
	until(t, func() bool { return strings.Count(must(t, "", "tail", "counts"), "\n") == 5 })
	if text := must(t, "", "order", "status", "shops"); !strings.Contains(text, "0 events held, 1 forced, 0 late") || !strings.Contains(text, "no event waits\n") {
		t.Error(text)
	}
	if text := must(t, "", "budget", "shops"); !regexp.MustCompile(`\norder +\S+ +[1-9]\S*s +.*\n(.*\n)*events waited for their turn: payments/1 for `).MatchString(text) {
		t.Error(text)
	}
	counts, copies := must(t, "", "tail", "counts"), must(t, "", "tail", "shops.repartition")
	if code := end(); code != exitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	if !strings.Contains(copies, `{"skip":"payments/1","by":"boss","at":"`) {
		t.Errorf("the log does not say who skipped: %s", copies)
	}
	again(t, "data", "again")
	must(t, "", "run", "shops.yaml", "--listen", "none", "--until-idle", "--data", "again")
	if diff := cmp.Diff(counts, must(t, "", "tail", "counts", "--data", "again")); diff != "" {
		t.Errorf("the same repartition topic gives other outputs: %s", diff)
	}
}

// heldIsExplained sees that explain says how long the newest event was held and for what, also once
// the process has ended.
func heldIsExplained(t *testing.T) {
	t.Helper()
	all := tail(t, "counts")
	id := all[slices.IndexFunc(all, func(r tailed) bool { return strings.Contains(string(r.Value), "10:00:50") })].header("afterbay-id")
	var h *explain.Phases
	until(t, func() bool { // the times are noted shortly after the output is there
		h = explained(t, id).Output.Made.Phases
		return h != nil
	})
	if !h.Ordered || !h.OrderKnown || h.Order < time.Second || h.WaitedFor != "payments/1" || h.Total() < h.Queue+h.Order {
		t.Errorf("phases %+v", h)
	}
	if text := must(t, "", "explain", id); !regexp.MustCompile(`\n    order +\d{4,}\.\d{3} ms +\d+ %  until its turn, at last for payments/1\n`).MatchString(text) {
		t.Error(text)
	}
}

// refused skips what is not waited for, and as one who may only look.
func refused(t *testing.T, url, scraper string) {
	t.Helper()
	for source, want := range map[string]string{
		"payments/0": `no event waits for payments/0: pipeline "shops" waits for payments/1`, "payments/7": "it has payments/0, payments/1", "clicks/0": "is not a source partition",
	} {
		if r := command(t, "", "order", "skip", "shops", "--source", source); r.code != exitFailure || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", source, r)
		}
	}
	if r := command(t, "", "order", "skip", "shops", "--source", "payments/1", "--url", url, "--token", scraper); r.code != exitFailure || !strings.Contains(r.stderr, "admin") {
		t.Errorf("a reader skips: %+v", r)
	}
	if r := command(t, "", "order", "status", "--url", url, "--token", scraper); r.code != exitOK || !strings.Contains(r.stdout, "waits for payments/1") {
		t.Errorf("a reader looks: %+v", r)
	}
}

// until waits until something is so.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(4 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not so after minutes")
		}
	}
}

// again copies the repartition topic of shops to another directory.
func again(t *testing.T, from, to string) {
	t.Helper()
	log, err := embedded.Open(from, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	other, err := embedded.Open(to, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, topic := range []stream.Topic{{Name: "payments", Key: "card", Partitions: 2}, {Name: "shops.repartition", Partitions: 2}} {
		if err := other.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	for index := range int32(2) {
		p := stream.Partition{Topic: "shops.repartition", Index: index}
		_, next, err := log.Offsets(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range log.Tail(t.Context(), p, 0) {
			if err == nil {
				err = other.Append(t.Context(), r)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Offset+1 == next {
				break
			}
		}
	}
}
