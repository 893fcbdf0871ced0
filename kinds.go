package afterbay

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

//go:embed docs/reference/pipeline.schema.json
var builtInSchema []byte

// Schema returns the JSON Schema of pipeline files that can use the built-in kinds and the kinds of
// code. Editors use it to complete and check files. Schema returns an error if the kinds are not
// valid.
func Schema(code Code) ([]byte, error) {
	brought, err := broughtBy(code)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(builtInSchema, &all); err != nil {
		return nil, fmt.Errorf("the schema of the built-in kinds: %w", err)
	}
	for _, b := range brought {
		if b.place == ofManifest {
			continue // manifests have no schema
		}
		into, from := propertiesOf(all, b.place), (spec.Docs{}).Schema(b.shape)
		maps.Copy(into, from["properties"].(map[string]any))
	}
	logs, err := lang.Kinds{Logs: code.Logs}.LogFields()
	if err != nil {
		return nil, err
	}
	engine := all["properties"].(map[string]any)["engine"].(map[string]any)
	for _, kind := range logs {
		engine["anyOf"] = append(engine["anyOf"].([]any), (spec.Docs{}).Schema(kind.Shape))
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}

// Reference returns a reference page of the kinds of code in Markdown, with the description and the
// fields of each kind. It returns an error if the kinds are not valid.
func Reference(code Code) (string, error) {
	brought, err := broughtBy(code)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	for _, b := range brought {
		(spec.Docs{}).Sections(b.shape, func(s spec.Section) {
			s.Path = strings.TrimSuffix(b.place+"."+s.Path, ".")
			page.WriteString(s.Page(""))
		})
	}
	logs, err := lang.Kinds{Logs: code.Logs}.LogFields()
	for _, kind := range logs {
		(spec.Docs{}).Sections(kind.Shape, func(s spec.Section) {
			title := "`engine` at " + strings.Join(kind.URLs, " or ") + ": " + kind.Help
			if s.Path != "" {
				s.Path = "engine." + s.Path
			}
			page.WriteString(s.Page(title))
		})
	}
	return page.String(), err
}

// kindFields are the fields with which a mapping chooses a kind.
type kindFields struct {
	place string // path of the mapping in a file
	shape spec.Shape
}

// broughtBy returns the fields that choose the kinds of code. It returns an error if the kinds are
// not valid.
func broughtBy(code Code) (brought []kindFields, err error) {
	if _, err := builtin.Kinds().With(code); err != nil {
		return nil, err
	}
	if sinks, err := lang.SinkKinds(code.Sinks); err != nil {
		return nil, err
	} else if len(sinks) > 0 {
		brought = append(brought, kindFields{"sinks[]", spec.MappingOf(sinks).Shape})
	}
	if lookups, err := steps.LookupKinds(code.Lookups); err != nil {
		return nil, err
	} else if len(lookups) > 0 {
		brought = append(brought, kindFields{"steps[].lookup", spec.MappingOf(lookups).Shape})
	}
	if fields, err := lang.ModelKinds(code.ModelKinds); err != nil {
		return nil, err
	} else if len(fields) > 0 {
		brought = append(brought, kindFields{ofManifest, spec.MappingOf(fields).Shape})
	}
	return brought, nil
}

// ofManifest is the place of the fields of a model's manifest.
const ofManifest = "manifest"

// propertiesOf returns the properties of a mapping in a schema.
func propertiesOf(all map[string]any, place string) map[string]any {
	schema := all
	for part := range strings.SplitSeq(place, ".") {
		name, isList := strings.CutSuffix(part, "[]")
		schema = schema["properties"].(map[string]any)[name].(map[string]any)
		if to, ok := schema["$ref"].(string); ok {
			schema = all["$defs"].(map[string]any)[strings.TrimPrefix(to, "#/$defs/")].(map[string]any)
		}
		if isList {
			schema = schema["items"].(map[string]any)
		}
	}
	return schema["properties"].(map[string]any)
}
