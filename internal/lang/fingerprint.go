package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

// Defaults of fields that decide outputs: a file that writes them out means the same.
const (
	DefaultMaxBytes     = 1 << 20
	DefaultMaxAhead     = time.Hour
	DefaultDedupeWindow = 24 * time.Hour
	DefaultDedupeMax    = 1_000_000
	DefaultFeatureMax   = 1 << 16
	DefaultGroupEvents  = 1000
	DefaultGroupBytes   = 16 << 20
	DefaultGroups       = 1000
	DefaultHistory      = 24 * time.Hour // of the rows of a table, where no input is later than that
	DefaultNearest      = 5              // documents that a lookup by vector finds
	DefaultJoin         = "\n\n"         // between their texts
	DefaultFetchMax     = 10 << 20
)

// printedPipeline prints a pipeline of any kinds.
var printedPipeline = spec.MappingOf(Kinds{}.Fields())

// Canonical returns the text of the fields of a pipeline that decide outputs. Two
// pipelines with the same text make the same outputs of the same events, if their models
// and functions are the same.
func (p *Pipeline) Canonical() string {
	made := &spec.Printer{Least: spec.Outputs, Again: PrintAgain}
	printedPipeline.Print(made, "", p)
	for i := range p.Models {
		if m := p.Models[i].Manifest; m != nil {
			printManifest(made, "models."+p.Models[i].Name+".manifest", m)
		}
	}
	return made.Text()
}

// Canonical returns the text of what decides the answers of a model beside its file.
func (m *Model) Canonical() string {
	of := *m
	of.File = ""
	all := Text(modelFields, &of, spec.Outputs)
	if m.Manifest != nil {
		made := &spec.Printer{Least: spec.Outputs, Again: PrintAgain}
		printManifest(made, "", m.Manifest)
		all += made.Text()
	}
	return all
}

// Text returns what fields of v say that affect at least so much.
func Text[T any](fields []spec.Field[T], v *T, least spec.Affects) string {
	made := &spec.Printer{Least: least, Again: PrintAgain}
	spec.MappingOf(fields).Print(made, "", v)
	return made.Text()
}
