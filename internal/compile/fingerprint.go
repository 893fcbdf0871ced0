package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// fingerprintVersion is the first line of the text that decides outputs. Another line
// changes all fingerprints.
const fingerprintVersion = "afterbay fingerprint 1\n"

// canonical returns the text that decides outputs: that of the file, with the digests of
// models in place of their paths, and the versions of functions.
func (c *compiler) canonical() string {
	p := *c.Pipeline
	p.Models = slices.Clone(p.Models)
	for i := range p.Models {
		if m, ok := c.res.Models[p.Models[i].Name]; ok {
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
	return generation.Fingerprint{Pipeline: c.plan.Name, Outputs: generation.Hash(c.canonical()), State: c.stored()}
}

// stored returns what the pipeline keeps beside a partition, features in the order of
// their cells.
func (c *compiler) stored() (all []generation.Kept) {
	p := c.Pipeline
	if len(p.Inputs) == 0 && p.Input.Repartition == 0 {
		all = keptOf(&p.Input)
	}
	for _, in := range c.copied() {
		all = append(all, keptOf(&in)[0]) // the copier drops duplicates, and keeps their ids itself
	}
	meaning := p.Meaning(c.typeOf)
	features := map[string]lang.Part{}
	var rest []generation.Kept
	for s := range lang.EachStep(p.Steps) {
		keeper, ok := s.(lang.Keeper)
		if !ok {
			continue
		}
		for _, part := range keeper.Keeps(meaning) {
			if part.Kind == generation.KindFeature {
				features[part.Name] = part
			} else {
				rest = append(rest, generation.KeptOf(part.Kind, part.Name, part.Text))
			}
		}
	}
	for _, call := range c.plan.Calls {
		if call.Function.Keyed {
			part := lang.FunctionPart(call.Name)
			rest = append(rest, generation.KeptOf(part.Kind, part.Name, part.Text))
		}
	}
	for set, specs := range c.lowered.Features {
		for i := range specs {
			kept := features[specs[i].Name].Text + []string{"kept=in log order\n", "kept=in waves\n"}[set]
			all = append(all, generation.KeptOf(generation.KindFeature, specs[i].Name, kept))
		}
	}
	for _, kept := range rest {
		if !slices.Contains(all, kept) {
			all = append(all, kept)
		}
	}
	return all
}

// typeOf returns the type of a name, whether its value may be absent or not.
func (c *compiler) typeOf(name string) string {
	slot, ok := c.Names.Schema.Lookup(name)
	if !ok {
		return ""
	}
	return value.Type{Kind: slot.Type.Kind, Size: slot.Type.Size}.String()
}

// copied returns the inputs whose events are copied to one topic.
func (c *compiler) copied() []lang.Input {
	if p := c.Pipeline; len(p.Inputs) == 0 && p.Input.Repartition != 0 {
		return []lang.Input{p.Input}
	}
	return c.Pipeline.Inputs
}

// keptOf returns what an input decides of the state beside a partition.
func keptOf(in *lang.Input) []generation.Kept {
	all := []generation.Kept{generation.KeptOf(generation.KindInput, in.Topic, in.Meaning())}
	if in.Dedupe != nil {
		all = append(all, generation.KeptOf(generation.KindDedupe, in.Topic, in.DedupeMeaning()))
	}
	return all
}
