package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/sys/term"
)

// stranger is a sample of events that nothing of the project knows.
type stranger struct {
	file        string
	text        string
	valid       int // events that become decisions
	key, stamp  string
	decidedOver string // a field that the decision's rule names
}

// strangers returns a thousand events each of a bank, a forum and a factory.
func strangers() []stranger {
	return []stranger{bank(), forum(), factory()}
}

// bank has camel case, an id, cents, an optional field, nested ones, and four
// lines that are no event.
func bank() stranger {
	r := rand.New(rand.NewPCG(1, 0))
	var text strings.Builder
	at := int64(1_741_000_000_000)
	for i := range 1000 {
		at += r.Int64N(4000)
		if i%250 == 100 {
			text.WriteString("{\"paymentId\": \"broken\n")
			continue
		}
		fmt.Fprintf(&text, `{"paymentId":"%08x-%04x","accountId":"AC%05d","amountEur":%d.%02d,"currency":"%s","method":"%s","bookedAtMs":%d,"merchant":{"name":"x","mcc":%d}`,
			r.Uint32(), i, 10_000+r.IntN(90), 1+r.IntN(300), r.IntN(100), []string{"EUR", "CHF", "SEK"}[r.IntN(3)], []string{"card", "sepa", "wallet"}[r.IntN(3)], at-r.Int64N(2500), 5000+r.IntN(20))
		if r.IntN(4) == 0 {
			fmt.Fprintf(&text, `,"tip":%d`, r.IntN(10))
		}
		text.WriteString("}\n")
	}
	return stranger{"bank payments.ndjson", text.String(), 996, "accountId", "bookedAtMs", "amountEur"}
}

// forum has times of RFC 3339 with zones, text with quotes and other scripts, no
// numbers, a field that is always null and names that are no identifiers.
func forum() stranger {
	r := rand.New(rand.NewPCG(2, 0))
	var text strings.Builder
	at := time.Date(2026, 2, 3, 10, 0, 0, 0, time.FixedZone("", 3600))
	words := []string{"hello", "it's \"fine\"", "спасибо", "buy now!!!", "日本", "a, b; c: d"}
	for i := range 1000 {
		at = at.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
		line, err := json.Marshal(map[string]any{
			"post": fmt.Sprintf("p-%d", 7_000_000+i*13), "author": fmt.Sprintf("user%d@example.org", r.IntN(150)), "body": words[r.IntN(len(words))] + fmt.Sprint(i),
			"created_at": at.Add(-time.Duration(r.IntN(900)) * time.Millisecond).Format(time.RFC3339Nano), "channel-name": "general", "lang": []string{"en", "ru", "ja"}[r.IntN(3)],
			"reply_to": nil, "flagged": r.IntN(50) == 0, "@type": "post",
		})
		if err != nil {
			panic(err) // plain data
		}
		text.Write(append(line, '\n'))
	}
	return stranger{"posts.ndjson", text.String(), 1000, "author", "created_at", "seen"}
}

// factory is CSV of seconds and ints, with empty cells and a high rate.
func factory() stranger {
	r := rand.New(rand.NewPCG(3, 0))
	var text strings.Builder
	text.WriteString("sensor_id,time,temperature,rpm,state,firmware\n")
	for i := range 1000 {
		temperature := fmt.Sprintf("%.3f", 40+r.NormFloat64()*5)
		if r.IntN(20) == 0 {
			temperature = ""
		}
		fmt.Fprintf(&text, "%d,%d,%s,%d,%s,4.2.1\n", 100+r.IntN(12), 1_748_000_000+i/8, temperature, 1400+r.IntN(300), []string{"run", "idle"}[r.IntN(2)])
	}
	return stranger{"line 7.csv", text.String(), 1000, "sensor_id", "time", "rpm"}
}

