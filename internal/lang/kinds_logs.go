package lang

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// Engine is the log that a file names. The zero value names no log.
type Engine struct {
	URL    string        // as written in the file
	Kind   string        // name of the kind of log, chosen by the scheme of the URL
	Config stream.Config // the settings of the log
}

// Same reports whether e and o have the same settings.
func (e Engine) Same(o Engine) bool { return reflect.DeepEqual(e, o) }

// Check returns the errors in the settings of a log. It contacts no other process.
func (e Engine) Check() spec.Problems {
	if e.Config == nil {
		return nil
	}
	return engineProblems(e.Config.Check())
}

// engineProblems adds to errors of a log the paths of the faulty fields.
func engineProblems(errs []error) (found spec.Problems) {
	for _, err := range errs {
		if err == nil {
			continue
		}
		p := &spec.Problem{Path: "engine", Message: err.Error(), Err: err}
		if mistake, ok := errors.AsType[*stream.Mistake](err); ok {
			p.Path, p.Hint = strings.TrimSuffix("engine."+mistake.Field, "."), mistake.Hint
		}
		found = append(found, p)
	}
	return found
}

// EngineProblems returns the stream.Mistakes that an error of Open consists of. It returns nil if
// the error contains any other error.
func EngineProblems(err error) spec.Problems {
	all := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		all = several.Unwrap()
	}
	for _, one := range all {
		if _, ok := errors.AsType[*stream.Mistake](one); !ok {
			return nil
		}
	}
	return engineProblems(all)
}

// scheme returns the scheme of a URL, which chooses a kind of log.
func scheme(url string) string {
	before, _, _ := strings.Cut(url, ":")
	return before
}

// names reports whether a URL has a scheme of the kind.
func names(kind stream.Kind, url string) bool {
	return slices.ContainsFunc(kind.URLs, func(form string) bool { return scheme(form) == scheme(url) })
}

// Log returns the kind of log that the scheme of a URL chooses.
func (k Kinds) Log(url string) (kind stream.Kind, found bool) {
	for _, kind := range k.Logs {
		if names(kind, url) {
			return kind, true
		}
	}
	return kind, false
}

// engineURLs lists the forms of log URLs for a message.
func (k Kinds) engineURLs() string {
	var forms []string
	for _, kind := range k.Logs {
		forms = append(forms, kind.URLs...)
	}
	return spec.Listed(forms, "or")
}

// Engine returns the log for a URL from a command line, and the errors in it.
func (k Kinds) Engine(url string) (Engine, spec.Problems) {
	kind, ok := k.Log(url)
	if !ok {
		e := k.noEngine(url)
		return e, e.Check()
	}
	address, _, _ := strings.Cut(url, "?")
	e := Engine{URL: address, Kind: kind.Name, Config: kind.New()}
	if parser, ok := e.Config.(stream.Parser); ok {
		spec.SetDefaults(e.Config, "")
		found := engineProblems(parser.Parse(url))
		return e, append(found, e.Check()...)
	}
	e.URL = url
	table, err := spec.TableOf(e.Config, spec.Nothing)
	if err != nil {
		return e, spec.Problems{{Path: "engine", Message: err.Error()}}
	}
	var found spec.Problems
	for _, f := range spec.ReadText(table, "url", url, e.Config) {
		found = append(found, &spec.Problem{Path: strings.TrimSuffix("engine."+f.Field, "."), Message: f.Message, Hint: f.Hint})
	}
	if found != nil {
		return e, found
	}
	return e, e.Check()
}

// noLog is the config of a log with an unknown scheme. It returns the error.
type noLog struct{ wrong *stream.Mistake }

func (k Kinds) noEngine(url string) Engine {
	return Engine{URL: url, Config: noLog{&stream.Mistake{Field: "url", Err: fmt.Errorf("%q is not an engine", scheme(url)), Hint: "use " + k.engineURLs()}}}
}

func (n noLog) Check() []error { return []error{n.wrong} }

func (n noLog) Open(context.Context, stream.Process) (stream.Engine, error) { return nil, n.wrong }

func (n noLog) Describe() string { return "no log" }

// logKind is a kind of log with its table of fields.
type logKind struct {
	stream.Kind
	table  spec.Table
	fields int
}

