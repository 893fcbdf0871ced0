package main

import (
	"os"
	"strings"
	"testing"
)

const firstPipeline = `pipeline: first
input:
  topic: events
  key: user
  fields: {user: string, amount: number}
steps:
  - features: {spend: {value: amount, windows: [1h], aggregates: [sum]}}
  - decide: {big: 'amount > 100 && spend.sum_1h > 0'}
  - emit: {topic: decisions, value: [user, big]}
`

// firstHour makes the files of a first hour, right and wrong ones.
func firstHour(t *testing.T) {
	t.Helper()
	stump, err := os.ReadFile("testdata/stump.ubj")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	change := func(old, new string) string {
		if !strings.Contains(firstPipeline, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(firstPipeline, old, new, 1)
	}
	const events = "{\"user\":\"ann\",\"amount\":5}\n{\"user\":\"bob\",\"amount\":500}\n"
	for name, text := range map[string]string{
		"first.yaml":     firstPipeline,
		"events.ndjson":  events,
		"bom.ndjson":     "\uFEFF" + events,
		"crlf.ndjson":    strings.ReplaceAll(events, "\n", "\r\n"),
		"crlf.yaml":      strings.ReplaceAll(firstPipeline, "\n", "\r\n"),
		"1252.ndjson":    "{\"user\":\"Andr\xe9\",\"amount\":5}\n",
		"1252.yaml":      "# Andr\xe9\n" + firstPipeline,
		"empty.ndjson":   "\n\n",
		"empty.yaml":     "# nothing yet\n",
		"word.yaml":      change("input:", "inptu:"),
		"topics.yaml":    change("topic: events", "topics: events"),
		"indent.yaml":    change("  key: user", "   key: user"),
		"tab.yaml":       change("  key: user", "\tkey: user"),
		"twice.yaml":     change("  key: user", "  key: user\n  key: amount"),
		"type.yaml":      change("amount: number", "amount: float"),
		"text.yaml":      change("amount: number", "amount: string"),
		"quotes.yaml":    change("{big: 'amount > 100 && spend.sum_1h > 0'}", "\n      big: amount > 100 ? \"a\" : \"b\""),
		"unclosed.yaml":  change("spend.sum_1h > 0'", "spend.sum_1h > 0"),
		"name.yaml":      change("amount > 100", "amuont > 100"),
		"feature.yaml":   change("spend.sum_1h > 0'", "spend.sum_2h > 0'"),
		"equals.yaml":    change("amount > 100", "amount = 100"),
		"quoted.yaml":    change("amount > 100", `amount > "100"`),
		"half.yaml":      change("amount > 100 && spend.sum_1h > 0", "(amount > 100"),
		"method.yaml":    change("amount > 100", "user.len() > 2"),
		"event.yaml":     change("amount > 100", "event.amount > 100"),
		"variable.yaml":  change("amount > 100", "amount > ${FIRST_LIMIT}"),
		"key.yaml":       change("key: user", "key: usr"),
		"loop.yaml":      change("topic: decisions", "topic: events"),
		"two.yaml":       firstPipeline + "---\n" + firstPipeline,
		"gone.yaml":      change("steps:", "models: {m: {file: none.ubj, version: 1, outputs: {score: number}}}\nsteps:"),
		"version.yaml":   change("steps:", "models: {m: {file: stump.ubj, version: latest, outputs: {score: number}}}\nsteps:"),
		"stump.ubj":      string(stump),
		"stump.yaml":     "model: stump\nversion: 1\nfile: stump.ubj\n",
		"a folder/x.txt": "",
	} {
		if strings.HasPrefix(name, "a folder") {
			if err := os.Mkdir("a folder", 0o700); err != nil {
				t.Fatal(err)
			}
		}
		write(t, name, text)
	}
	must(t, "", "produce", "events", "events.ndjson", "--partitions", "2", "--key", "user")
	must(t, "", "run", "first.yaml", "--listen", "none", "--until-idle")
}

// firstMistakes are command lines that go wrong in the first hour, and what the answer
// says: what is wrong, where, and what to do. "_" is a space within an argument.
var firstMistakes = []struct {
	line string
	code int
	want []string
}{
	// pipeline files
	{"lint word.yaml", exitInvalid, []string{`word.yaml:2:1: inptu: unknown word "inptu": did you mean "input"?`, "afterbay: 1 finding"}},
	{"lint topics.yaml", exitInvalid, []string{"topics.yaml:3:3", `did you mean "topic"?`, "1 finding"}},
	{"lint indent.yaml", exitInvalid, []string{"indent.yaml:4:7", "indent the words of one mapping alike"}},
	{"lint tab.yaml", exitInvalid, []string{"tab.yaml:4:1", "a tab", "spaces"}},
	{"lint twice.yaml", exitInvalid, []string{"twice.yaml:5:3", "is written twice", "line 4"}},
	{"lint type.yaml", exitInvalid, []string{"type.yaml:5:34", `unknown type "float"`, "number", "1 finding"}},
	{"lint text.yaml", exitInvalid, []string{"text.yaml:5:34", "2 places need a number", "declare `amount: number`", "1 finding"}},
	{"lint quotes.yaml", exitInvalid, []string{"quotes.yaml:9:", "quote a value that contains `: `"}},
	{"lint unclosed.yaml", exitInvalid, []string{"unclosed.yaml:8:", "close the quote"}},
	{"lint name.yaml", exitInvalid, []string{"name.yaml:8:", "did you mean amount?"}},
	{"lint feature.yaml", exitInvalid, []string{"feature.yaml:8:", "did you mean spend.sum_1h?"}},
	{"lint equals.yaml", exitInvalid, []string{"compare with =="}},
	{"lint quoted.yaml", exitInvalid, []string{"write the number without quotes: 100"}},
	{"lint half.yaml", exitInvalid, []string{"half.yaml:8:33", "close the parenthesis"}},
	{"lint method.yaml", exitInvalid, []string{"write len(user)"}},
	{"lint event.yaml", exitInvalid, []string{"named alone: amount"}},
	{"lint variable.yaml", exitInvalid, []string{"variable.yaml:8:", "FIRST_LIMIT is not set", "export FIRST_LIMIT="}},
	{"lint key.yaml", exitInvalid, []string{"key.yaml:4:8", "did you mean user?", "1 finding"}},
	{"lint loop.yaml", exitInvalid, []string{"loop.yaml:9:", "never end"}},
	{"lint two.yaml", exitInvalid, []string{`two pipelines are named "first"`, "rename one"}},
	{"lint gone.yaml", exitInvalid, []string{"gone.yaml:6:20", "none.ubj: no such file", "relative to the pipeline file"}},
	{"lint version.yaml", exitInvalid, []string{"write the number of the version"}},
	{"lint empty.yaml", exitInvalid, []string{"start with `pipeline: <name>`"}},
	{"lint 1252.yaml", exitInvalid, []string{"1252.yaml:1:7", "save the file as UTF-8"}},
	{"run first.yaml first.yaml", exitInvalid, []string{"rename one"}},
	// one file for another
	{"lint events.ndjson", exitInvalid, []string{"this is a file of events", "afterbay init --sample events.ndjson"}},
	{"run events.ndjson", exitInvalid, []string{"this is a file of events"}},
	{"run stump.yaml", exitInvalid, []string{"this is a manifest file", "models: {NAME: {file: FILE"}},
	{"run stump.ubj", exitInvalid, []string{"this is binary, not a pipeline file"}},
	{"try events.ndjson first.yaml", exitFailure, []string{"first.yaml:1: the file is YAML", "name a file of events"}},
	{"produce events first.yaml", exitFailure, []string{"the file is YAML"}},
	{"init --sample first.yaml --out new.yaml", exitFailure, []string{"the file is YAML"}},
	{"model verify first.yaml", exitInvalid, []string{"this is a pipeline file, not a manifest file"}},
	{"run a_folder", exitInvalid, []string{"a folder: is a directory", "name a pipeline file"}},
	{"try first.yaml a_folder", exitFailure, []string{"a folder is a directory", "name a file"}},
	{"model score stump.ubj a_folder", exitFailure, []string{"is a directory"}},
	// events
	{"produce events 1252.ndjson --key user", exitUsage, []string{`field "user" of its first record cannot be read`, "UTF-8", "Nothing was appended"}},
	{"produce other events.ndjson --partitions 1 --key usr", exitUsage, []string{"did you mean --key user?", "Nothing was appended"}},
	{"produce evnts events.ndjson", exitFailure, []string{`topic "evnts"`, "the topics are decisions, events, first.dlq"}},
	{"produce my_topic events.ndjson --partitions 1", exitFailure, []string{`"my topic"`, "use letters, digits"}},
	{"produce first.dlq events.ndjson", exitUsage, []string{"belongs to the engine"}},
	{"init --sample empty.ndjson --out new.yaml", exitFailure, []string{"holds no events", "give some lines"}},
	{"init --sample 1252.ndjson --out new.yaml", exitFailure, []string{"invalid UTF-8"}},
	// the command line
	{"produce", exitUsage, []string{`expected "<topic>"`, "write afterbay produce <topic>", "afterbay produce --help"}},
	{"tail", exitUsage, []string{"afterbay tail <topic>"}},
	{"init events.ndjson", exitUsage, []string{"write afterbay init --sample=FILE", "afterbay init --help"}},
	{"status first", exitUsage, []string{"unexpected argument first", "write afterbay status"}},
	{"run first.yaml --listn x", exitUsage, []string{`did you mean "--listen"?`, "afterbay run --help"}},
	{"tail decisions --limit x", exitUsage, []string{"--limit", `"x"`, "afterbay tail --help"}},
	{"statu", exitUsage, []string{`did you mean one of "status"`, "afterbay --help"}},
	{"help frob", exitUsage, []string{"unexpected argument frob"}},
	{"run first.yaml --listen 0.0.0.0:7171", exitUsage, []string{"Set a token", "--insecure"}},
	{"run first.yaml --listen 7171", exitUsage, []string{"use host:port, such as 127.0.0.1:7070"}},
	{"tail decisions --url 127.0.0.1:1", exitUsage, []string{"use http://host:port"}},
	{"tail decisions --url http://127.0.0.1:1", exitFailure, []string{"ask the process at http://127.0.0.1:1: ", "connection refused", "that afterbay runs there"}},
	// looking at what is there
	{"tail decisons", exitFailure, []string{`topic "decisons"`, "the topics are decisions"}},
	{"tail decisions --partition 9", exitFailure, []string{`partition 9 of topic "decisions"`, "0 to 1"}},
	{"tail decisions --data elsewhere", exitFailure, []string{"elsewhere is not a data directory", "--data"}},
	{"explain nosuch", exitFailure, []string{`id "nosuch": not found`, "afterbay tail TOPIC --headers"}},
	{"explain events/9@0", exitFailure, []string{"topic events has only the partitions 0 to 1", "afterbay topics"}},
	{"explain events/0@999", exitFailure, []string{"events/0 has no record at this offset yet; the next record gets offset ", "afterbay topics"}},
	{"state get first zoe", exitFailure, []string{`nothing stored for key "zoe"`, "afterbay state dump"}},
	{"state get frist ann", exitFailure, []string{`unknown pipeline "frist"`, "first"}},
	{"dlq ls frist", exitFailure, []string{"frist.dlq", "see afterbay topics"}},
	{"status", exitFailure, []string{"no process here knows", "start afterbay run", "--data"}},
	{"budget first", exitFailure, []string{"no process here knows", "start afterbay run", "--data"}},
	// what is no mistake, and says so
	{"lint crlf.yaml", exitOK, []string{"is valid"}},
	{"try first.yaml bom.ndjson", exitOK, []string{"pipeline first: 2 events", "dead letters  none"}},
	{"try first.yaml crlf.ndjson", exitOK, []string{"pipeline first: 2 events", "dead letters  none"}},
	{"try first.yaml empty.ndjson", exitOK, []string{"there were no events: name a file"}},
	{"try first.yaml 1252.ndjson", exitOK, []string{"dead letter  decode", "invalid UTF-8"}},
	{"produce events empty.ndjson", exitOK, []string{"empty.ndjson has no records"}},
	{"dlq ls first", exitOK, []string{"no open dead letter of pipeline first matches: add --all"}},
	{"run -h", exitOK, []string{"Usage: afterbay run"}},
	{"help run", exitOK, []string{"Usage: afterbay run"}},
}

// TestMistakesOfTheFirstHourAreAnswered has the mistakes one by one in the folder of
// a beginner.
func TestMistakesOfTheFirstHourAreAnswered(t *testing.T) {
	firstHour(t)
	for _, c := range firstMistakes {
		r := command(t, "", fields(c.line)...)
		if r.code != c.code {
			t.Errorf("%s: exit %d, want %d: %s%s", c.line, r.code, c.code, r.stdout, r.stderr)
		}
		for _, part := range c.want {
			if !strings.Contains(r.stdout+r.stderr, part) {
				t.Errorf("%s: no %q in %s%s", c.line, part, r.stdout, r.stderr)
			}
		}
	}
	// A draft beside the file that runs has the same pipeline, and sorts before it.
	write(t, "draft.yaml", strings.Replace(firstPipeline, "key: user", "key: usr", 1))
	if out := must(t, "", "state", "get", "first", "bob"); !strings.Contains(out, "spend.sum_1h             500\n") {
		t.Error(out)
	}
}