// TestFromASampleToDecisionsInFiveCommands types what init says to type next.
func TestFromASampleToDecisionsInFiveCommands(t *testing.T) {
	if apart(t) {
		return
	}
	for _, s := range strangers() {
		t.Run(s.file, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, s.file, s.text)
			said := must(t, "", "init", "--sample", s.file)
			_, next, _ := strings.Cut(said, "; next:\n")
			outputs := map[string]string{}
			for line := range strings.Lines(next) {
				args := shellFields(strings.TrimSpace(line))
				outputs[args[1]] = must(t, "", args[1:]...)
			}
			if len(outputs) != 5 || strings.Count(outputs["tail"], "\n") != 5 {
				t.Fatalf("%s\n%v", said, outputs)
			}
			text, err := os.ReadFile("pipeline.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"\n  key: " + s.key + " ", "{field: " + s.stamp + ",", s.decidedOver} {
				if !strings.Contains(string(text), want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
			actions := map[string]int{}
			for line := range strings.Lines(must(t, "", "tail", "decisions")) {
				var decision struct{ Action string }
				if err := json.Unmarshal([]byte(line), &decision); err != nil {
					t.Fatal(err)
				}
				actions[decision.Action]++
			}
			if total(actions) != s.valid || actions["allow"] == 0 || actions["review"] == 0 || actions["review"] > s.valid/5 {
				t.Errorf("decisions %v of %d valid events\n%s", actions, s.valid, text)
			}
			if want := fmt.Sprintf("%s\n", term.Counts(actions)); !strings.Contains(outputs["try"], want) {
				t.Errorf("try says\n%s\nnot %s", outputs["try"], want)
			}
			_, name, _ := strings.Cut(outputs["lint"], "pipeline ")
			name, _, _ = strings.Cut(name, " ")
			dead := must(t, "", "tail", name+".dlq")
			if n := strings.Count(dead, "\n"); n != 1000-s.valid {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// shellFields splits a command line whose words may be in single quotes.
func shellFields(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func TestInitNeverReplacesAFileUnasked(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "e.ndjson", numbered(50))
	write(t, "pipeline.yaml", "mine")
	if r := command(t, "", "init", "--sample", "e.ndjson", "--key", "k"); r.code != exitUsage || !strings.Contains(r.stderr, "--force") {
		t.Errorf("%+v", r)
	}
	if text, _ := os.ReadFile("pipeline.yaml"); string(text) != "mine" {
		t.Errorf("replaced by %s", text)
	}
	must(t, "", "init", "--sample", "e.ndjson", "--key", "k", "--out", "other.yaml")
	must(t, "", "init", "--sample", "e.ndjson", "--key", "k", "--force")
	must(t, "", "lint", "pipeline.yaml", "--help")
	must(t, "", "lint", "other.yaml")
}

func TestInitSaysThatItReadTheBeginningOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	for lines, want := range map[int]string{10_000: "10000 events of a.ndjson\n", 10_001: "10000 events in the first 10000 lines of a.ndjson\n"} {
		write(t, "a.ndjson", strings.Repeat("{\"user\":\"ann\",\"n\":1}\n", lines))
		if out := must(t, "", "init", "--sample", "a.ndjson", "--key", "user", "--force"); !strings.HasPrefix(out, want) {
			t.Errorf("%d lines: %.80s", lines, out)
		}
	}
}

func TestInitSaysWhatItLacks(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "e.ndjson", numbered(50))
	for _, test := range []struct {
		stdin, args string
		code        int
		want        string
	}{
		{"", "--sample e.ndjson", exitUsage, "name one with --key: k (string, 7 values in 50 events), n (int, 50 values in 50 events)"},
		{"", "--sample e.ndjson --key x", exitUsage, "x cannot be the key: the sample has no field"},
		{"", "--sample none.ndjson", exitFailure, "name a file that can be read"},
		{"", "--sample -", exitFailure, "holds no events"},
		{"", "", exitUsage, "--sample"},
		{"", "--sample e.ndjson --key k --time n", exitFailure, "cannot be the event time"},
		{"", "--sample e.ndjson --key k --out no/such/folder.yaml", exitFailure, "--out"},
	} {
		if r := command(t, test.stdin, append([]string{"init"}, strings.Fields(test.args)...)...); r.code != test.code || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: %+v, want %d, %s", test.args, r, test.code, test.want)
		}
	}
	ahead := fmt.Sprintf(`{"user":"a","ts":%d}`+"\n", time.Now().Add(48*time.Hour).Unix())
	if out := must(t, ahead+ahead+strings.Replace(ahead, `"a"`, `"b"`, 1)+"{\n", "init", "--sample", "-"); !strings.Contains(out, "ahead of this machine's clock") || !strings.Contains(out, "1 lines are not JSON objects") || !strings.Contains(out, "produce events events.ndjson --partitions 4 --key user") {
		t.Error(out)
	}
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