// logKinds returns the kinds of logs. The error lists the invalid ones.
func (k Kinds) logKinds() (all []logKind, err error) {
	var errs []error
	for i, kind := range k.Logs {
		made, err := newLogKind(kind)
		if err == nil {
			before := Kinds{Logs: k.Logs[:i]}
			for _, form := range kind.URLs {
				if other, ok := before.Log(form); ok {
					err = fmt.Errorf("the scheme %s is that of %q", scheme(form), other.Name)
				}
			}
			if slices.ContainsFunc(before.Logs, func(o stream.Kind) bool { return o.Name == kind.Name }) {
				err = errors.New("a kind with that name exists")
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("log kind %q: %w", kind.Name, err))
			continue
		}
		all = append(all, made)
	}
	return all, errors.Join(errs...)
}

func newLogKind(k stream.Kind) (made logKind, err error) {
	if err := (KindIn[stream.Config]{k.Name, k.Help, k.Example, k.New}).check(); err != nil {
		return made, err
	}
	if len(k.URLs) == 0 || slices.ContainsFunc(k.URLs, func(form string) bool { return scheme(form) == "" }) {
		return made, errors.New("its URLs are needed, each with a scheme")
	}
	table, err := spec.TableOf(k.New(), spec.Nothing)
	if err != nil {
		return made, err
	}
	words := table.Shape.Words()
	if !slices.ContainsFunc(words, func(w spec.About) bool { return w.Name == "url" }) {
		return made, errors.New("a field `url` is needed, which holds what the file has")
	}
	return logKind{k, table, len(words)}, nil
}

// LogFields holds the fields that a file may set for a kind of log.
type LogFields struct {
	stream.Kind
	Shape spec.Shape // shape of the mapping
}

// LogFields returns the fields of the kinds that have settings.
func (k Kinds) LogFields() (list []LogFields, err error) {
	all, err := k.logKinds()
	return settled(all), err
}

// settled returns the fields of the kinds that have settings.
func settled(all []logKind) (list []LogFields) {
	for _, kind := range all {
		if kind.fields > 1 {
			kind.table.Shape.Get = nil // the reference page shows no comments of this struct
			list = append(list, LogFields{kind.Kind, kind.table.Shape})
		}
	}
	return list
}

// EngineForm returns the form that reads the log of a process. It panics if Check fails.
func (k Kinds) EngineForm() spec.Form[Engine] {
	all, err := k.logKinds()
	if err != nil {
		panic(err)
	}
	return k.engineForm(all)
}

func (k Kinds) engineForm(all []logKind) spec.Form[Engine] {
	shapes := []spec.Shape{spec.ReadURL.Shape}
	for _, kind := range settled(all) {
		shapes = append(shapes, kind.Shape)
	}
	hint := "write a URL"
	if len(all) > 0 {
		hint = "write " + all[0].URLs[0] + ", or `{url: ...}`"
	}
	form := spec.Brief(hint, "url", spec.ReadURL.Shape, spec.Form[Engine]{
		Read:  func(r *spec.Reader, n *spec.Node, path string, into *Engine) { k.readEngine(r, n, path, into, all) },
		Print: func(*spec.Printer, string, *Engine) {}, // the log is in no fingerprint
	})
	form.Shape.Of = shapes
	return form
}

// readEngine reads a mapping with the table of the kind that its URL chooses. If the URL chooses
// none, it uses the table of the first kind with settings.
func (k Kinds) readEngine(r *spec.Reader, n *spec.Node, path string, into *Engine, all []logKind) {
	url := urlOf(r, n, path)
	chosen := slices.IndexFunc(all, func(l logKind) bool {
		return url != nil && names(l.Kind, url.Text)
	})
	read := chosen
	switch {
	case chosen < 0:
		read = slices.IndexFunc(all, func(l logKind) bool { return l.fields > 1 })
	case all[chosen].fields == 1 && len(n.Entries) > 1:
		r.Fail(url.Offset, path+".url", url.Text+" has no settings", "write `engine: "+url.Text+"`")
		return
	}
	if read < 0 {
		r.Fail(n.Offset, path, "there are no kinds of logs", "")
		return
	}
	config := all[read].New()
	of := any(config)
	all[read].table.Read(r, n, path, &of)
	switch {
	case url == nil: // the table reported it
	case chosen < 0:
		*into = k.noEngine(url.Text)
	default:
		*into = Engine{url.Text, all[chosen].Name, config}
	}
}

// urlOf returns the URL of a mapping, or nil if the mapping has none.
func urlOf(r *spec.Reader, n *spec.Node, path string) *spec.Node {
	for _, e := range n.Entries {
		if e.Key != "url" || e.Value.Kind != spec.Scalar {
			continue
		}
		peek, value := *r, *e.Value
		peek.Errors, peek.Places = nil, map[string]spec.Place{}
		var url string
		if spec.ReadURL.Read(&peek, &value, path+".url", &url); url != "" {
			value.Text = url
			return &value
		}
	}
	return nil
}
