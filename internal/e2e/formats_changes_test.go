package e2e_test

import (
	"encoding/binary"
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
