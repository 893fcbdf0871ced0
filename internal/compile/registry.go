package compile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/table"
)

// registryMax is the timeout of a registry request about an input.
const registryMax = 30 * time.Second

// FindSchemas finds the ids of the schemas of outputs, as registry.FindOutputs does.
func (c *Compiled) FindSchemas(ctx context.Context, mayRegister bool, away func(error)) error {
	var outputs []*registry.Output
	for _, of := range c.registrations {
		outputs = append(outputs, of.Output)
	}
	if outputs == nil {
		return nil
	}
	return c.Schemas.FindOutputs(ctx, outputs, mayRegister, away)
}

// AskRegistry compares the fields of inputs and table rows with the newest schemas of their topics
// in the schema registry. It also checks which next versions the registry would accept, compares
// the schemas of keys, and asks whether the registry has, or would accept, the schemas of outputs.
// It changes nothing there.
func (c *Compiled) AskRegistry(ctx context.Context) (found spec.Problems, warnings []string) {
	q := questions{Compiled: c, ctx: ctx}
	for _, r := range c.registrations {
		switch reached, err := r.Check(ctx); {
		case !reached:
			q.away(err)
		case err != nil:
			q.wrong(r.path, err, "")
		}
	}
	for path, in := range c.Pipeline.EachInput() {
		if in.Format.Name == lang.FormatRegistry {
			q.input(path, in)
		}
	}
	for _, of := range c.rows {
		if table := &c.Plan.Tables[of.Table]; table.Schemas != nil {
			q.table(of, table)
		}
	}
	return q.found, q.warnings
}

// questions asks a schema registry and collects the findings.
type questions struct {
	*Compiled
	ctx      context.Context
	found    spec.Problems
	warnings []string
}

func (q *questions) away(err error) {
	q.found = append(q.found, &spec.Problem{Path: "schema_registry", Message: fmt.Sprintf("the schema registry does not answer: %v", err), Err: err, Hint: "check the address and the credentials, or start the registry"})
}

// wrong adds an error unless err is nil.
func (q *questions) wrong(path string, err error, hint string) {
	if err != nil {
		q.found = append(q.found, &spec.Problem{Path: path, Message: err.Error(), Err: err, Hint: hint})
	}
}

func (q *questions) warn(path, text string) { q.warnings = append(q.warnings, path+": "+text) }

// newest returns the newest version of a subject. It returns nil if the subject has no version,
// or if the registry does not answer. unknown describes what cannot be compared if the subject does not
// exist; "" gives no warning.
func (q *questions) newest(path, subject, unknown string) *registry.Version {
	ctx, cancel := context.WithTimeout(q.ctx, registryMax)
	defer cancel()
	newest, err := q.Schemas.Newest(ctx, subject)
	switch {
	case err != nil:
		q.away(err)
	case newest == nil && unknown != "":
		q.warn(path, fmt.Sprintf("the schema registry has no subject %s: the first event shows whether %s", subject, unknown))
	}
	return newest
}

// input compares the schemas of an input.
func (q *questions) input(path string, in *lang.Input) {
	fields := q.fieldsOf(in.Topic)
	if newest := q.newest(path, registry.Subject(in.Topic), "the fields fit its schemas"); newest != nil {
		q.wrong(path+".fields", newest.Fits(in.Envelope.Fields(fields)), "its events would be dead letters: declare each field as the schema defines it")
		if why := newest.Unsafe(); why != "" {
			q.warn(path, why)
		}
	}
	ofKey := func(f decode.Field) bool { return f.From == decode.FromKey }
	at := slices.IndexFunc(fields, ofKey)
	if at < 0 {
		return
	}
	if newest := q.newest(path, registry.KeySubject(in.Topic), ""); newest != nil { // without a schema, keys are text
		q.wrong(path+".fields."+fields[at].Name, newest.FitsKey(fields[at].Slot.Type.Kind == value.Int), "its events would be dead letters: read the value from a field of the record instead")
	}
}

const rowHint = "events that find such rows would be dead letters, or would read no value: declare each field as the schema defines it. Write `optional` before its type if rows may lack it"

// table compares the schemas of the rows that a lookup reads.
func (q *questions) table(of lang.Rows, in *table.Spec) {
	if newest := q.newest(of.Path, registry.Subject(in.Topic), "its rows have the fields"); newest != nil {
		if newest.Paths() || in.Envelope == envelope.None {
			q.wrong(of.Path+".fields", in.Envelope.FitsRows(of.Fields, newest.Fits), rowHint)
		}
		if why := newest.Unsafe(); why != "" {
			q.warn(of.Path, why)
		}
	}
	if newest := q.newest(of.Path, registry.KeySubject(in.Topic), ""); newest != nil { // without a schema, keys are text
		q.wrong(of.Path+".table", newest.FitsKey(true), "its records would belong to no row, and no event would find them")
	}
}

// fieldsOf returns the fields that the pipeline reads from an input.
func (c *Compiled) fieldsOf(topic string) []decode.Field {
	fields := c.Plan.Fields
	for _, from := range c.Copies {
		if from.Topic == topic {
			fields = from.Fields
		}
	}
	return fields
}
