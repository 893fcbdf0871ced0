package steps

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/lookup"
)

// Lookup finds the row of a key, a JSON object: in a table of the log, or outside the log.
type Lookup struct {
	Name     string         // prefix of the fields' names
	Table    string         // a topic: the newest record of a key, a JSON object, is its row, and a record without a value deletes the row
	Versions RowVersions    // which row of a key in Table is found
	Key      string         // a name of kind string or int
	Vector   string         // instead of Key: a name of kind number[n]; the row is made of the nearest documents
	When     string         // expression of type bool; "" means always. A skipped lookup finds no row
	Fields   []lang.Field   // the fields to read from the row
	Empty    []lang.Binding // values of fields if there is no row; the other fields are then optional

	Kind   string        // of lookups outside of the log, by its name
	Config lookup.Config // what the file says of where the rows are; nil where they are in Table

	// The following fields are for documents found by Vector. A field of kind string contains the
	// texts of its column from all documents, the nearest first. A field of kind string[] is a list
	// of these texts. A field of any other kind comes from the nearest document. The field distance
	// is the distance of the nearest document.

	Limit    int            // most documents to find; 0 is 5
	Where    []lang.Binding // columns, with the expressions of kind string or int that they must equal
	Distance string         // cosine, l2 or inner_product; "" is cosine
	Join     string         // separator between the texts; "" is an empty line

	// The following fields are for lookups outside the log.

	Cache   RowCache      // cache of rows
	Batch   RowBatch      // how keys share a call
	Call    *lang.Calling // how to call a source that may be slow or down; nil means a zero Calling. Its concurrency also limits the calls for events that are not queued
	Journal *lang.Journal // stores the row of each event; nil stores none
	Async   bool          // queues every event before the call, which runs off the loop
	Ordered bool          // an event is queued if an earlier event of its key is queued
}

// RowVersions finds rows in a topic of the log: the newest row of a key, or the one that was valid
// at the time of the event.
type RowVersions struct {
	Envelope envelope.Kind // "" means no envelope
	Format   lang.Format   // encoding of the rows: JSON, a schema in the registry, or a schema in a file
	AsOf     string        // arrival or event; "" means arrival. Only event uses Time, History and Wait
	Time     lang.RowTime  // time when a row becomes valid
	History  time.Duration // how long before the watermark rows are kept; 0 means 24 h, or the lateness of the inputs if that is longer
	Wait     time.Duration // how long after its append an event waits for rows
}

// RowCache caches the rows of a lookup in the memory of a process.
type RowCache struct {
	TTL time.Duration // how long a row, or its absence, is cached; 0 is not at all
	Max int           // bytes of keys and rows in a process; 0 is 64 MiB
}

// RowBatch says how keys of a lookup share a call.
type RowBatch struct {
	Size int // most keys in a call; HTTP always has one key in a call; 0 is 100, and 16 for vectors
}

// StepKind implements Step.
func (*Lookup) StepKind() *lang.StepKind { return &lookupKind }

var lookupKind = lang.StepKind{
	Name: "lookup", Affects: spec.State, Example: "{name: profile, table: users, key: user, fields: {trusted: bool}, empty: {trusted: false}}", Help: "finds the row of a key, a JSON object: in a table of the log, or outside of it",
	New: func() lang.Step { return new(Lookup) },
	Table: func(k lang.Kinds) (spec.Table, error) {
		form, err := formOf(k)
		return spec.TableBy(form), err
	},
	Print: func(s lang.Step) spec.Table { return spec.Fields(s.(*Lookup).fields()) },
}

const ofOutside = "of a lookup outside of the log"

