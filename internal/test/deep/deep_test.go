package deep_test

import (
	"reflect"
	"testing"

	"github.com/afterbay/afterbay/internal/test/deep"
)

type inner struct {
	names map[string][]int
	back  *outer
	any   any
}

type outer struct {
	inner *inner
	list  [2]float64
	ask   func()
}

func TestSumIsAnotherOneIfAnythingChanges(t *testing.T) {
	v := &outer{inner: &inner{names: map[string][]int{"a": {1}, "b": {2, 3}}, any: "text"}}
	v.inner.back = v
	sum := func() uint64 { return deep.Sum(v, nil) }
	before := sum()
	for range 20 { // of whatever order of the keys
		if sum() != before {
			t.Fatal("the sum of one value changes")
		}
	}
	for what, change := range map[string]func(){
		"an item of a map":    func() { v.inner.names["b"][1]++ },
		"a key":               func() { v.inner.names["c"] = nil },
		"a field":             func() { v.list[1] = 0.5 },
		"an interface":        func() { v.inner.any = 7 },
		"a pointer that ends": func() { v.inner.back = nil },
		"a function":          func() { v.ask = func() {} },
	} {
		was := sum()
		if change(); sum() == was {
			t.Errorf("%s changed, and the sum did not", what)
		}
	}
	whole := func(of reflect.Type) bool { return of == reflect.TypeFor[*inner]() }
	was := deep.Sum(v, whole)
	v.inner.any = 8
	if deep.Sum(v, whole) != was {
		t.Error("what counts by its address counts by its fields")
	}
}
