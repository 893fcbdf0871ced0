package afterbay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/generation"
	"github.com/afterbay/afterbay/internal/lang"
)

// fingerprintVersion is the first line of the text that decides outputs. Another line
// changes all fingerprints.
const fingerprintVersion = "afterbay fingerprint 1\n"

// canonical returns the text that decides outputs: that of the file, with the digests of
// models in place of their paths, and the versions of functions.
func (c *compiler) canonical() string {
	p := *c.pipeline
	p.Models = slices.Clone(p.Models)
	for i := range p.Models {
		if m, ok := c.models[p.Models[i].Name]; ok {
			p.Models[i].File = m.Info().Digest
		}
	}
	p.Inputs = slices.Clone(p.Inputs)
	partitions := mergedPartitions(p.Inputs)
	for i := range p.Inputs { // one input says it, or none does
		if p.Inputs[i].Repartition = partitions; partitions == DefaultPartitions {
			p.Inputs[i].Repartition = 0
		}
	}
	versions := map[string]int{}
	for _, call := range c.plan.Calls {
		versions[call.Name] = call.Function.Version
	}
	var text strings.Builder
	text.WriteString(fingerprintVersion + p.Canonical())
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(&text, "functions.%s.version=%d\n", name, versions[name])
	}
	return text.String()
}

// fingerprint returns the fingerprint of the plan, without the order of its steps.
func (c *compiler) fingerprint() generation.Fingerprint {
	return generation.Fingerprint{Pipeline: c.plan.Name, Outputs: generation.Hash(c.canonical()), State: keptOf(c.stored())}
}

// stored returns what the pipeline keeps beside a partition, features in the order of
// their cells.
func (c *compiler) stored() (all []lang.Stored) {
	p := c.pipeline
	if len(p.Inputs) == 0 && p.Input.Repartition == 0 {
		all = append(all, p.Input.Stored()...)
	}
	for _, in := range c.copied() {
		all = append(all, in.Stored()[0]) // the copier drops duplicates, and keeps their ids itself
	}
	features := map[string]*Feature{}
	var rest []lang.Stored
	eachStep(p.Steps, func(s *Step) {
		for i := range s.Features {
			features[s.Features[i].Name] = &s.Features[i]
		}
		switch {
		case s.Group != nil:
			rest = append(rest, s.Group.Stored())
		case s.Lookup != nil && s.Lookup.Table != "":
			rest = append(rest, s.Lookup.Stored())
		}
	})
	for _, call := range c.plan.Calls {
		if call.Function.Keyed {
			rest = append(rest, (&Call{Go: call.Name}).Stored())
		}
	}
	for set, specs := range c.specs {
		for i := range specs {
			kept := features[specs[i].Name].Stored()
			kept.Text += []string{"kept=in log order\n", "kept=in waves\n"}[set]
			all = append(all, kept)
		}
	}
	for _, kept := range rest {
		if !slices.Contains(all, kept) {
			all = append(all, kept)
		}
	}
	return all
}

// copied returns the inputs whose events are copied to one topic.
func (c *compiler) copied() []Input {
	if p := c.pipeline; len(p.Inputs) == 0 && p.Input.Repartition != 0 {
		return []Input{p.Input}
	}
	return c.pipeline.Inputs
}

// keptOf returns the parts of the state with the hashes of their texts.
func keptOf(stored []lang.Stored) (all []generation.Kept) {
	for _, s := range stored {
		all = append(all, generation.Kept{Kind: s.Kind, Name: s.Name, Hash: generation.Hash(s.Text)[:16]})
	}
	return all
}
