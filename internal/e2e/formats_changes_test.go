package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	generic "github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

const (
	customerKey    = `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`
	customerChange = `{"type":"record","name":"Envelope","fields":[{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"tier","type":["null","string"]}]}]},
		{"name":"after","type":["null","Value"]},{"name":"op","type":"string"}]}`
)

// customers are change events of Debezium with keys and values of Avro, as its converter of a schema registry writes them.
type customers struct {
	t          *testing.T
	key, value int // ids of schemas
}

func newCustomers(t *testing.T, server *srfake.Registry) *customers {
	t.Helper()
	register := func(subject, schema string) int {
		id, _, err := server.RegisterSchema(subject, sr.Schema{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	return &customers{t, register("customers-key", customerKey), register("customers-value", customerChange)}
}

// framed returns a value with the id of its schema.
func (c *customers) framed(id int, schema string, of any) []byte {
	c.t.Helper()
	data, err := generic.MustParse(schema).Encode(of)
	if err != nil {
		c.t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), data...)
}

// change returns a change of a customer; op "" is a tombstone.
func (c *customers) change(op string, id int64, before, after any) stream.Record {
	c.t.Helper()
	image := func(tier any) any {
		if tier == nil {
			return nil
		}
		return map[string]any{"id": id, "tier": tier}
	}
	r := stream.Record{Partition: stream.Partition{Topic: "customers"}, Key: c.framed(c.key, customerKey, map[string]any{"id": id}), Time: time.UnixMilli(1767261600000)}
	if op != "" {
		r.Value = c.framed(c.value, customerChange, map[string]any{"before": image(before), "after": image(after), "op": op})
	}
	return r
}

// TestChangeEventsOfASchemaRegistry reads them as the events of a topic, and of one that is copied by another key. The key of
// a record is a field too.
func TestChangeEventsOfASchemaRegistry(t *testing.T) {
	for _, partitions := range []int32{0, 2} {
		server := srfake.New()
		c := newCustomers(t, server)
		p := lang.Pipeline{
			Name: "tiers", Registry: lang.Registry{URL: server.URL()},
			Input: lang.Input{
				Topic: "customers", Key: "id", Envelope: envelope.Debezium, Format: lang.Format{Name: lang.FormatRegistry}, Repartition: partitions,
				Fields: []lang.Field{{Name: "id", Type: "int", From: lang.FromKey}, {Name: "tier", Type: "optional string"}, {Name: "op", Type: "string", From: lang.FromEnvelope}, {Name: "was", Type: "optional string", From: lang.FromEnvelope, Path: "before.tier"}},
			},
			Steps: []lang.Step{&steps.Emit{Topic: "tiers", Names: []string{"id", "op", "was", "tier"}}},
		}
		log := memory.New(memory.Options{})
		runOn(t, log, p, c.change("c", 7, nil, "free"), c.change("u", 7, "free", "gold"), c.change("d", 7, "gold", nil), c.change("", 7, nil, nil))
		want := `{"id":7,"op":"c","was":null,"tier":"free"};{"id":7,"op":"u","was":"free","tier":"gold"};{"id":7,"op":"d","was":"gold","tier":"gold"}`
		var all []string
		for i := range max(partitions, 1) {
			for _, r := range readPartition(t, log, stream.Partition{Topic: "tiers", Index: i}) {
				all = append(all, string(r.Value))
			}
		}
		if got := strings.Join(all, ";"); got != want {
			t.Errorf("%d partitions: %s, want %s", partitions, got, want)
		}
		if dead := stages(t, log, "tiers.dlq"); len(dead) > 0 {
			t.Errorf("%d partitions: dead letters %q", partitions, dead)
		}
		server.Close()
	}
}

// TestKeysOfASchemaThatIsNotKnown makes dead letters that name the id of the key's schema.
func TestKeysOfASchemaThatIsNotKnown(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	c := newCustomers(t, server)
	c.key = 77
	p := lang.Pipeline{
		Name: "tiers", Registry: lang.Registry{URL: server.URL()},
		Input: lang.Input{
			Topic: "customers", Key: "id", Envelope: envelope.Debezium, Format: lang.Format{Name: lang.FormatRegistry}, Repartition: 2,
			Fields: []lang.Field{{Name: "id", Type: "int", From: lang.FromKey}, {Name: "op", Type: "string", From: lang.FromEnvelope}},
		},
		Steps: []lang.Step{&steps.Emit{Topic: "tiers", Names: []string{"id", "op"}}},
	}
	log := memory.New(memory.Options{})
	runOn(t, log, p, c.change("c", 7, nil, "free"))
	dead := readPartition(t, log, stream.Partition{Topic: "tiers.dlq"})
	if len(dead) != 1 || header.Get(&dead[0], "afterbay-error") != `field "id" at byte 0: the key of the record: byte 1: schema id 77: the registry does not know it` {
		t.Errorf("dead letters %v", dead)
	}
}

// tierOf returns a pipeline that looks the tier of customers up, in a table of a schema registry.
func tierOf(server *srfake.Registry, of envelope.Kind) lang.Pipeline {
	return lang.Pipeline{
		Name: "orders", Registry: lang.Registry{URL: server.URL()},
		Input: lang.Input{Topic: "orders", Partitions: 1, Key: "customer", Fields: []lang.Field{{Name: "customer", Type: "int"}}},
		Steps: []lang.Step{
			&steps.Lookup{Name: "who", Table: "customers", Versions: steps.RowVersions{Envelope: of, Format: lang.Format{Name: lang.FormatRegistry}}, Key: "customer", Fields: []lang.Field{{Name: "tier", Type: "optional string"}}},
			&steps.Emit{Topic: "out", Names: []string{"customer", "who.tier"}},
		},
	}
}

func orderOf(customer string) stream.Record {
	return stream.Record{Key: []byte(customer), Value: []byte(`{"customer":` + customer + `}`), Time: time.UnixMilli(1767261600000)}
}

// TestTablesOfASchemaRegistry looks rows up in change events of Avro, and in plain records of Avro and JSON. A record that
// cannot be read is a broken row, and a deletion or a record without a value deletes the row.
func TestTablesOfASchemaRegistry(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	c := newCustomers(t, server)
	const value = `{"type":"record","name":"Value","fields":[{"name":"tier","type":["null","string"]}]}`
	id, _, err := server.RegisterSchema("plain-value", sr.Schema{Schema: value})
	if err != nil {
		t.Fatal(err)
	}
	plain := func(key int64, tier any) stream.Record {
		r := c.change("", key, nil, nil)
		r.Value = c.framed(id, value, map[string]any{"tier": tier})
		return r
	}
	unknown := plain(3, nil)
	unknown.Value = []byte("\x00\x00\x00\x00\x63x")
	plainKey := c.change("", 3, nil, nil)
	plainKey.Key, plainKey.Value = []byte(`{"id":3}`), unknown.Value
	badKey := plain(4, "gold")
	badKey.Key = []byte("\x00\x00\x00\x00\x63x")
	json := stream.Record{Partition: unknown.Partition, Key: []byte("4"), Value: []byte(`{"tier":"json"}`)}
	for _, k := range []struct {
		of   envelope.Kind
		rows []stream.Record
		want string
	}{
		{envelope.Debezium, []stream.Record{c.change("c", 1, nil, "free"), c.change("u", 1, "free", "gold"), c.change("r", 2, nil, "free"), c.change("d", 2, "free", nil), c.change("", 2, nil, nil), plainKey, badKey},
			`{"customer":1,"who_tier":"gold"};{"customer":2,"who_tier":null};{"customer":4,"who_tier":null}`},
		{envelope.None, []stream.Record{plain(1, "free"), plain(1, "gold"), plain(2, "free"), c.change("", 2, nil, nil), unknown, badKey, json},
			`{"customer":1,"who_tier":"gold"};{"customer":2,"who_tier":null};{"customer":4,"who_tier":"json"}`},
	} {
		log := memory.New(memory.Options{})
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "customers", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		if err := log.Append(t.Context(), k.rows...); err != nil {
			t.Fatal(err)
		}
		runOn(t, log, tierOf(server, k.of), orderOf("1"), orderOf("2"), orderOf("3"), orderOf("4"))
		if got := strings.Join(values(t, log, "out"), ";"); got != k.want {
			t.Errorf("%s: %s, want %s", k.of, got, k.want)
		}
		dead := readPartition(t, log, stream.Partition{Topic: "orders.dlq"})
		if len(dead) != 1 || !strings.Contains(header.Get(&dead[0], "afterbay-error"), `row "3" of table customers: customers/0@`) || !strings.Contains(header.Get(&dead[0], "afterbay-error"), "schema id 99: the registry does not know it") {
			t.Errorf("%s: dead letters %v", k.of, dead)
		}
	}
}

// TestTextKeysOfASchemaRegistryAreReadOnce finds rows whose keys are texts that look like JSON.
func TestTextKeysOfASchemaRegistryAreReadOnce(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	c := newCustomers(t, server)
	id, _, err := server.RegisterSchema("texts-key", sr.Schema{Schema: `"string"`})
	if err != nil {
		t.Fatal(err)
	}
	order := func(customer string) stream.Record {
		r := orderOf(strconv.Quote(customer))
		r.Key = []byte(customer)
		return r
	}
	for of, value := range map[envelope.Kind]string{envelope.Debezium: `{"op":"c","after":{"tier":"%s"}}`, envelope.None: `{"tier":"%s"}`} {
		row, quoted := c.change("", 1, nil, nil), c.change("", 1, nil, nil)
		row.Key, row.Value = c.framed(id, `"string"`, `{"id":7}`), fmt.Appendf(nil, value, "gold")
		quoted.Key, quoted.Value = c.framed(id, `"string"`, `"a"`), fmt.Appendf(nil, value, "free")
		p := tierOf(server, of)
		p.Input.Fields[0].Type = "string"
		log := memory.New(memory.Options{})
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "customers", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		if err := log.Append(t.Context(), row, quoted); err != nil {
			t.Fatal(err)
		}
		runOn(t, log, p, order(`{"id":7}`), order(`"a"`), order("7"), order("a"))
		want := `{"customer":"{\"id\":7}","who_tier":"gold"};{"customer":"\"a\"","who_tier":"free"};{"customer":"7","who_tier":null};{"customer":"a","who_tier":null}`
		if got := strings.Join(values(t, log, "out"), ";"); got != want {
			t.Errorf("%s: %s, want %s; dead letters %v", of, got, want, readPartition(t, log, stream.Partition{Topic: "orders.dlq"}))
		}
	}
}

// TestTablesWaitForTheirSchemas ends a pipeline while the registry is away: no event is computed without its row. Then it goes on.
func TestTablesWaitForTheirSchemas(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	c := newCustomers(t, server)
	away := outage(server, "")
	log := memory.New(memory.Options{})
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "customers", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), c.change("c", 1, nil, "gold")); err != nil {
		t.Fatal(err)
	}
	p := tierOf(server, envelope.Debezium)
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	appendInput(t, log, p, orderOf("1"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx, log) }()
	for runner.Schemas.Stats().Faults < 3 {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("a stop while rows wait: %v", err)
	}
	if got := values(t, log, "out"); len(got) > 0 {
		t.Errorf("while the registry was away: %q", got)
	}
	away.Store(false)
	runOn(t, log, p)
	if got := strings.Join(values(t, log, "out"), ";"); got != `{"customer":1,"who_tier":"gold"}` {
		t.Error(got)
	}
}

// TestTablesOfASchemaRegistryAreChecked refuses a table without a registry, and one that the pipeline writes itself.
func TestTablesOfASchemaRegistryAreChecked(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	for want, change := range map[string]func(p *lang.Pipeline){
		"Write schema_registry: https://HOST:PORT":            func(p *lang.Pipeline) { p.Registry.URL = "" },
		`the pipeline writes "customers" itself, and as JSON`: func(p *lang.Pipeline) { p.Steps[1].(*steps.Emit).Topic = "customers" },
	} {
		p := tierOf(server, envelope.None)
		change(&p)
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