var lookupFieldsAbove = []spec.Field[Lookup]{
	{Name: "name", Affects: spec.Outputs, Required: true, Form: spec.Into(func(l *Lookup) *string { return &l.Name }, spec.ReadName), Example: "profile"},
	{Name: "table", Affects: spec.State, Form: spec.Into(func(l *Lookup) *string { return &l.Table }, spec.ReadName), Example: "users"},
	{Name: "envelope", Affects: spec.State, Form: spec.Into(func(l *Lookup) *envelope.Kind { return &l.Versions.Envelope }, lang.ReadRowEnvelope), Example: "debezium", Absent: "the value of a record is the row",
		Help: "of a table: the wrapper around rows. `debezium`: change events. The key of a row is that of its record, without a schema, and the row is that after the change. Deletions and records without a value delete the row"},
	{Name: "format", Affects: spec.State, Form: spec.Into(func(l *Lookup) *lang.Format { return &l.Versions.Format }, lang.ReadRowFormat), Example: "schema_registry", Absent: "json",
		Help: "of a table: how rows are encoded: a name, or a mapping for a schema of a file. With `schema_registry` keys and values that begin with the id of a schema are read by it, and a key is the text, integer or only column. Rows wait while the registry is away"},
	{Name: "as_of", Affects: spec.State, Form: spec.Into(func(l *Lookup) *string { return &l.Versions.AsOf }, spec.Choice[string]("arrival", "event").Default("arrival")), Example: "event", Absent: "arrival",
		Help: "of a table: the row is the newest one that has arrived, or the one that was valid at the time of the event"},
	{Name: "time", Affects: spec.State, Form: spec.Into(func(l *Lookup) *lang.RowTime { return &l.Versions.Time }, spec.MappingOf(lang.RowTimeFields)), Example: "{field: since, unit: ms}",
		Absent: "from the append of its record on", Help: "with `as_of: event`: from when on a row is valid"},
	{Name: "history", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *time.Duration { return &l.Versions.History }, spec.Span(time.Second, 366*spec.Day)), Example: "30d", Absent: "24h, or the `lateness` of the inputs if that is more",
		Help: "with `as_of: event`: how far before the watermark the rows of a key are kept. An event that is older finds the row of the beginning of that time"},
	{Name: "wait", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *time.Duration { return &l.Versions.Wait }, spec.Span(time.Millisecond, time.Hour)), Example: "2s", Absent: "an event is computed at once",
		Help: "with `as_of: event`: how long after the start of its validity a row may be appended. Events are computed so long after their own append"},
}

var lookupFieldsBelow = []spec.Field[Lookup]{
	{Name: "key", Affects: spec.Outputs, Required: true, Or: "vector", Form: spec.Into(func(l *Lookup) *string { return &l.Key }, spec.ReadName),
		Example: "user", Help: "the key of the row, of type string or int", Absent: "required, or `vector`"},
	{Name: "vector", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.Vector }, spec.ReadName), Example: "embed.vector", Absent: "required, or `key`",
		Help: "of type `number[n]`: instead of the row of a key, the documents of `postgres` that are nearest to it"},
	{Name: "limit", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *int { return &l.Limit }, spec.Whole[int](1, 100).Default(lang.DefaultNearest)), Example: "3", Help: "how many documents are found at most"},
	{Name: "where", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *[]lang.Binding { return &l.Where }, lang.ReadBindingSet),
		Example: "{customer: customer, kind: '\"chat\"'}", Absent: "all documents", Help: "columns, each with an expression of type string or int that it equals"},
	{Name: "distance", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.Distance }, spec.Choice[string]("cosine", "l2", "inner_product").Default("cosine")), Example: "l2", Help: "the measure of distance: smaller is nearer"},
	{Name: "join", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.Join }, spec.TextOf("a text").Default(lang.DefaultJoin)), Example: "', '", Help: "the text between the texts of documents"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.When }, lang.ReadBool), Example: `kind == "post"`,
		Absent: "always", Help: "condition for events; others find no row"},
	{Name: "fields", Affects: spec.Outputs, Required: true, Form: spec.Into(func(l *Lookup) *[]lang.Field { return &l.Fields }, lang.ReadFields),
		Example: "{trusted: bool, level: optional int}", Help: "fields of the row, with their types: names behind that of the lookup, as `profile.trusted`"},
	{Name: "empty", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *[]lang.Binding { return &l.Empty }, lang.ReadBindingSet),
		Example: "{trusted: false}", Help: "the values of the fields if no row is found: names to expressions", Absent: "they are optional"},
	{Name: "cache", Affects: spec.Nothing, Form: spec.Into(func(l *Lookup) *RowCache { return &l.Cache }, spec.MappingOf(rowCacheFields)), Example: "{ttl: 1m, max: 256MiB}",
		Help: ofOutside + ": keeps rows in the memory of the process", Absent: "one call for each event"},
	{Name: "batch", Affects: spec.Nothing, Form: spec.Into(func(l *Lookup) *RowBatch { return &l.Batch }, spec.MappingOf(rowBatchFields)), Example: "{size: 500}", Help: ofOutside + ": which keys share a call", Absent: "as below"},
	{Name: "journal", Affects: spec.Nothing, Form: spec.Optional(func(l *Lookup) **lang.Journal { return &l.Journal }, lang.ReadJournal), Example: "true", Absent: "none are",
		Help: "keeps the row of each event beside the partition, so that the event reads the same row when it is computed again. Every event is then queued"},
	{Name: "call", Affects: spec.Nothing, Form: spec.Optional(func(l *Lookup) **lang.Calling { return &l.Call }, spec.MappingOf(lang.CallingFields)), Example: "{timeout: 500ms, breaker: {open: queue}}",
		Help: ofOutside + ": how it is called, and how long it may be slow or down", Absent: "as below"},
	{Name: "async", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *bool { return &l.Async }, spec.OnlyTrue()), Example: "true", Absent: "events wait for the rows of those before them"},
	{Name: "ordered", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *bool { return &l.Ordered }, spec.OnlyTrue()), Example: "true", Absent: "queued events continue in any order"},
}

