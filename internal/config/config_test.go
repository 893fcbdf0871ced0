package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"

	"github.com/google/go-cmp/cmp"
)

func pointer[T any](value T) *T { return &value }

// goodFiles are the files of testdata/good and what they say.
var goodFiles = map[string][]lang.Pipeline{
	"baseline.yaml": {{
		Name: "baseline",
		Input: lang.Input{
			Topic: "tx", Partitions: 4, Key: "card",
			Time:   lang.EventTime{Field: "ts", Unit: "ms", Lateness: 5 * time.Second},
			Fields: []lang.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}, {Name: "ts", Type: "int"}},
		},
		Delivery: lang.AtMostOnce,
		Commit:   lang.Commit{Interval: 100 * time.Millisecond},
		Models:   []lang.Model{{Name: "fraud", File: "models/fraud.json", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}}}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{
				Name: "spend", Value: "amount", When: `amount > 0 && card != ""`,
				Windows: []string{"60s", "300s"}, Aggregates: []string{"count", "sum"},
			}}},
			&steps.Score{Model: "fraud", Inputs: []string{"amount", "spend.*"}},
			&steps.Decide{List: []lang.Binding{{Name: "block", Expr: "fraud.score >= 0.5"}}},
			&steps.Emit{Topic: "scores", Names: []string{"card", "fraud.score", "block"}},
		},
	}},
	"fraud.yaml": {
		{
			Name: "terminals",
			Input: lang.Input{
				Topic: "transactions", Key: "terminal",
				Time: lang.EventTime{Field: "ts", Unit: "ms", Lateness: 5 * time.Second, Late: "include"},
				Fields: []lang.Field{
					{Name: "tx", Type: "string"}, {Name: "terminal", Type: "string"}, {Name: "customer", Type: "string"},
					{Name: "amount", Type: "number"}, {Name: "country", Type: "string"}, {Name: "ts", Type: "int"},
				},
			},
			Steps: []lang.Step{
				&steps.Features{List: []steps.Feature{{
					Name: "shop", Value: "amount", Decimals: pointer(2),
					Windows: []string{"1h", "24h"}, Aggregates: []string{"count", "mean"},
				}}},
				&steps.Emit{Topic: "by-customer", Key: "customer", Names: []string{"event.*", "shop.count_1h", "shop.mean_24h"}},
			},
		},
		{
			Name: "fraud",
			Input: lang.Input{
				Topic: "by-customer", Key: "customer",
				Time: lang.EventTime{Field: "ts", Unit: "ms", Lateness: 5 * time.Second, Late: "include"},
				Fields: []lang.Field{
					{Name: "tx", Type: "string"}, {Name: "customer", Type: "string"}, {Name: "amount", Type: "number"},
					{Name: "country", Type: "string"}, {Name: "ts", Type: "int"},
					{Name: "shop_count_1h", Type: "int"}, {Name: "shop_mean_24h", Type: "number"},
				},
			},
			Delivery:  lang.ExactlyOnce,
			Models:    []lang.Model{{Name: "fraud", File: "fraud.ubj", Version: 3, Outputs: []lang.Field{{Name: "score", Type: "number"}}}},
			Constants: []spec.Constant{{Name: "region", Table: map[string]any{"US": int64(0), "GB": int64(1), "DE": int64(2)}}},
			Steps: []lang.Step{
				&steps.Let{List: []lang.Binding{{Name: "where", Expr: "region[country] ?? -1"}}},
				&steps.Features{List: []steps.Feature{
					{
						Name: "spend", Value: "amount", Decimals: pointer(2),
						Windows: []string{"60s/5s", "300s/30s", "3600s/60s"}, Aggregates: []string{"count", "sum", "mean", "max"},
					},
					{Name: "gap", Elapsed: true, Empty: pointer(-1.0)},
					{Name: "past", Value: "fraud.score", Last: 10, Aggregates: []string{"mean"}},
				}},
				&steps.Score{
					Model: "fraud", Inputs: []string{"spend.*", "amount", "gap", "past.mean", "where", "shop_count_1h", "shop_mean_24h"},
					Batch: steps.Batch{Size: 64, Wait: 5 * time.Millisecond},
				},
				&steps.Decide{List: []lang.Binding{{Name: "action", Expr: `fraud.score >= 0.9 ? "block" : fraud.score >= 0.5 ? "review" : "allow"`}}},
				&steps.Emit{Topic: "decisions", Names: []string{"tx", "fraud.score", "action"}},
				&steps.Emit{Topic: "freezes", When: `action == "block"`, ID: `"freeze:" + tx`, Names: []string{"tx", "customer"}},
			},
		},
	},
	"everything.yaml": {{
		Name: "everything",
		Input: lang.Input{
			Topic: "posts", Partitions: 8, Key: "user",
			Time: lang.EventTime{Field: "created", Unit: "rfc3339", Lateness: 90 * time.Second, Late: "dlq", MaxAhead: 36 * time.Hour},
			Fields: []lang.Field{
				{Name: "post", Type: "string"}, {Name: "user", Type: "string"},
				{Name: "text", Type: "optional string"}, {Name: "scores", Type: "number[384]"},
			},
			MaxBytes: 64 << 10,
		},
		Delivery: lang.AtLeastOnce,
		Replies:  []string{"decisions"},
		Commit:   lang.Commit{Interval: 20 * time.Millisecond, Size: 2000},
		Lag:      lang.Lag{Warn: 10 * time.Second, Critical: time.Minute},
		Engine: lang.Engine{URL: "kafka+tls://a:9093,b:9093", Kind: "kafka", Config: &kafka.Config{Settings: kafka.Settings{
			URL: "kafka+tls://a:9093,b:9093", CA: "/tls/ca.pem", Cert: "tls/client.pem", Key: "tls/client.key", SASL: "oauthbearer", User: "scorer",
			PasswordFile: "/run/secrets/kafka", TokenURL: "https://login/token", Scope: "kafka", ClientID: "everything-1", Rack: "r1", GroupProtocol: "consumer", ReplicationFactor: 3,
		}}},
		Models: []lang.Model{{
			Name: "deep", File: "/models/deep.json", Version: 7,
			Outputs: []lang.Field{{Name: "harmful", Type: "number"}, {Name: "spam", Type: "number"}},
		}},
		Constants: []spec.Constant{
			{Name: "limit", Value: 0.5}, {Name: "tries", Value: int64(3)}, {Name: "open", Value: true},
			{Name: "greeting", Value: "hello there"}, {Name: "code", Value: "007"},
			{Name: "weight", Table: map[string]any{"b": 1.5, "a": -2e3}},
		},
		Steps: []lang.Step{
			&steps.Let{List: []lang.Binding{
				{Name: "half", Expr: "0.5"}, {Name: "yes_", Expr: "true"},
				{Name: "tested", Expr: "limit > 0.2 && open"}, {Name: "long", Expr: "deep.harmful > 0.5 && open"},
			}},
			&steps.Features{List: []steps.Feature{{
				Name: "harm", Value: "risk", When: "risk > 0.5", Windows: []string{"60s", "1d/1h"},
				Aggregates: []string{"count", "sum", "mean", "max", "min"}, Decimals: pointer(0), Empty: pointer(0.25),
			}}},
			&steps.Score{
				Model: "deep", As: "second", When: "half > 0.2",
				ByName:   []lang.Binding{{Name: "beta", Expr: "half"}, {Name: "alpha", Expr: "harm.count_60s"}},
				Fallback: []lang.Binding{{Name: "harmful", Expr: "0.5"}, {Name: "spam", Expr: "half"}},
				Batch:    steps.Batch{Size: 256},
			},
			&steps.Decide{List: []lang.Binding{{Name: "risk", Expr: "second.harmful * 2"}}},
			&steps.Emit{
				Topic: "decisions", Key: "post", When: "open", ID: `"p:" + post`,
				Value: []steps.Member{{Name: "id", Expr: "post"}, {Name: "risk", Expr: "risk * 100"}},
			},
			&steps.Emit{Topic: "audit"},
		},
	}},
	"routes.yaml": {{
		Name: "contacts",
		Inputs: []lang.Input{
			{
				Topic: "chats", Key: "customer",
				Time: lang.EventTime{Field: "ts", Unit: "ms", Lateness: 5 * time.Second, LateTo: "late-contacts"},
				Fields: []lang.Field{
					{Name: "kind", Type: "string"}, {Name: "customer", Type: "string"},
					{Name: "ts", Type: "int"}, {Name: "text", Type: "optional string"},
				},
				Dedupe:      &lang.Dedupe{ID: "ts", Window: 24 * time.Hour, Max: 10_000_000},
				Repartition: 8,
			},
			{
				Topic: "calls", Key: "customer",
				Fields: []lang.Field{{Name: "kind", Type: "string"}, {Name: "customer", Type: "string"}, {Name: "call", Type: "string"}},
				Dedupe: &lang.Dedupe{ID: "call"},
			},
		},
		Models: []lang.Model{{Name: "tone", Go: "tone", Version: 2, Outputs: []lang.Field{{Name: "angry", Type: "number"}}}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{
				{Name: "recent", Windows: []string{"60s"}, Aggregates: []string{"count"}, Max: 64, Overflow: "dlq"},
				{Name: "older", Windows: []string{"24h"}, Aggregates: []string{"count"}, Max: 1 << 20, Overflow: "pane"},
			}},
			&steps.Call{
				Go: "language", When: `text != ""`, Inputs: []string{"text", "recent.*"},
				Outputs: []lang.Field{{Name: "lang", Type: "string"}, {Name: "sure", Type: "optional number"}},
				Topics:  []string{"alerts"},
			},
			&steps.Route{Cases: []lang.Case{
				{Name: "chat", When: `kind == "chat"`, Budget: 250 * time.Millisecond, Steps: []lang.Step{
					&steps.Let{List: []lang.Binding{{Name: "body", Expr: `text ?? ""`}}},
					&steps.Score{Model: "tone", Inputs: []string{"recent.count_60s"}},
					&steps.Route{Cases: []lang.Case{
						{Name: "english", When: `lang ?? "" == "en"`, Steps: []lang.Step{&steps.Let{List: []lang.Binding{{Name: "answer", Expr: `"yes"`}}}}},
						{Name: "default", Steps: []lang.Step{&steps.Let{List: []lang.Binding{{Name: "answer", Expr: `"oui"`}}}}},
					}},
				}},
				{Name: "junk", When: `kind == "junk"`, Then: "drop"},
				{Name: "odd", When: `customer == ""`, Then: "dlq"},
				{Name: "default", Then: "drop"},
			}},
			&steps.Call{Go: "count"},
			&steps.Route{Cases: []lang.Case{
				{Name: "all", When: "true", Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"customer"}}}},
				{Name: "default", Then: "dlq"},
			}},
		},
	}},
}

