package scaffold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
)

// Topic selects the records that InferTopic reads.
type Topic struct {
	Name       string
	Partitions int

	// Records yields records of the topic, partition by partition.
	Records iter.Seq2[stream.Record, error]

	Registry *Registry // registry of the records' schemas; nil if they are JSON
}

// origin is the origin of an event's text.
type origin struct {
	partition int32
	offset    stream.Offset
	key       []byte
	problem   error // why there is no text
}

// InferTopic reads the records of a topic and returns findings about them. If the records have
// schemas, the types are those of the newest schema, which is the one with the highest id.
func InferTopic(ctx context.Context, topic Topic, o Options) (*Findings, error) {
	o.Name = topic.Name
	s := newScan(o)
	f := s.findings
	f.Topic, f.topic = topic.Name, &topic
	asked, err := topic.Registry.open()
	if err != nil {
		return nil, err
	}
	if asked != nil {
		defer asked.Close()
	}
	schemas, err := s.records(ctx, topic.Records, asked)
	if err != nil {
		return nil, err
	}
	if len(s.texts) == 0 {
		return nil, fmt.Errorf("topic %s has no records: write some first, or name a file of events with --sample FILE", topic.Name)
	}
	f.Schemas = slices.Sorted(maps.Keys(schemas))
	if n := len(f.Schemas); n > 0 {
		s.schema = schemas[f.Schemas[n-1]]
	}
	s.look()
	f.Read = len(s.texts)
	if f.Events == 0 {
		return nil, f.noEvents(asked != nil, s)
	}
	return f, f.guess()
}

// records reads the records. It returns their schemas by id.
func (s *scan) records(ctx context.Context, records iter.Seq2[stream.Record, error], asked *registry.Registry) (map[int]decode.Schema, error) {
	schemas := map[int]decode.Schema{}
	var written *registry.Schemas
	if asked != nil {
		written = asked.Schemas()
	}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		from := origin{partition: r.Partition.Index, offset: r.Offset, key: bytes.Clone(r.Key)}
		text := bytes.Clone(r.Value)
		if written != nil && len(text) > 0 {
			of, id, data, err := written.Of(ctx, r.Value)
			if err == nil {
				schemas[id] = of
				text, err = of.AppendJSON(nil, data)
			}
			if away := new(*registry.AwayError); ctx.Err() != nil || errors.As(err, away) {
				return nil, cmp.Or(ctx.Err(), err)
			}
			from.problem = err
		}
		s.texts, s.origins = append(s.texts, text), append(s.origins, from)
	}
	return schemas, nil
}

// noEvents returns the error for a topic without any events.
func (f *Findings) noEvents(registered bool, s *scan) error {
	framed := 0
	for _, text := range s.texts {
		if decode.Framed(text) {
			framed++
		}
	}
	records := fmt.Sprintf("topic %s: none of %s records is an event (%s)", f.Topic, thousands(f.Malformed), f.Problem)
	switch {
	case registered && len(f.Schemas) == 0:
		return fmt.Errorf("%s: leave out --schema-registry if the records are JSON, or name the registry that their producer uses", records)
	case !registered && framed > len(s.texts)/2:
		return fmt.Errorf("topic %s: the records begin with the id of a schema, a byte 0 and 4 bytes: name its registry with --schema-registry URL", f.Topic)
	}
	return fmt.Errorf("%s: records are JSON objects, or have a schema in a schema registry", records)
}

// declare stores the declaration of a field in the schema, or why no field can read it.
func (s *scan) declare(c *Field) {
	if s.schema == nil {
		return
	}
	d := s.declarations(c.Origin)
	at := c.At()
	c.declared, c.above = d.byPath[at], d.above[at]
	switch {
	case c.declared != nil && !c.declared.Any && len(c.declared.Kinds) == 0:
		c.unread = fmt.Sprintf("it is of type %s in the schema, which no field can read", c.declared.Type)
	case c.declared == nil && !d.open && !c.above && (c.parent == nil || c.parent.above):
		c.unread = fmt.Sprintf("schema id %d, the newest, does not have it", s.id())
	}
}

