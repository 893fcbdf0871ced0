package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

// Defaults of fields that decide outputs. A file that writes a default out has the same
// fingerprint.
const (
	DefaultMaxBytes     = 1 << 20
	DefaultMaxAhead     = time.Hour
	DefaultDedupeWindow = 24 * time.Hour
	DefaultDedupeMax    = 1_000_000
	DefaultFeatureMax   = 1 << 16
	DefaultGroupEvents  = 1000
	DefaultGroupBytes   = 16 << 20
	DefaultGroups       = 1000
	DefaultHistory      = 24 * time.Hour // of the rows of a table, unless an input is later than that
	DefaultNearest      = 5              // documents that a lookup by vector finds
	DefaultJoin         = "\n\n"         // separator between the texts of these documents
	DefaultFetchMax     = 10 << 20
)

// printedPipeline prints a pipeline with steps, sinks and models of any kind.
var printedPipeline = spec.MappingOf(Kinds{}.Fields())

// Canonical returns the text of the fields of a pipeline that decide outputs. Two pipelines with
// the same text make the same outputs from the same events, if their models and functions are the
// same.
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

// Canonical returns the text of all that decides the answers of a model, except its file.
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

// Text prints the fields of v that have an Affects of least or higher.
func Text[T any](fields []spec.Field[T], v *T, least spec.Affects) string {
	made := &spec.Printer{Least: least, Again: PrintAgain}
	spec.MappingOf(fields).Print(made, "", v)
	return made.Text()
}
