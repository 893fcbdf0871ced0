package builtin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// plain is a log that says what is wrong without naming a field.
type plain struct {
	URL string `field:"url" required:"true" help:"where it is" example:"plain:a"`
}

func (p *plain) Check() []error {
	if p.URL == "plain:a" {
		return nil
	}
	return []error{&stream.Mistake{Field: "url", Err: errors.New("first"), Hint: "write plain:a"}, errors.New("second")}
}

func (p *plain) Open(context.Context, stream.Process) (stream.Engine, error) {
	return nil, errors.New("it is down")
}

func (p *plain) Describe() string { return p.URL }

var plainKind = stream.Kind{Name: "plain", Help: "a log", URLs: []string{"plain:NAME"}, Example: "plain:a", New: func() stream.Config { return &plain{} }}

// TestURLsChooseTheKindOfALog reads URLs as a file has them and as they are typed.
func TestURLsChooseTheKindOfALog(t *testing.T) {
	kinds, err := builtin.Kinds().With(lang.Code{Logs: []stream.Kind{plainKind}})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string][2]string{ // the kind and what it says, and what is wrong
		"plain:a":                {"plain plain:a", ""},
		"plain:b":                {"plain plain:b", "engine.url: first (write plain:a); engine: second"},
		"embedded":               {"embedded data directory", ""},
		"embedded:x":             {"embedded data directory", `engine.url: "embedded:x" is not an engine`},
		"kafka://a:1,b:2":        {"kafka kafka://a:1,b:2", ""},
		"kafka+tls://a:1":        {"kafka kafka+tls://a:1", ""},
		"kafka://a":              {"kafka kafka://a", `engine.url: broker "a" is not HOST:PORT`},
		"memory:":                {" no log", `engine.url: "memory" is not an engine (use kafka://HOST:PORT, kafka+tls://HOST:PORT, embedded or plain:NAME)`},
		"http://me:secret@a/b?c": {" no log", `engine.url: "http" is not an engine`},
	} {
		file, err := lang.Parse("f.yaml", []byte("pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [emit: {topic: o}]\nengine: '"+url+"'\n"), kinds)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		written := file.Pipelines[0].Engine
		typed, found := kinds.Engine(url)
		for _, e := range []lang.Engine{written, typed} {
			if got := e.Kind + " " + e.Config.Describe(); got != want[0] || e.URL != url {
				if e.URL+"?c" != url { // settings are no part of it
					t.Errorf("%s: %s at %s, want %s", url, got, e.URL, want[0])
				}
			}
			said := ""
			if found := e.Check(); len(found) > 0 {
				said = found.Error()
			}
			said = strings.ReplaceAll(said, "\n", "; ")
			if !strings.HasPrefix(said, want[1]) || want[1] == "" && said != "" || strings.Contains(said, "secret") {
				t.Errorf("%s: %q, want %q", url, said, want[1])
			}
		}
		if (len(found) > 0) != (want[1] != "") {
			t.Errorf("%s: %v where it is typed", url, found)
		}
	}
	demanding := lang.Kinds{Logs: []stream.Kind{{Name: "plain", Help: "a log", URLs: []string{"plain:NAME"}, Example: "{url: plain:a, user: me}", New: func() stream.Config {
		return &struct {
			plain `field:"-"`
			URL   string `field:"url" required:"true" help:"where it is" example:"plain:a"`
			User  string `field:"user" required:"true" help:"who asks" example:"me"`
		}{}
	}}}}
	if _, found := demanding.Engine("plain:a"); len(found) != 1 || !strings.HasPrefix(found[0].Error(), "engine: `user` is missing") {
		t.Errorf("a URL is not enough: %v", found)
	}
	none := lang.Engine{}
	if found := none.Check(); found != nil {
		t.Errorf("no log: %v", found)
	}
}

// TestErrorsOfALogAreOfItsFieldsOrNot tells mistakes of a file from what happens outside.
func TestErrorsOfALogAreOfItsFieldsOrNot(t *testing.T) {
	mistake := &stream.Mistake{Field: "ca", Err: errors.New("no file")}
	down := errors.New("down")
	for _, c := range []struct {
		err  error
		want int
	}{{nil, 0}, {mistake, 1}, {errors.Join(mistake, mistake), 2}, {down, 0}, {errors.Join(mistake, down), 0}} {
		if found := lang.EngineProblems(c.err); len(found) != c.want {
			t.Errorf("%v: %v, want %d", c.err, found, c.want)
		}
	}
}
