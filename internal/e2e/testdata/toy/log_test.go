package toy

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// TestTheLogKeepsItsPromises runs the conformance suite.
func TestTheLogKeepsItsPromises(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log {
		opened, err := afterbay.OpenLog(t.Context(), "toy:tests", code, stream.Process{})
		if err != nil {
			t.Fatal(err)
		}
		opened.(*log).patience = 2 * time.Second // a busy machine must not keep a member from its polls so long
		return opened
	})
}

// TestScenariosHappenOnTheLog runs scenarios of the repository, which share the work among
// members and are killed at every stage, with the log as a seventh way.
func TestScenariosHappenOnTheLog(t *testing.T) {
	for _, name := range []string{"chain", "crash", "dedupe", "group", "inputs", "late", "repartition"} {
		files, err := filepath.Glob("../../../../scenario/" + name + "*.txt")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", name, len(files), err)
		}
		for _, file := range files {
			scenario.Test(t, file, scenario.Options{Code: code, Logs: []string{"toy:tests"}})
		}
	}
}

// TestLogsAreChosenByTheirScheme opens logs of each kind that needs no server.
func TestLogsAreChosenByTheirScheme(t *testing.T) {
	for _, url := range []string{"toy:tests", "memory:", "embedded"} {
		log, err := afterbay.OpenLog(t.Context(), url, code, stream.Process{Dir: filepath.Join(t.TempDir(), "data")})
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 1}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := log.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestMistakesOfALogHaveTheirPlace sees findings of the tags and of Check.
func TestMistakesOfALogHaveTheirPlace(t *testing.T) {
	for engine, want := range map[string]string{
		"'toy:'":                            "toy.txt:6:9: engine.url: the log has no name: write toy:NAME",
		"{url: toy:a, patience: 1ms}":       `toy.txt:6:32: engine.patience: "1ms" is out of range: write a duration from 10ms to 1h`,
		"{url: toy:a, patient: 1m}":         `toy.txt:6:22: engine.patient: unknown word "patient": did you mean "patience"?`,
		"{url: toi:a, patience: 1m}":        `engine.patience: unknown word "patience"`,
		"toi:a":                             `engine.url: "toi" is not an engine: use kafka://HOST:PORT, kafka+tls://HOST:PORT, embedded or toy:NAME`,
		"{url: embedded, patience: 1m}":     "engine.url: embedded has no settings: write `engine: embedded`",
		"{url: toy:a, patience: 1m, ca: x}": `unknown word "ca": write url or patience`,
	} {
		text := strings.Replace(payments("lines: {path: a}", 1), "  sinks:", "  engine: "+engine+"\n  sinks:", 1)
		if err := run(t, text, func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", engine, err, want)
		}
	}
	for url, want := range map[string]string{
		"toy:":        "open log: engine.url: the log has no name",
		"toi:a":       `"toi" is not an engine (use kafka://HOST:PORT`,
		"kafka://a":   `broker "a" is not HOST:PORT`,
		"embedded://": "write embedded, which has no settings",
	} {
		if _, err := afterbay.OpenLog(t.Context(), url, code, stream.Process{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// TestLogKindsThatCannotBeAreRefused brings kinds whose names and schemes are taken.
func TestLogKindsThatCannotBeAreRefused(t *testing.T) {
	of := func(change func(*stream.Kind)) []stream.Kind {
		kind := Memory
		change(&kind)
		return []stream.Kind{kind}
	}
	for want, kinds := range map[string][]stream.Kind{
		`log kind "other": the scheme kafka is that of "kafka"`: of(func(k *stream.Kind) { k.Name, k.URLs = "other", []string{"kafka:NAME"} }),
		`log kind "kafka": a kind with that name exists`:        of(func(k *stream.Kind) { k.Name = "kafka" }),
		`log kind "toy": its URLs are needed`:                   of(func(k *stream.Kind) { k.URLs = nil }),
		"log kind \"toy\": a field `url` is needed": of(func(k *stream.Kind) {
			k.New = func() stream.Config {
				return &struct {
					*memory `field:"-"`
					Path    string `field:"path" help:"a path" example:"a"`
				}{}
			}
		}),
	} {
		if _, err := afterbay.Schema(afterbay.Code{Logs: kinds}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
