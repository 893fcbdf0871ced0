package compile_test

import (
	"reflect"
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
