package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	lookuphttp "github.com/afterbay/afterbay/internal/lookups/http"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/internal/sinks/kafka"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/sink"
)

func TestBuiltInKindsCanBe(t *testing.T) {
	if err := builtin.Kinds().Check(); err != nil {
		t.Error(err)
	}
}

// TestKindsOfAProgramStandBesideTheBuiltInOnes refuses a name that is taken.
func TestKindsOfAProgramStandBesideTheBuiltInOnes(t *testing.T) {
	built := builtin.Kinds()
	mine := http.Kind
	mine.Name = "mine"
	all, err := built.With(lang.Code{Sinks: []sink.Kind{mine}})
	if err != nil || len(all.Sinks) != len(built.Sinks)+1 {
		t.Errorf("%d kinds, %v", len(all.Sinks), err)
	}
	look := lookuphttp.Kind
	look.Name = "mine"
	all, err = built.With(lang.Code{Sinks: []sink.Kind{mine}, Lookups: []lookup.Kind{look}})
	if err != nil || len(all.Lookups) != len(built.Lookups)+1 {
		t.Errorf("%d kinds of lookups, %v", len(all.Lookups), err)
	}
	for _, name := range []string{"http", "table", "key", "Mine", ""} {
		look.Name = name
		if _, err := built.With(lang.Code{Lookups: []lookup.Kind{look}}); err == nil {
			t.Errorf("a kind of lookups may be named %q", name)
		}
	}
	for _, name := range []string{"http", "from", "Mine", ""} {
		mine.Name = name
		if _, err := built.With(lang.Code{Sinks: []sink.Kind{mine}}); err == nil {
			t.Errorf("a kind may be named %q", name)
		}
	}
}

// TestPathsOfKindsAreRelativeToTheFile reads the files that sinks and a lookup name.
func TestPathsOfKindsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	const text = `pipeline: p
input: {topic: t, key: k, fields: {k: string}}
steps:
  - lookup: {name: user, http: {url: 'https://users/{key}', token_file: secrets/users}, key: k, fields: {level: int}}
  - emit: {topic: o}
sinks:
  - {from: o, name: a, http: {url: 'https://cards', token_file: secrets/cards}}
  - {from: o, name: b, kafka: {topic: o, cluster: {url: 'kafka+tls://b:1', ca: tls/ca.pem, cert: /tls/cert.pem, key: tls/key.pem}}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, joined := range []bool{true, false} {
		file, err := Parse(path, []byte(text), builtin.Kinds())
		folder := ""
		if joined {
			file, err = Load(path, builtin.Kinds())
			folder = dir
		}
		if err != nil {
			t.Fatal(err)
		}
		p := file.Pipelines[0]
		cluster := p.Sinks[1].Config.(*kafka.Config).Cluster
		for want, got := range map[string]string{
			filepath.Join(folder, "secrets/users"): p.Steps[0].(*steps.Lookup).Config.(*lookuphttp.Config).TokenFile, filepath.Join(folder, "secrets/cards"): p.Sinks[0].Config.(*http.Config).TokenFile,
			filepath.Join(folder, "tls/ca.pem"): cluster.CA, "/tls/cert.pem": cluster.Cert, filepath.Join(folder, "tls/key.pem"): cluster.Key,
		} {
			if got != want {
				t.Errorf("a path is %s, want %s", got, want)
			}
		}
	}
}

// TestASinkHasOneKind sees what is said of a sink with no kind and with two.
func TestASinkHasOneKind(t *testing.T) {
	for sinks, want := range map[string]string{
		"{from: o}": "f.yaml:4:9: sinks[0]: a sink has exactly one of http, postgres, redis, files and kafka, its destination: write a sink for each, with a `name`",
		"{from: o, http: {url: 'http://a'}, redis: {url: 'redis://a', key: k}}": "f.yaml:4:9: sinks[0]: a sink has exactly one of http, postgres, redis, files and kafka",
		"{from: o, http: {url: 'http://a'}}":                                    "",
	} {
		_, err := Parse("f.yaml", []byte("pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [emit: {topic: o}]\nsinks: ["+sinks+"]\n"), builtin.Kinds())
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", sinks, err, want)
		}
	}
}

// TestRowsOfALookupAreInOnePlace sees what is said of a lookup with no place and with two.
func TestRowsOfALookupAreInOnePlace(t *testing.T) {
	for place, want := range map[string]string{
		"":                            "f.yaml:3:9: steps[0].lookup: a lookup has exactly one of table, redis, postgres and http: name a topic as `table`, or another source of rows",
		", table: t, redis: {url: r}": "f.yaml:3:9: steps[0].lookup: a lookup has exactly one of",
		", http: {url: 'http://a/{key}'}, redis: {url: 'redis://a'}": "f.yaml:3:9: steps[0].lookup: a lookup has exactly one of",
		", redis: {url: 'redis://a'}":                                "",
	} {
		_, err := Parse("f.yaml", []byte("pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [lookup: {name: row, key: k, fields: {a: int}"+place+"}]\n"), builtin.Kinds())
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", place, err, want)
		}
	}
}

// shelf is a config of lookups by the tags of its fields.
type shelf struct {
	URL   string `field:"url" affects:"nothing" required:"true" help:"where it is" example:"shelf://host"`
	Board string `field:"board" affects:"outputs" default:"top" help:"which of its boards" example:"low"`
}

func (*shelf) Check(lookup.Step) []error                                { return nil }
func (*shelf) Open(context.Context, lookup.Step) (lookup.Source, error) { return nil, nil }
func (*shelf) Describe() string                                         { return "" }

// TestTextOfALookupHasWhatItsKindSays prints a lookup of a kind that a program brings, in
// a case of a route: what affects nothing and a default that is written out are not there.
func TestTextOfALookupHasWhatItsKindSays(t *testing.T) {
	kinds, err := builtin.Kinds().With(lang.Code{Lookups: []lookup.Kind{{
		Name: "shelf", Help: "a shelf", Example: "{url: x}", New: func() lookup.Config { return &shelf{} },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	const line = "steps[0].route[0].a.steps[0].lookup.shelf.board=low\n"
	for fields, want := range map[string]bool{"url: x": false, "url: x, board: top": false, "url: y, board: low": true} {
		file, err := Parse("f.yaml", []byte("pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps:\n  - route: {a: {when: k == \"a\", steps: [lookup: {name: row, key: k, fields: {a: int}, shelf: {"+fields+"}}]}, default: dlq}\n  - emit: {topic: o, value: [k]}\n"), kinds)
		if err != nil {
			t.Fatal(err)
		}
		text := file.Pipelines[0].Canonical()
		if strings.Contains(text, line) != want || strings.Contains(text, "url") || strings.Contains(text, "top\n") || !strings.Contains(text, "steps[0].route[0].a.steps[0].lookup.shelf") {
			t.Errorf("{%s}: the text is\n%s", fields, text)
		}
	}
}
