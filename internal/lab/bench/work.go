package bench

import (
	"bytes"
	"cmp"
	"iter"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/lab/demo"
	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/lab/demo/moderation"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
)

// work is a workload to measure.
type work struct {
	files  demo.Files
	number []byte // text in an output before the number of its event
	source func() *source
}

// source generates the events of a workload.
type source struct {
	next func(dst []byte) (line, key []byte) // appends an event to dst; key is a part of dst, or nil if the event has none
	stop func()
}

func (c *Options) work() work {
	switch c.Work {
	case "fraud":
		return work{files: demo.FraudFiles(), number: []byte(`"tx":"t`), source: func() *source { return fraudSource(c.Seed) }}
	case "moderation":
		files := demo.Files{FS: moderation.Files, Model: []string{"profanity.yaml", "profanity.json", "golden.csv"}}
		return work{files: files, number: []byte(`"post":"p`), source: func() *source {
			return &source{next: moderation.NewGenerator(moderation.Options{Seed: c.Seed, Users: 1_000_000, Rate: cmp.Or(c.Rate, 50_000)}).Append, stop: func() {}}
		}}
	}
	options := baseline.Options{Seed: c.Seed, Users: c.Users, Zipf: c.Zipf}
	return work{files: demo.Files{FS: baseline.Files, Model: []string{"model.ubj"}}, number: []byte(`"event_id":"e`), source: func() *source {
		return &source{next: baseline.NewGenerator(options).Append, stop: func() {}}
	}}
}

// fraudSource generates payments without end.
func fraudSource(seed uint64) *source {
	const endless = 1 << 40
	next, stop := iter.Pull(fraud.Events(fraud.Options{Seed: seed, Events: endless}))
	return &source{stop: stop, next: func(dst []byte) ([]byte, []byte) {
		line, _ := next()
		from := len(dst)
		dst = append(dst, line...)
		key, _ := decode.Key(dst[from:], "customer")
		return dst, key
	}}
}

// baselineTime is the text before the time of a baseline event, in milliseconds since 1970.
var baselineTime = []byte(`"ts": `)

// exactWindows makes the windows of a pipeline exact.
func exactWindows(p lang.Pipeline) {
	for _, step := range p.Steps {
		features, ok := step.(*steps.Features)
		if !ok {
			continue
		}
		for _, f := range features.List {
			for i, window := range f.Windows {
				f.Windows[i], _, _ = strings.Cut(window, "/")
			}
		}
	}
}

// eventNumber returns the number of the event that an output was made from.
func (w *work) eventNumber(output []byte) (n int64, ok bool) {
	_, digits, _ := bytes.Cut(output, w.number)
	for i, digit := range digits {
		if digit < '0' || digit > '9' {
			return n, i > 0
		}
		n = n*10 + int64(digit-'0')
	}
	return n, len(digits) > 0
}
