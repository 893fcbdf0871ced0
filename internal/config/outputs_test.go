package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// decisive has values that decide outputs, and others.
const decisive = `
pipeline: p
input: {topic: in, key: k, fields: {k: string, v: string, n: int}}
replies: [out, late]
models:
  bert: {url: 'grpc://${HOST}:8001/bert', version: 1, outputs: {s: number}}
  asr: {process: [/usr/bin/python3, worker.py, a.py], version: 1, outputs: {s: number}}
steps:
- lookup: {name: rest, http: {url: 'https://${USER}:${PASSWORD}@users/v1/{key}?team=risk&token=${TOKEN}', headers: {X-Tenant: acme, X-Key: 'key ${TOKEN}'}}, key: k, fields: {a: string}}
- lookup: {name: moved, http: {url: '${ROWS}'}, key: k, fields: {a: string}}
- lookup: {name: cache, redis: {url: 'redis://cache:6379/0'}, key: k, fields: {a: string}}
- lookup: {name: base, postgres: {url: 'postgres://ann@base/users', query: q}, key: k, fields: {a: string}}
- score: {model: bert, inputs: [v], async: true, partial: {topic: drafts, interval: 100ms}}
- group: {name: g, by: k, idle: 1m, order: n}
- emit: {topic: out, value: [k]}
content: {root: /data, hosts: [a.com, b.com], buckets: [x, y], private: [10.0.0.0/8], s3: {endpoint: 'https://s3', region: r}, cache: {max: 1GiB}}
`

var decisiveChanges = []struct {
	was, is string
	changes bool
}{
	{"8001/bert", "8001/roberta", true},
	{"8001/bert", "9001/bert", false},
	{"grpc:", "grpcs:", false},
	{"a.py", "b.py", true},
	{"worker.py", "other.py", true},
	{"/usr/bin/python3", "python3", false},
	{"/usr/bin/python3", "/usr/bin/python4", true},
	{"@users/v1", "@users/v2", true},
	{"@users/v1", "@people:8080/v1", false},
	{"team=risk", "team=fraud", true},
	{"${TOKEN}'}}, key", "${USER}'}}, key", true},
	{"X-Tenant: acme", "X-Tenant: other", true},
	{"X-Tenant: acme, X-Key: 'key ${TOKEN}'", "X-Key: 'key ${TOKEN}', X-Tenant: acme", false},
	{"cache:6379/0", "cache:6379/1", true},
	{"cache:6379/0", "other:6379/0", false},
	{"ann@base/users", "bob@base/users", false},
	{"@base/users", "@base/people", true},
	{"interval: 100ms", "interval: 200ms", false},
	{"replies: [out, late]", "replies: [late, out]", false},
	{"replies: [out, late]", "replies: [out]", true},
	{"root: /data", "root: /mnt/data", false},
	{"root: /data, ", "", true},
	{"hosts: [a.com, b.com]", "hosts: [b.com, a.com]", false},
	{"hosts: [a.com, b.com]", "hosts: [a.com]", true},
	{"buckets: [x, y]", "buckets: [y, x]", false},
	{"buckets: [x, y]", "buckets: [x]", true},
	{"private: [10.0.0.0/8]", "private: [10.1.0.0/16]", true},
	{"'https://s3', region: r", "'https://other', region: s", false},
	{"{model: bert, inputs", "{model: bert, as: bert, inputs", false},
	{"{model: bert, inputs", "{model: bert, as: other, inputs", true},
	{"order: n}", "order: n, id: n}", false},
	{"order: n}", "order: n, id: v}", true},
}