func readGood(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/good", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestGoodFilesSayWhatTheyWrite(t *testing.T) {
	for name, want := range goodFiles {
		file, err := lang.Parse(name, readGood(t, name), builtin.Kinds())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, file.Pipelines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Neither line ends nor a byte order mark change what a file says.
func TestLineEndsAndMarkChangeNothing(t *testing.T) {
	for name, want := range goodFiles {
		text := "\uFEFF" + strings.ReplaceAll(string(readGood(t, name)), "\n", "\r\n")
		file, err := lang.Parse(name, []byte(text), builtin.Kinds())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, file.Pipelines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err := lang.Parse("f.yaml", []byte("\uFEFFpipeline: a\r\ninput: {topic: [b]}\r\n"), builtin.Kinds())
	var first *spec.Error
	if !errors.As(err, &first) || first.Line != 1 || first.Column != 1 || strings.Contains(err.Error(), "\r") {
		t.Errorf("error in a file of CRLF lines: %q", err)
	}
}

func TestLoadJoinsPathsWithTheFolder(t *testing.T) {
	path := filepath.Join("testdata", "good", "fraud.yaml")
	file, err := lang.Load(path, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := file.Pipelines[1].Models[0].File, filepath.Join("testdata", "good", "fraud.ubj"); got != want {
		t.Errorf("relative model path is %q, want %q", got, want)
	}
	if file.Name != path {
		t.Errorf("file is named %q, want %q", file.Name, path)
	}
	if file, err = lang.Load(filepath.Join("testdata", "good", "everything.yaml"), builtin.Kinds()); err != nil {
		t.Fatal(err)
	}
	if got := file.Pipelines[0].Models[0].File; got != "/models/deep.json" {
		t.Errorf("absolute model path became %q", got)
	}
	if e := file.Pipelines[0].Engine.Config.(*kafka.Config); e.CA != "/tls/ca.pem" || e.PasswordFile != "/run/secrets/kafka" || e.Cert != filepath.Join("testdata", "good", "tls", "client.pem") || e.Key != filepath.Join("testdata", "good", "tls", "client.key") {
		t.Errorf("paths of the engine are %+v", e)
	}
}

func TestLoadSaysWhatItCouldNotRead(t *testing.T) {
	_, err := lang.Load(filepath.Join(t.TempDir(), "absent.yaml"), builtin.Kinds())
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("Load of an absent file: %v", err)
	}
	if _, err = lang.Load(t.TempDir(), builtin.Kinds()); err == nil {
		t.Error("Load of a folder succeeded")
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = lang.Load(large, builtin.Kinds())
	if want := large + ": the file is larger than 1 MiB: split it: a file holds the pipelines of one chain"; err == nil || err.Error() != want {
		t.Errorf("Load of a large file: %v, want %s", err, want)
	}
}

func TestTextThatIsNotUTF8IsPlaced(t *testing.T) {
	_, err := lang.Parse("f.yaml", []byte("pipeline: \u00e9\xff\n"), builtin.Kinds())
	want := "f.yaml:1:12: the byte 0xff is not UTF-8: save the file as UTF-8\n" +
		"    1 | pipeline: \u00e9\ufffd\n" +
		"      |            ^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Nothing is lost between documents, whatever stands around them.
func TestEveryDocumentIsAPipeline(t *testing.T) {
	one := "pipeline: %s\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [emit: {topic: o}]\n"
	text := "# licence\n\n---  # first\n" + fmt.Sprintf(one, "a") + "---\n# second\n" + fmt.Sprintf(one, "b") + "# end\n--- \n" + strings.TrimSpace(fmt.Sprintf(one, "c"))
	file, err := lang.Parse("f.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range file.Pipelines {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("pipelines (-want +got):\n%s", diff)
	}
}

// What the parser's time grows with is bounded: each of these, unbounded, took
// seconds to minutes.
func TestHostileFilesEndSoon(t *testing.T) {
	const size = spec.MaxBytes - 100
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, text := range map[string]string{
		"keys":            fill("a: \n"),
		"keys at limit":   strings.Repeat("a: \n", spec.MaxTokens/2),
		"errors":          "{" + strings.Repeat("a: 1, ", spec.MaxTokens/4-1) + "}",
		"unknown words":   unknownFields(spec.MaxTokens / 4),
		"flow list":       "a: [" + fill("1,") + "]",
		"flow open":       fill("["),
		"flow open pairs": fill("{a: "),
		"dashes":          fill("- "),
		"documents":       fill("---\n"),
		"documents of a":  fill("---\na\n"),
		"blanks":          fill(" "),
		"folded":          "a: >-\n" + fill("  x\n"),
		"folded plain":    "a: x\n" + fill("  - x\n"),
		"escapes":         `a: "` + fill(`\n`) + `"`,
		"open quote":      `a: '` + fill("x\n "),
		"wide key":        "constants: {" + strings.Repeat("k", size/2) + ": {" + strings.Repeat("a: 1, ", spec.MaxTokens/5) + "}}",
		"marks":           fill("? "),
		"pipes":           fill("|\n"),
	} {
		start := time.Now()
		_, err := lang.Parse("f.yaml", []byte(text), builtin.Kinds())
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if found := err.(spec.Errors); len(found) > spec.MaxErrors && (len(found) > spec.MaxErrors+1 || found[spec.MaxErrors].Hint != "correct them first") {
			t.Errorf("%s: %d errors, want %d and a last word", name, len(found), spec.MaxErrors)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		} else if testing.Verbose() {
			t.Logf("%-16s %v", name, took.Round(time.Millisecond))
		}
	}
}

func unknownFields(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "word%d: 1\n", i)
	}
	return text.String()
}

func TestErrorsAreFoundOneByOne(t *testing.T) {
	_, err := lang.Parse("f.yaml", []byte("pipeline: a\ninput: {}\n"), builtin.Kinds())
	var one *spec.Error
	if !errors.As(fmt.Errorf("start: %w", err), &one) || one.Line != 1 || one.Message != "`steps` is missing" {
		t.Errorf("first error is %v", one)
	}
}
