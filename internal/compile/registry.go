package compile

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
)

// registryMax is how long the registry is asked about an input.
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

const awayHint = "check the address and the credentials, or start the registry"

// AskRegistry compares the fields of inputs with the newest schemas of their topics in the schema
// registry, and with what it takes as their next versions. It also asks whether it has the schemas of
// outputs, or would take them. It changes nothing there.
func (c *Compiled) AskRegistry(ctx context.Context) (found spec.Problems, warnings []string) {
	for _, r := range c.registrations {
		switch reached, err := r.Check(ctx); {
		case !reached:
			found = append(found, &spec.Problem{Path: "schema_registry", Message: fmt.Sprintf("the schema registry does not answer: %v", err), Err: err, Hint: awayHint})
		case err != nil:
			found = append(found, &spec.Problem{Path: r.path, Message: err.Error(), Err: err})
		}
	}
	for path, in := range c.Pipeline.EachInput() {
		if in.Format.Name != lang.FormatRegistry {
			continue
		}
		newest, err := c.newest(ctx, in.Topic)
		switch {
		case err != nil:
			found = append(found, &spec.Problem{Path: "schema_registry", Message: fmt.Sprintf("the schema registry does not answer: %v", err), Err: err, Hint: awayHint})
		case newest == nil:
			warnings = append(warnings, fmt.Sprintf("%s: the schema registry has no subject %s: whether the fields are as its schemas have them is seen with the first event", path, registry.Subject(in.Topic)))
		default:
			if err := newest.Fits(in.Envelope.Fields(c.fieldsOf(in.Topic))); err != nil {
				found = append(found, &spec.Problem{Path: path + ".fields", Message: err.Error(), Err: err, Hint: "its events would be dead letters: a field is as the schema has it"})
			}
			if why := newest.Unsafe(); why != "" {
				warnings = append(warnings, path+": "+why)
			}
		}
	}
	return found, warnings
}

func (c *Compiled) newest(ctx context.Context, topic string) (*registry.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, registryMax)
	defer cancel()
	return c.Schemas.Newest(ctx, registry.Subject(topic))
}

// fieldsOf returns the fields that are read from an input.
func (c *Compiled) fieldsOf(topic string) []decode.Field {
	fields := c.Plan.Fields
	for _, from := range c.Copies {
		if from.Topic == topic {
			fields = from.Fields
		}
	}
	return fields
}
