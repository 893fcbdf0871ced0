package lint

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/spec"
)

type lintedGateway struct {
	file     *config.Gateway
	in       *lintedFile
	of       string // text about keys and pipelines, for the line that reports the gateway as valid
	warnings []string
}

// checkGateway finds the errors in a gateway file, and in the files that it names.
func (l *linter) checkGateway(path string) {
	f := l.begin(path)
	g, err := config.LoadGatewayPartly(path, l.loader.Kinds)
	f.add(err)
	if g == nil {
		return
	}
	if g.CursorKey != "" || g.CursorKeyFile != "" {
		_, err := g.Secret()
		f.add(err)
	}
	if err == nil {
		f.add(g.Explain(g.Engine.Check()))
	}
	if err == nil && g.Cert != "" {
		if _, err := tls.LoadX509KeyPair(g.Cert, g.Key); err != nil {
			f.add(g.Explain(&spec.Problem{Path: "cert", Message: err.Error(), Hint: "name the files of a certificate and of its key, PEM"}))
		}
	}
	if g.Keys != "" {
		_, err := process.KeysOf(g)
		var found config.Errors
		if errors.As(err, &found) && found[0].File == path {
			f.add(err)
		} else if err != nil {
			keys := &lintedFile{path: g.Keys}
			keys.add(err)
			l.files = append(l.files, keys)
		}
	}
	l.gateways = append(l.gateways, lintedGateway{file: g, in: f})
}

// answered finds mismatches between gateways and pipelines. It needs both.
func (l *linter) answered() {
	if len(l.right) == 0 || slices.ContainsFunc(l.files, func(f *lintedFile) bool { return f.pipelines && len(f.found) > 0 }) {
		return // an invalid file may contain the missing topic
	}
	runners := make([]*pipeline.Runner, len(l.right))
	for i, p := range l.right {
		runners[i] = p.Runner
	}
	for i := range l.gateways {
		g := &l.gateways[i]
		if slices.ContainsFunc(g.in.found, func(e *config.Error) bool { return e.Field == "" || strings.HasPrefix(e.Field, "pipeline") }) {
			continue // its topics are unknown
		}
		u := process.CompareGateway(g.file, runners)
		if g.warnings = u.Warnings; len(u.Gateway) > 0 {
			g.in.add(g.file.Explain(u.Gateway))
		}
		for i, errs := range u.Pipelines {
			p := l.right[i]
			p.in.add(p.in.file.Explain(p.index, errs))
		}
		if u.Key != "" {
			g.of = ", keyed by " + u.Key + ","
		}
		var names []string
		for _, i := range u.Behind {
			names = append(names, runners[i].Name())
		}
		if g.of += " of pipeline " + strings.Join(names, ", "); len(u.Pipelines) == 0 && g.file.Pipeline.Unreplied == "" {
			g.of += ", and each of them ends in a result"
		}
	}
}
