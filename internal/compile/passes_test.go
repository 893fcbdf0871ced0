package compile_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/deep"
	"github.com/afterbay/afterbay/model"
)

// TestNoPassChangesWhatItReads compares what each pass reads before and after it, with all
// that it points to, for every pipeline of the repository.
func TestNoPassChangesWhatItReads(t *testing.T) {
	models := reflect.TypeFor[model.Model]()
	alive := []reflect.Type{reflect.TypeFor[*control.Endpoint](), reflect.TypeFor[*control.Endpoints](), reflect.TypeFor[*fetch.Fetcher](), reflect.TypeFor[*lookups.Finder]()}
	whole := func(of reflect.Type) bool {
		for _, a := range alive {
			if of == a {
				return true
			}
		}
		return of.Implements(models)
	}
	ran := map[compile.Pass]int{}
	eachPipeline(t, func(name string, p lang.Pipeline) {
		withFunctions(&p)
		_ = compile.Watch(p, builtin.Kinds().Models, func(pass compile.Pass, reads []any, run func()) {
			ran[pass]++
			var before []uint64
			for _, of := range reads {
				before = append(before, deep.Sum(of, whole))
			}
			run()
			for i, of := range reads {
				if deep.Sum(of, whole) != before[i] {
					t.Errorf("%s %s: the pass %v changed %T", name, p.Name, pass, of)
				}
			}
		})
	})
	for pass := compile.PassBind; pass <= compile.PassFingerprints; pass++ {
		if ran[pass] < 100 {
			t.Errorf("%v ran for %d pipelines, of more than 100", pass, ran[pass])
		}
	}
}

// TestOnlyOpenReachesOutside sees that no other pass imports what reads, calls or waits.
// sunk.go and registry.go are for pipelines that are compiled.
func TestOnlyOpenReachesOutside(t *testing.T) {
	outside := []string{"context", "io", "io/fs", "net", "net/http", "os", "os/exec", "github.com/afterbay/afterbay/internal/models"}
	files, err := filepath.Glob("internal/compile/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if name := filepath.Base(path); strings.HasSuffix(name, "_test.go") || slices.Contains([]string{"open.go", "open_formats.go", "open_profile.go", "inline.go", "registry.go", "sunk.go"}, name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if of, err := strconv.Unquote(i.Path.Value); err != nil || slices.Contains(outside, of) {
				t.Errorf("%s imports %s: only the pass open reaches outside", path, of)
			}
		}
	}
}