var rowCacheFields = []spec.Field[RowCache]{
	{Name: "ttl", Affects: spec.Nothing, Required: true, Form: spec.Into(func(c *RowCache) *time.Duration { return &c.TTL }, spec.Span(time.Millisecond, spec.Day)), Example: "1m",
		Help: "how long a row, or its absence, is used without another call"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(c *RowCache) *int { return &c.Max }, spec.Size(1<<10, 1<<40)), Example: "256MiB"},
}

var rowBatchFields = []spec.Field[RowBatch]{
	{Name: "size", Affects: spec.Nothing, Form: spec.Into(func(b *RowBatch) *int { return &b.Size }, spec.Whole[int](1, 4096)), Example: "500"},
}

var lookupChoice = lang.Choice[Lookup, lookup.Config]{
	Of: "lookup", Others: slices.Concat(lookupFieldsAbove, lookupFieldsBelow), Affects: spec.Outputs,
	More: "a lookup outside of the log keeps no state",
	At:   func(l *Lookup) (*string, *lookup.Config) { return &l.Kind, &l.Config },
}

// LookupKinds returns the fields that choose kinds of lookups. The error lists the invalid kinds.
func LookupKinds(kinds []lookup.Kind) ([]spec.Field[Lookup], error) {
	of := make([]lang.KindIn[lookup.Config], len(kinds))
	for i := range kinds {
		of[i] = lang.KindIn[lookup.Config](kinds[i])
	}
	return lookupChoice.Fields(of)
}

// fieldsOf returns the fields of a lookup: the common ones, and one for each kind between them.
func fieldsOf(k lang.Kinds) ([]spec.Field[Lookup], error) {
	chosen, err := LookupKinds(k.Lookups)
	all, places := slices.Concat(lookupFieldsAbove, chosen, lookupFieldsBelow), placesOf(k)
	for i := range all {
		if !slices.Contains(places, all[i].Name) {
			continue
		}
		var others []string
		for _, place := range places {
			if place != all[i].Name {
				others = append(others, "`"+place+"`")
			}
		}
		if all[i].Absent = "required"; others != nil {
			all[i].Absent += ", or " + spec.Listed(others, "or")
		}
	}
	return all, err
}

// placesOf returns the fields of a lookup that say where rows are.
func placesOf(k lang.Kinds) []string {
	places := []string{"table"}
	for _, kind := range k.Lookups {
		places = append(places, kind.Name)
	}
	return places
}

