package scaffold_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/ops/scaffold"
	"github.com/afterbay/afterbay/stream"
)

// sample yields records of partitions.
func sample(partitions ...[]stream.Record) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for index, records := range partitions {
			for i, r := range records {
				r.Partition, r.Offset = stream.Partition{Topic: "shop", Index: int32(index)}, stream.Offset(i)
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func inferTopic(t *testing.T, topic scaffold.Topic) *scaffold.Findings {
	t.Helper()
	topic.Name, topic.Partitions = "shop", 2
	found, err := scaffold.InferTopic(t.Context(), topic, scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := valid(found.Pipeline()); err != nil {
		t.Errorf("%v\n%s", err, found.Pipeline())
	}
	return found
}

// TestDisorderIsThatInsideAPartition has a partition whose events are older than those before it.
func TestDisorderIsThatInsideAPartition(t *testing.T) {
	var partitions [2][]stream.Record
	for i := range 60 {
		at := 1_767_261_600_000 + (i/2)*1000 + (1-i%2)*3_600_000 // the first partition is an hour ahead
		if i == 40 {
			at -= 2000
		}
		user := fmt.Sprintf("u%d", i%2+2*(i%3))
		partitions[i%2] = append(partitions[i%2], stream.Record{Key: []byte(user), Value: fmt.Appendf(nil, `{"user":%q,"ts":%d}`, user, at)})
	}
	found := inferTopic(t, scaffold.Topic{Records: sample(partitions[:]...)})
	if found.Time == nil || found.Time.Disorder != time.Second || found.Key.Name != "user" || !found.Keyed {
		t.Errorf("%+v, key %s, keyed %v", found.Time, found.Key.Name, found.Keyed)
	}
}

// TestTheKeyOfTheRecordsIsPreferred has a field with a likelier name that is not their key.
func TestTheKeyOfTheRecordsIsPreferred(t *testing.T) {
	records := func(key func(i int) string) []stream.Record {
		var list []stream.Record
		for i := range 60 {
			list = append(list, stream.Record{Key: []byte(key(i)), Value: fmt.Appendf(nil, `{"user":"u%d","basket":%d,"order":"o%d"}`, i%5, i%7, i)})
		}
		return list
	}
	for _, c := range []struct {
		key    func(i int) string
		want   string
		source string // line of the pipeline
	}{
		{func(i int) string { return fmt.Sprint(i % 7) }, "basket", ""},
		{func(i int) string { return fmt.Sprintf("o%d", i) }, "user", "  repartition: 2 "}, // it tells events apart
		{func(int) string { return "" }, "user", "  repartition: 2 "},
		{func(i int) string { return fmt.Sprintf("u%d", i%5) }, "user", ""},
	} {
		found := inferTopic(t, scaffold.Topic{Records: sample(records(c.key))})
		text := string(found.Pipeline())
		if found.Key.Name != c.want || found.Keyed != (c.source == "") || strings.Contains(text, "repartition") != (c.source != "") || !strings.Contains(text, c.source) {
			t.Errorf("key %s, keyed %v, want %s\n%s", found.Key.Name, found.Keyed, c.want, text)
		}
	}
}

// text writes a string of Avro.
func text(dst []byte, s string) []byte {
	return append(binary.AppendVarint(dst, int64(len(s))), s...)
}

const changeSchema = `{"type":"record","name":"Envelope","fields":[{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"tier","type":["null","string"]},{"name":"spent","type":"double"}]}]},
	{"name":"after","type":["null","Value"]},{"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"ts_ms","type":"long"}]}},{"name":"op","type":"string"}]}`

// TestChangeEventsOfARegistryAreRecognised has inserts, deletions and tombstones of Debezium in Avro.
func TestChangeEventsOfARegistryAreRecognised(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	id, _, err := server.RegisterSchema("shop-value", sr.Schema{Schema: changeSchema})
	if err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	for i := range 60 {
		row := binary.AppendVarint(nil, int64(i%9))
		row = append(text(append(row, 2), "gold"), 0, 0, 0, 0, 0, 0, 0x34, 0x40) // 20
		value := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
		op := "u"
		if i%10 == 9 {
			op, value = "d", append(append(append(value, 2), row...), 0)
		} else {
			value = append(append(value, 0, 2), row...)
		}
		value = text(binary.AppendVarint(value, int64(1_767_261_600_000+i*1000)), op)
		if records = append(records, stream.Record{Value: value}); op == "d" {
			records = append(records, stream.Record{})
		}
	}
	found := inferTopic(t, scaffold.Topic{Records: sample(records), Registry: &scaffold.Registry{URL: server.URL()}})
	if found.Envelope != envelope.Debezium || found.Malformed != 0 || found.Events != 60 {
		t.Errorf("envelope %v, %d malformed: %s, %d events", found.Envelope, found.Malformed, found.Problem, found.Events)
	}
	declares(t, found, "schema_registry: "+server.URL(), "  envelope: debezium ", "  format: schema_registry ", "  key: id ", "    id: int ", "    tier: optional string ", "    spent: number ", "    op: {from: envelope, type: string}")
}

// TestBadRecordsOfATopicAreCounted has a record without an id, and a fault of the topic.
func TestBadRecordsOfATopicAreCounted(t *testing.T) {
	records := []stream.Record{{Value: []byte(`{"user":"a","n":1}`)}, {Value: []byte(`{"user":"b","n":1}`)}, {Value: []byte(`{"user":"a","n":2}`)}, {Value: []byte("\x00\x00")}}
	found := inferTopic(t, scaffold.Topic{Records: sample(records)})
	if found.Malformed != 1 || !strings.HasPrefix(found.Problem, "shop/0@3: ") || found.Read != 4 {
		t.Errorf("%d of %d: %s", found.Malformed, found.Read, found.Problem)
	}
	fault := errors.New("fault")
	_, err := scaffold.InferTopic(t.Context(), scaffold.Topic{Name: "shop", Records: func(yield func(stream.Record, error) bool) { yield(stream.Record{}, fault) }}, scaffold.Options{})
	if !errors.Is(err, fault) {
		t.Error(err)
	}
}
