package lint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/sink"
)

const connectMax = 30 * time.Second // time limit for one sink

// askLookups asks the sources of lookups outside the log whether they can find rows and documents
// as the lookups say. It changes nothing there.
func askLookups(ctx context.Context, finders []lang.Finder) (found spec.Problems) {
	for _, f := range finders {
		if err := f.Check(ctx); err != nil {
			found = append(found, err)
		}
	}
	return found
}

// askSinks asks the service of each sink whether it has everything that the sink needs. It changes
// nothing there.
func askSinks(ctx context.Context, r *pipeline.Runner) (found spec.Problems) {
	for i := range r.Sinks {
		for _, err := range r.Sinks[i].Ask(ctx, connectMax) {
			e := &spec.Problem{Path: fmt.Sprintf("sinks[%d]", i), Message: err.Error(), Err: err}
			if mistake, ok := errors.AsType[*sink.Mistake](err); ok {
				e.Hint = mistake.Hint
			}
			found = append(found, e)
		}
	}
	return found
}