// formOf returns the form that reads a lookup and checks that its rows are in exactly one place.
// The error lists the invalid kinds of lookups.
func formOf(k lang.Kinds) (form spec.Form[Lookup], err error) {
	fields, err := fieldsOf(k)
	f, places := spec.MappingOf(fields), placesOf(k)
	return spec.Form[Lookup]{Read: func(r *spec.Reader, n *spec.Node, path string, into *Lookup) {
		before := len(r.Errors)
		f.Read(r, n, path, into)
		given := 0
		for _, field := range n.Entries {
			if slices.Contains(places, field.Key) {
				given++
			}
		}
		if len(r.Errors) == before && given != 1 {
			r.Fail(r.Places[path].Offset, path, fmt.Sprintf("a lookup has exactly one of %s", spec.Listed(places, "and")), "name a topic as `table`, or another source of rows")
		}
	}, Print: printLookup, Shape: f.Shape}, err
}

// printLookup prints a lookup with the table of its own config, so it needs no list of kinds.
func printLookup(p *spec.Printer, path string, l *Lookup) {
	spec.MappingOf(l.fields()).Print(p, path, l)
}

// fields returns the common fields of a lookup, and the field of its own kind.
func (l *Lookup) fields() []spec.Field[Lookup] {
	var own []spec.Field[Lookup]
	if l.Config != nil {
		table, err := spec.TableOf(l.Config, lookupChoice.Absent)
		if err != nil {
			panic(err) // opening the kind checked the table
		}
		own = append(own, lookupChoice.Reads(lang.KindIn[lookup.Config]{Name: l.Kind}, table))
	}
	return slices.Concat(lookupFieldsAbove, own, lookupFieldsBelow)
}

// Declare implements Step.
func (l *Lookup) Declare(d *lang.Declared) { d.AddFields(l.Name+".", l.Fields) }

// Effect implements Step.
func (*Lookup) Effect() lang.Effects { return lang.Effects{} }

// Keeps implements Keeper: a lookup keeps the rows of its table.
func (l *Lookup) Keeps(*lang.Meaning) []lang.Part {
	if l.Table == "" {
		return nil
	}
	name := l.Table
	if l.asOfEvent() {
		name += " as of the event"
	}
	return []lang.Part{{Kind: generation.KindTable, Name: name, Text: lang.Text(l.fields(), l, spec.State)}}
}

// found holds the slots for the fields of a row, and their values if there is no row.
type found struct {
	fields []decode.Field
	empty  []*expression.Program
	when   *expression.Program
}

// Bind implements Step.
func (l *Lookup) Bind(s *lang.Scope, path string) {
	before := len(s.Errs)
	s.Identifier(path+".name", l.Name)
	outside := l.Config != nil
	var key value.Slot
	if l.Vector == "" {
		l.rowsOnly(s, path)
		key = l.bindKey(s, path+".key")
	} else if !outside {
		s.Fail(path+".vector", "a table cannot find documents by a vector: use a kind that can, such as postgres")
	}
	var f found
	if l.When != "" {
		f.when = s.Expr(path+".when", l.When, value.Bool)
	}
	l.bindFields(s, path, &f)
	if outside {
		if l.Versions.Envelope != envelope.None {
			s.Fail(path+".envelope", "it is of the rows of a table")
			s.Hint("remove it")
		}
		if !l.Versions.Format.IsJSON() {
			s.Fail(path+".format", "it is of the rows of a table")
			s.Hint("remove it")
		}
		l.ofVersions(s, path, "remove it: a source outside of the log returns the current row")
		l.bindOutside(s, path, key, &f, before)
		return
	}
	spec := l.bindTable(s, path)
	if spec.Written = l.writesRows(s, path, spec.Own); len(s.Errs) > before {
		return
	}
	if l.bindVersions(s, path, &spec); len(s.Errs) > before {
		return
	}
	rows := lang.Rows{Path: path, Table: s.Table(spec), Format: l.Versions.Format, Fields: l.declared(f.fields)}
	s.Rows = append(s.Rows, rows)
	op := operator.NewLookup(operator.Lookup{
		Table: rows.Table, Topic: l.Table, When: f.when, Key: key, Fields: f.fields, Empty: f.empty,
	})
	place := lang.Place{Waves: spec.Written || s.Fed(append(f.empty, f.when)...) || s.FedSlots(key)}
	if spec.Written {
		place.OwnTable = path + ".table"
	}
	s.Add(l, path, lang.Ready(op, place))
}

