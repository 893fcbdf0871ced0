package compile

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/table"
)

// format is the format of an input that is not JSON.
type format struct {
	decode.Format
	digest string // digest of its schema
}

// checkFormats checks that each schema has the fields of its input.
func checkFormats(b *bound, formats map[string]format, found *lang.Findings) {
	inputs := []task.Input{b.read.Input}
	if b.read.Sources != nil {
		inputs = nil
		for _, from := range b.read.copies {
			inputs = append(inputs, from.Input)
		}
	}
	for i, in := range inputs {
		path := "input"
		if len(b.Pipeline.Inputs) > 0 {
			path = lang.InputPath(i)
		}
		f, encoded := formats[in.Topic]
		if in.Envelope == envelope.Debezium {
			warnOfChanges(b, in, path, found)
		}
		var of decode.Format = decode.JSON{}
		if encoded {
			of = f.Format
		} else if in.Envelope == envelope.None || len(b.Errs) > 0 {
			continue // JSON accepts all fields of a valid input
		}
		if _, err := envelope.New(in.Envelope, of, in.Fields); err != nil {
			found.Fail(path+".fields", "%v", err)
			found.Hint("declare each field as " + path + ".format defines it")
		}
	}
}

// warnOfChanges warns of properties of Debezium change events that the pipeline does not handle.
func warnOfChanges(b *bound, in task.Input, path string, found *lang.Findings) {
	if !slices.ContainsFunc(in.Fields, readsOp) {
		found.Warnings = append(found.Warnings, path+".envelope: deletions are events too, and no field marks them: add op: {from: envelope, type: string} to the fields, and use op != \"d\" as condition")
	}
	own := slices.IndexFunc(b.Tables, func(t table.Spec) bool { return t.Own })
	if own >= 0 && b.read.Sources == nil {
		found.Warnings = append(found.Warnings, fmt.Sprintf("%s.envelope: Kafka places a record of Debezium by the JSON of its key, such as {\"%s\":7}, and a row of table %s by its key, such as 7: an event becomes a dead letter if its row is in another partition. Add repartition to %s, unless the connector writes keys as plain text",
			path, b.read.Key.Name, b.Tables[own].Topic, path))
	}
}

// readsOp reports whether a field is the op of a change event.
func readsOp(f decode.Field) bool { return f.From == decode.FromEnvelope && f.At() == "op" }

// formatted returns an input with the formats of its topics.
func (o *opened) formatted(in task.Input) task.Input {
	in.Format = o.formats[in.Topic].Format
	sources := in.Sources
	in.Sources = nil
	for _, s := range sources {
		s.Format = o.formats[s.Topic].Format
		in.Sources = append(in.Sources, s)
	}
	return in
}
