package lang

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/profile"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Opener is a Bound that needs files, models or services outside the pipeline file.
type Opener interface {
	Bound

	// Open opens what the step needs and returns a Bound that replaces this one. It returns nil
	// after a finding.
	Open(*Resources) Bound
}

// Resources holds what the steps of a pipeline open, and the settings for opening it.
type Resources struct {
	*Findings
	Pipeline  *Pipeline
	Endpoints *control.Endpoints
	Budget    observe.Budget
	Models    map[string]Loaded             // by name
	Profiles  map[string]*profile.Reference // profiles of models, by the name of the model

	// Inline opens a model that the pipeline file describes, with the inputs that the first score
	// gives it.
	Inline func(m *Model, inputs []model.ManifestInput) (Loaded, bool)

	Opened  []model.Model // models to close with the pipeline
	Finds   []Finder      // finders of lookups outside the log
	Shared  []*batch.Shared
	Journal *journal.Spec  // nil keeps no answers
	Fetcher *fetch.Fetcher // nil if the pipeline has no fetch step

	Contents map[string]Fetched // by name
	Pinned   map[string]string  // digests of other files, by path of the field that names the file
}

// Loaded is an open model. Its outputs match the pipeline file.
type Loaded struct {
	model.Model
	Name    string            // name@version
	Asks    string            // hash of the fields that decide its answers
	Calling *operator.Calling // nil if the model is called inline
}

// Finder finds the rows of one lookup.
type Finder struct {
	Name, Path, Kind string
	*lookups.Finder
}

// Fetched says where fetched content comes from.
type Fetched struct {
	URL  value.Slot
	From fetch.Column // without its position
}

// OpenFetcher returns the fetcher of the pipeline. The first call opens it. It returns nil after a
// finding.
func (r *Resources) OpenFetcher() *fetch.Fetcher {
	if r.Fetcher != nil {
		return r.Fetcher
	}
	o := r.Pipeline.Content
	options := fetch.Options{
		Root: o.Root, Hosts: o.Hosts, Plain: o.HTTP, Buckets: o.Buckets, CacheDir: o.Cache.Dir, CacheMax: int64(o.Cache.Max),
		S3: s3.Options{Endpoint: o.S3.Endpoint, Region: o.S3.Region, Credentials: o.S3.Credentials, Profile: o.S3.Profile},
	}
	for i, text := range o.Private {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			r.Fail(fmt.Sprintf("content.private[%d]", i), "%q is not a network: write one as 10.2.0.0/16", text)
		}
		options.Private = append(options.Private, network)
	}
	f, err := fetch.New(options)
	if err != nil {
		r.Fail("content", "%v", err)
		return nil
	}
	r.Fetcher = f
	return f
}

// checkMax bounds how long a server may take to answer Check.
const checkMax = 10 * time.Second

// Check asks the server whether it can find rows as the lookup says. It changes nothing.
func (f Finder) Check(ctx context.Context) *spec.Problem {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	err := f.Finder.Check(ctx)
	if err == nil {
		return nil
	}
	return ProblemOf(f.Path, f.Kind, err)
}