// bindTable returns the table of a lookup.
func (l *Lookup) bindTable(s *lang.Scope, path string) table.Spec {
	switch {
	case l.Table == "":
		s.Fail(path+".table", "missing: name a topic (the newest record of a key is its row), or another source of rows")
	case !naming.ValidTopic(l.Table):
		s.Fail(path+".table", "%q is not a topic name: use letters, digits, '.', '_' and '-'", l.Table)
	case naming.Reserved(s.Pipeline.Name, l.Table):
		s.Unreserved(path+".table", l.Table)
	case !eachInput(s, func(in *lang.Input) bool { return in.Topic != l.Table }):
		s.Fail(path+".table", "the pipeline reads %q: an event would find itself, or one that comes after it", l.Table)
		s.Hint("use a feature to read earlier events of a key: last, or windows")
	}
	for _, word := range []struct {
		name  string
		given bool
	}{{"cache", l.Cache != (RowCache{})}, {"batch", l.Batch != (RowBatch{})}, {"call", l.Call != nil}, {"journal", l.Journal != nil}, {"async", l.Async}, {"ordered", l.Ordered}} {
		if word.given && l.Table != "" {
			s.Fail(path+"."+word.name, "the rows of a table are stored beside the partition: the lookup makes no calls")
			s.Hint("remove it, or name another source of rows instead of table")
		}
	}
	return table.Spec{Topic: l.Table, Own: inputKeyed(s, l.Key), Envelope: l.Versions.Envelope, Encoded: encoding(&l.Versions.Format)}
}

// encoding returns a text that identifies the encoding of rows; "" is JSON.
func encoding(f *lang.Format) string {
	switch {
	case f.IsJSON():
		return ""
	case f.Avro != "":
		return f.Avro
	case f.Protobuf.File != "":
		return f.Protobuf.File + " " + f.Protobuf.Message
	}
	return f.Name
}

func (l *Lookup) bindKey(s *lang.Scope, path string) value.Slot {
	if l.Key == "" {
		s.Fail(path, "missing: name the key of the row")
		return value.Slot{}
	}
	slots := s.Slots(path, l.Key)
	if len(slots) == 0 {
		return value.Slot{}
	}
	if slot := slots[0]; len(slots) > 1 || slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int {
		s.Fail(path, "%q is of type %v: a key is one string or int that is always there", l.Key, slot.Type)
		if slot.Type.Optional {
			s.Hint("give a value for when it is absent by let: ... ?? \"\"")
		}
	}
	return slots[0]
}

func (l *Lookup) bindFields(s *lang.Scope, path string, into *found) {
	if len(l.Fields) == 0 {
		s.Fail(path+".fields", "missing: name the fields that are read from the row, with their types")
	}
	for _, e := range l.Empty {
		if !slices.ContainsFunc(l.Fields, func(f lang.Field) bool { return f.Name == e.Name }) {
			s.Fail(path+".empty."+e.Name, "%q is not one of the fields", e.Name)
		}
	}
	for i, f := range l.Fields {
		at, name := path+".fields."+f.Name, l.Name+"."+f.Name
		parse := value.ParseType
		if l.Vector != "" && strings.HasSuffix(f.Type, (value.List|value.String).String()) {
			parse = value.ReadType // a search by vector may have a list of strings
		}
		t, err := parse(f.Type)
		if err != nil {
			s.Fail(at, "%v", err)
			s.Names.Broken[name] = true
			continue
		}
		if slices.ContainsFunc(l.Fields[:i], func(o lang.Field) bool { return o.Name == f.Name }) {
			s.Fail(at, "two fields are named %q", f.Name)
			continue
		}
		var empty *expression.Program
		if k := slices.IndexFunc(l.Empty, func(b lang.Binding) bool { return b.Name == f.Name }); k >= 0 {
			if empty = s.Expr(path+".empty."+f.Name, l.Empty[k].Expr, t.Kind); empty == nil {
				s.Names.Broken[name] = true
				continue
			}
		}
		t.Optional = t.Optional || empty == nil
		if slot, ok := s.Make(at, name, t); s.Identifier(at, f.Name) && ok {
			into.fields = append(into.fields, decode.Field{Name: f.Name, Slot: slot})
			into.empty = append(into.empty, empty)
		}
	}
}