// TestOutputsHaveWhatDecidesThemAlone changes values of a file, and variables that it
// names: the text that decides outputs has the bytes that decide one, and no address or
// key.
func TestOutputsHaveWhatDecidesThemAlone(t *testing.T) {
	variables := map[string]string{"HOST": "models", "USER": "ann", "PASSWORD": "secret", "TOKEN": "t1", "ROWS": "https://rows/v1/{key}"}
	of := func(text string, with ...string) string {
		all := map[string]string{}
		for name, value := range variables {
			all[name] = value
		}
		for i := 0; i < len(with); i += 2 {
			all[with[i]] = with[i+1]
		}
		file, err := ParseWith("p.yaml", []byte(text), func(name string) (string, bool) { value, ok := all[name]; return value, ok }, builtin.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		return file.Pipelines[0].Canonical()
	}
	same := of(decisive)
	for _, c := range decisiveChanges {
		changed := strings.Replace(decisive, c.was, c.is, 1)
		if changed == decisive {
			t.Fatalf("%s is not there", c.was)
		}
		if got := of(changed); (got != same) != c.changes {
			t.Errorf("%s in place of %s: the text changes: %v\n%s", c.is, c.was, got != same, got)
		}
	}
	for _, with := range [][]string{{"HOST", "moved"}, {"USER", "bob"}, {"PASSWORD", "other"}, {"TOKEN", "t2"}, {"ROWS", "https://moved:1/v1/{key}"}} {
		if got := of(decisive, with...); got != same {
			t.Errorf("%v changes the text:\n%s", with, got)
		}
	}
	if got := of(decisive, "ROWS", "https://rows/v2/{key}"); got == same {
		t.Error("another path, in a variable of the whole URL, changes nothing")
	}
	for _, secret := range []string{"secret", "t1", "ann"} {
		if strings.Contains(same, secret) {
			t.Errorf("the text has %q:\n%s", secret, same)
		}
	}
}

// TestManifestsOfProgramsAndServersDecideOutputs is the same of manifests.
func TestManifestsOfProgramsAndServersDecideOutputs(t *testing.T) {
	const head = "model: m\nversion: 1\ninputs: {a: number}\noutputs: [s]\n"
	of := func(text string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{"m.yaml": head + text, "p.yaml": "pipeline: p\ninput: {topic: in, key: k, fields: {k: string, a: number}}\nmodels: {m: {file: m.yaml, version: 1, outputs: {s: number}}}\nsteps: [score: {model: m, inputs: [a]}, emit: {topic: out, value: [k]}]\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := lang.Load(filepath.Join(dir, "p.yaml"), builtin.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		p := &file.Pipelines[0]
		p.Models[0].File = "" // the compiler writes the digest there
		return p.Canonical()
	}
	t.Setenv("MODELS", "https://models/v1")
	for _, c := range []struct {
		was, is string
		changes bool
	}{
		{"process: {command: [/bin/python3, w.py, a.py]}", "process: {command: [python3, w.py, b.py]}", true},
		{"process: {command: [/bin/python3, w.py, a.py]}", "process: {command: [python3, w.py, a.py], workers: 3}", false},
		{"remote: {api: http, endpoint: 'https://host/a'}", "remote: {api: http, endpoint: 'http://other:1/a', token: KEY}", false},
		{"remote: {api: http, endpoint: 'https://host/a'}", "remote: {api: http, endpoint: 'https://host/b'}", true},
		{"remote: {endpoint: 'https://models/v1'}", "remote: {endpoint: '${MODELS}'}", false},
		{"remote: {endpoint: 'https://models/v1'}", "remote: {endpoint: 'https://models/v1', json: true}", true},
	} {
		if was, is := of("kind: "+c.was[:strings.Index(c.was, ":")]+"\n"+c.was), of("kind: "+c.is[:strings.Index(c.is, ":")]+"\n"+c.is); (was != is) != c.changes {
			t.Errorf("%s in place of %s: the text changes: %v\n%s", c.is, c.was, was != is, is)
		}
	}
}

// changedNode returns the node of an example with another value; nil where a shape has no
// scalar.
func changedNode(s spec.Shape, n *spec.Node) *spec.Node {
	c := *n
	switch s.Kind {
	case spec.ATrue, spec.ASwitch, spec.AMapping, spec.AStep, spec.TheSteps, spec.ASecret:
		return nil
	case spec.AChoice:
		for _, word := range s.Allowed {
			if word != n.Text {
				c.Text = word
				return &c
			}
		}
		return nil
	case spec.AWhole, spec.ANumber:
		c.Text = "1"
		if n.Text == c.Text {
			c.Text = "2"
		}
	case spec.ADuration:
		c.Text = s.High
	case spec.ASize:
		c.Text = s.High
	case spec.AWindow:
		c.Text = "7h"
	case spec.AList:
		if n.Kind != spec.List || len(n.Items) == 0 {
			return nil
		}
		first := changedNode(s.Of[0], n.Items[0])
		if first == nil {
			return nil
		}
		c.Items = append([]*spec.Node{first}, n.Items[1:]...)
	case spec.Either:
		for _, of := range s.Of {
			if scalar := of.Kind != spec.AList && of.Kind != spec.ANames && of.Kind != spec.AMapping; scalar != (n.Kind == spec.Scalar) || of.Kind == spec.AList && n.Kind != spec.List {
				continue
			}
			if changed := changedNode(of, n); changed != nil {
				return changed
			}
		}
		return nil
	case spec.AnyText:
		if c.Text += "x"; strings.Contains(c.Text, "://") {
			c.Text = n.Text + "/x" // what follows the host is what is asked for
		}
	default:
		return nil
	}
	return &c
}

// TestAnotherValueChangesWhatItsFieldAffects gives each field the value of its example,
// and then another one.
func TestAnotherValueChangesWhatItsFieldAffects(t *testing.T) {
	changed := 0
	eachFingerprinted(t, func(path string, w spec.About) {
		example, r := exampleNode(t, w)
		other := changedNode(w.Shape, example)
		if path == "content.root" || other == nil { // that there is a folder decides, not which
			return
		}
		changed++
		for _, least := range []spec.Affects{spec.Outputs, spec.State} {
			was, is := printed(r, example, w, least), printed(r, other, w, least)
			if (was != is) != (w.Affects >= least) {
				t.Errorf("%s affects %v, and another value changes what affects %v: %q, %q", path, w.Affects, least, was, is)
			}
		}
	})
	if changed < 180 {
		t.Errorf("only %d fields have another value", changed)
	}
}