// declarations returns the schema's declarations for an origin.
func (s *scan) declarations(of decode.Origin) *declarations {
	d := s.declared[of]
	if d != nil {
		return d
	}
	d = &declarations{byPath: map[string]*decode.Declared{}, above: map[string]bool{}}
	member := ""
	if of == decode.FromData && s.findings.Envelope == envelope.Debezium {
		member = changed
	}
	d.list, d.open = s.schema.Declared(member)
	for i := range d.list {
		path := d.list[i].Path
		d.byPath[decode.PathText(path)] = &d.list[i]
		for n := 1; n < len(path); n++ {
			d.above[decode.PathText(path[:n])] = true
		}
	}
	s.declared[of] = d
	return d
}

// changed is the member of a change event that holds the row.
const changed = "after"

// changes reports whether the schema describes change events.
func (s *scan) changes() bool {
	list, open := s.schema.Declared(changed)
	return s.findings.Envelope == envelope.Debezium && !s.wrapped && (open || len(list) > 0)
}

func (s *scan) id() int { return slices.Max(s.findings.Schemas) }

// declarations are the declarations of a schema for the data or the envelope.
type declarations struct {
	list   []decode.Declared
	open   bool
	byPath map[string]*decode.Declared
	above  map[string]bool // paths of records with other records inside
}

// declareOthers adds the declared fields that no event has.
func (s *scan) declareOthers() {
	if s.schema == nil {
		return
	}
	f := s.findings
	known := map[string]bool{}
	for _, c := range f.Fields {
		if c.Origin == decode.FromData {
			known[c.At()] = true
		}
	}
	list := s.declarations(decode.FromData).list
	for i := range list {
		if d := &list[i]; !known[decode.PathText(d.Path)] && len(d.Kinds) > 0 && len(f.Fields) < columnsMax {
			c := newField(d.Path, decode.FromData)
			c.declared = d
			f.Fields = append(f.Fields, c)
		}
	}
}

// plain converts a value to the form of JSON events. Avro's JSON has dates without a time.
func plain(d *decode.Declared, raw []byte) []byte {
	if d != nil && len(d.Kinds) > 0 && d.Kinds[0] == value.Time && len(raw) == len(`"2006-01-02"`) {
		return fmt.Appendf(nil, `"%sT00:00:00Z"`, raw[1:len(raw)-1])
	}
	return raw
}

// at returns the position of an event of the sample.
func (s *scan) at(i int) string {
	if s.origins == nil {
		return fmt.Sprintf("event %d", i+1)
	}
	from := &s.origins[i]
	return fmt.Sprintf("%s/%d@%d", s.findings.Topic, from.partition, from.offset)
}

// keyed reports whether the value of the field is the key of nearly all records.
func (f *Findings) keyed(c *Field) bool {
	same := 0
	for _, v := range c.cells {
		if string(f.from[v.event].key) == v.text {
			same++
		}
	}
	return float64(same) >= fits*float64(f.Events)
}

// partition returns the partition of an event. Times of different partitions have no common order.
func (f *Findings) partition(event int32) int32 {
	if f.topic == nil {
		return 0
	}
	return f.from[event].partition
}

// pipeline returns the name of the pipeline.
func (f *Findings) pipeline() string {
	name := strings.ReplaceAll(f.Topic, ".", "-")
	return strings.Trim(name[:min(len(name), nameMax-len("-decisions"))], "-")
}

// registered writes the schema registry.
func (w *writer) registered() {
	if w.topic != nil && w.topic.Registry != nil {
		w.line("schema_registry: "+w.topic.Registry.written(), "")
	}
}

// source writes how to read the records of a topic.
func (w *writer) source() {
	if w.topic == nil {
		return
	}
	if w.topic.Registry != nil {
		about := "records begin with the id of their schema"
		if n := len(w.Schemas); n > 1 {
			ids := strings.Trim(strings.ReplaceAll(fmt.Sprint(w.Schemas), " ", ", "), "[]")
			about = fmt.Sprintf("the sample has the schema ids %s; types are those of %d", ids, w.Schemas[n-1])
		}
		w.line("  format: schema_registry", about)
	}
	if !w.Keyed && w.Envelope != envelope.Debezium {
		w.line(fmt.Sprintf("  repartition: %d", min(w.topic.Partitions, 1024)), "by the key below: the keys of the records are others")
	}
}