// declared returns fields with the types that the file gives them. The slots themselves may be
// optional, because a row may be missing.
func (l *Lookup) declared(fields []decode.Field) []decode.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Slot.Type.Optional = strings.HasPrefix(l.Fields[i].Type, "optional ")
	}
	return fields
}

// writesRows reports whether the pipeline itself writes the table of a lookup. If so, the events of
// a key run one after the other: each finds the row that the event before it wrote.
func (l *Lookup) writesRows(s *lang.Scope, path string, own bool) bool {
	written := false
	refuse := func(what, format string, args ...any) {
		written = true
		s.Fail(path+".table", "the pipeline writes %q itself, %s: the lookup would miss rows of events in flight", l.Table, what)
		s.Hint(fmt.Sprintf(format, args...))
	}
	var walk func(steps []lang.Step)
	walk = func(steps []lang.Step) {
		for o := range lang.EachStep(steps) {
			effect := o.Effect()
			for of := range lang.EachStep(effect.Elements) {
				if slices.ContainsFunc(of.Effect().Writes, func(write lang.Write) bool { return write.Topic == l.Table }) {
					refuse("for elements of a list", "have another pipeline write the table")
				}
			}
			for _, write := range effect.Writes {
				switch {
				case write.Topic != l.Table:
				case write.By != "":
					refuse("by "+write.By, "%s", write.Instead)
				default:
					written = true
					if write.Key != "" && !inputKeyed(s, write.Key) {
						refuse("by key "+write.Key, "leave key out of the emit: its rows are then by the input's key")
					}
				}
			}
			walk(effect.OnFailure)
		}
	}
	walk(s.Pipeline.Steps)
	if s.Pipeline.Input.Time.LateTo == l.Table && l.Table != "" {
		refuse("by late events", "give late another topic")
	}
	if written && l.Versions.Envelope != envelope.None {
		s.Fail(path+".envelope", "the pipeline writes %q itself, without an envelope", l.Table)
		s.Hint("remove envelope, or have another pipeline write the table")
	}
	if written && !l.Versions.Format.IsJSON() {
		s.Fail(path+".format", "the pipeline writes %q itself, and as JSON", l.Table)
		s.Hint("remove format, or have another pipeline write the table")
	}
	if written && !own {
		s.Fail(path+".key", "the pipeline writes %q itself, by the input's key, and finds its rows by %s: the lookup would miss rows of events in flight", l.Table, l.Key)
		s.Hint("find them by the input's key, or have another pipeline write them")
	}
	return written
}

// inputKeyed reports whether a name is the key of all inputs.
func inputKeyed(s *lang.Scope, name string) bool {
	return eachInput(s, func(in *lang.Input) bool { return in.Key == name })
}

// eachInput reports whether holds is true for all inputs.
func eachInput(s *lang.Scope, holds func(in *lang.Input) bool) bool {
	for _, in := range s.Pipeline.EachInput() {
		if !holds(in) {
			return false
		}
	}
	return true
}

// rowsOnly reports fields of a vector search in a lookup by key.
func (l *Lookup) rowsOnly(s *lang.Scope, path string) {
	for _, word := range []struct {
		name  string
		given bool
	}{{"limit", l.Limit != 0}, {"where", l.Where != nil}, {"distance", l.Distance != ""}, {"join", l.Join != ""}} {
		if word.given {
			s.Fail(path+"."+word.name, "it applies to documents that are found by a vector, and this lookup has a key")
			s.Hint("give vector instead of key, or remove it")
		}
	}
}

// Canonical returns the text of the request that a lookup makes. A cached answer is reused for the
// same text.
func (l *Lookup) Canonical() string { return lang.Text(l.fields(), l, spec.Outputs) }
