package compile

import (
	"iter"
	"time"
)

// Pass is a part of the compiler: a function of the values of earlier passes.
type Pass uint8

// The passes, in their order.
const (
	PassBind         Pass = iota // names, types and expressions
	PassOpen                     // models, rows and content outside the file
	PassCheck                    // checks that need the whole pipeline
	PassSchedule                 // the order of the stages
	PassLower                    // operators and the plan
	PassFingerprints             // the fingerprints of outputs and state
	passes
)

// String returns the pass's name.
func (p Pass) String() string {
	return [passes]string{"bind", "open", "check", "schedule", "lower", "fingerprints"}[p]
}

// Took holds the duration of each pass.
type Took [passes]time.Duration

// All yields the durations with the names of the passes, in their order.
func (t *Took) All() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		for pass, took := range t {
			if !yield(Pass(pass).String(), took) {
				return
			}
		}
	}
}

// timed runs passes and measures them.
type timed struct {
	took  Took
	watch func(pass Pass, reads []any, run func())
}

func newPasses(watch func(pass Pass, reads []any, run func())) *timed {
	if watch == nil {
		watch = func(_ Pass, _ []any, run func()) { run() }
	}
	return &timed{watch: watch}
}

// run runs a pass, or a part of one, and adds its duration. reads are the values that it reads.
func (t *timed) run(pass Pass, run func(), reads ...any) {
	begun := time.Now()
	t.watch(pass, reads, run)
	t.took[pass] += time.Since(begun)
}
