package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// fingerprintVersion is the first line of the text that decides outputs. Changing it changes all
// fingerprints.
const fingerprintVersion = "afterbay fingerprint 1\n"

// canonical returns the text that decides outputs: the canonical text of the file, with the digests
// of models and schemas instead of their paths, and with the versions of functions.
func canonical(of *lang.Pipeline, open *opened, calls []*operator.Call) string {
	p := *of
	p.Models = slices.Clone(p.Models)
	for i := range p.Models {
		if m, ok := open.Models[p.Models[i].Name]; ok {
			p.Models[i].File = m.Info().Digest
		}
	}
	p.Inputs = slices.Clone(p.Inputs)
	for _, in := range p.EachInput() {
		if in.Format.Avro != "" {
			in.Format.Avro = open.formats[in.Topic].digest
		}
		if in.Format.Protobuf.File != "" {
			in.Format.Protobuf.File = open.formats[in.Topic].digest
		}
	}
	partitions := mergedPartitions(p.Inputs)
	for i := range p.Inputs { // at most one input sets it, for all inputs
		if p.Inputs[i].Repartition = partitions; partitions == DefaultPartitions {
			p.Inputs[i].Repartition = 0
		}
	}
	var text strings.Builder
	text.WriteString(fingerprintVersion + p.Canonical())
	for _, topic := range slices.Sorted(maps.Keys(open.schemas)) {
		fmt.Fprintf(&text, "schemas.%s=%s\n", topic, open.schemas[topic])
	}
	for _, path := range slices.Sorted(maps.Keys(open.Pinned)) {
		fmt.Fprintf(&text, "files.%s=%s\n", path, open.Pinned[path])
	}
	versions := map[string]int{}
	for _, call := range calls {
		versions[call.Name] = call.Function.Version
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(&text, "functions.%s.version=%d\n", name, versions[name])
	}
	return text.String()
}

// fingerprints returns the text that decides the outputs of a pipeline, and its fingerprint without
// the order of its stages.
func fingerprints(b *bound, open *opened, calls []*operator.Call, features [2][]feature.Spec) (text string, f generation.Fingerprint) {
	text = canonical(b.Pipeline, open, calls)
	return text, generation.Fingerprint{Pipeline: b.Pipeline.Name, Outputs: generation.Hash(text), State: stored(b, calls, features)}
}

// stored returns the state that the pipeline keeps beside a partition. Features are in the order of
// their cells.
func stored(b *bound, calls []*operator.Call, sets [2][]feature.Spec) (all []generation.Kept) {
	p := b.Pipeline
	if len(p.Inputs) == 0 && p.Input.Repartition == 0 {
		all = keptOf(&p.Input)
	}
	for _, in := range copied(p) {
		all = append(all, keptOf(&in)[0]) // the repartitioner drops duplicates, and keeps their ids itself
	}
	if b.read.Sources != nil { // offsets are positions in the order of sources
		all = append(all, generation.KeptOf(generation.KindInput, "order", "1"))
	}
	meaning := p.Meaning(func(name string) string { return typeOf(b.Names.Schema, name) })
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
	for _, call := range calls {
		if call.Function.Keyed {
			part := steps.FunctionPart(call.Name)
			rest = append(rest, generation.KeptOf(part.Kind, part.Name, part.Text))
		}
	}
	for set, specs := range sets {
		for i := range specs {
			kept := features[specs[i].Name].Text + []string{"kept=in log order\n", "kept=in waves\n"}[set]
			all = append(all, generation.KeptOf(generation.KindFeature, specs[i].Name, kept))
		}
	}
	for _, f := range steps.Asked(p) { // include features of stages, so that the home pipeline also detects a change of their state
		all = append(all, generation.KeptOf(generation.KindFeature, f.Name, features[f.Name].Text+"kept=by a stage\n"))
	}
	for _, kept := range rest {
		if !slices.Contains(all, kept) {
			all = append(all, kept)
		}
	}
	return all
}

// typeOf returns the type of a name, without optional.
func typeOf(schema *value.Schema, name string) string {
	slot, ok := schema.Lookup(name)
	if !ok {
		return ""
	}
	return value.Type{Kind: slot.Type.Kind, Size: slot.Type.Size}.String()
}

// copied returns the inputs that are copied to one topic.
func copied(p *lang.Pipeline) []lang.Input {
	if len(p.Inputs) == 0 && p.Input.Repartition != 0 {
		return []lang.Input{p.Input}
	}
	return p.Inputs
}

// keptOf returns the state beside a partition that an input defines.
func keptOf(in *lang.Input) []generation.Kept {
	all := []generation.Kept{generation.KeptOf(generation.KindInput, in.Topic, in.Meaning())}
	if in.Dedupe != nil {
		all = append(all, generation.KeptOf(generation.KindDedupe, in.Topic, in.DedupeMeaning()))
	}
	return all
}
