package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// registered reads payments by the schemas of a registry.
func registered(server *srfake.Registry) lang.Pipeline {
	p := payments()
	p.Input.Format.Name, p.Registry.URL = lang.FormatRegistry, server.URL()
	return p
}

// framed returns a record that begins with the id of its schema.
func framed(t *testing.T, server *srfake.Registry, of stream.Record, kind sr.SchemaType, schema string, value []byte) stream.Record {
	t.Helper()
	id, _, err := server.RegisterSchema("in-value", sr.Schema{Schema: schema, Type: kind})
	if err != nil {
		t.Fatal(err)
	}
	of.Value = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), value...)
	return of
}

// framedPayments returns the same payments without and with a registry, each third of them in another format.
func framedPayments(t *testing.T, server *srfake.Registry) (plain, framedOnes []stream.Record) {
	t.Helper()
	for second, card := range []string{"a", "b", "a", "a", "b", "c"} {
		event := payment(card, 40.5, second)
		plain = append(plain, event)
		switch second % 3 {
		case 0:
			framedOnes = append(framedOnes, framed(t, server, event, sr.TypeAvro, paymentSchema, avroPayment(t, card, 40.5, second)))
		case 1:
			schema := strings.Replace(strings.Replace(paymentProto, `import "parts/device.proto";`, "message Device { string os = 1; }", 1), "package shop;", "", 1)
			framedOnes = append(framedOnes, framed(t, server, event, sr.TypeProtobuf, schema, append([]byte{2, 2}, protobufPayment(card, 40.5, second)...)))
		default:
			framedOnes = append(framedOnes, framed(t, server, event, sr.TypeJSON, `{"type":"object"}`, event.Value))
		}
	}
	return plain, framedOnes
}

// TestEventsOfARegistryAreLikeThoseOfJSON compares the outputs of the same events, of a topic that is read as it is, and of
// one that is copied.
func TestEventsOfARegistryAreLikeThoseOfJSON(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	for _, copied := range []int32{0, 2} {
		plain, framed := payments(), registered(server)
		plain.Input.Repartition, framed.Input.Repartition = copied, copied
		events, records := framedPayments(t, server)
		unknown, none := records[0], events[0]
		unknown.Value = []byte{0, 0, 0, 1, 0}
		want, got := run(t, plain, events...), run(t, framed, append(records, unknown, none)...)
		for _, topic := range []string{"out", "alerts"} {
			want, got := values(t, want, topic), values(t, got, topic)
			if len(want) == 0 || !slices.Equal(want, got) {
				t.Errorf("repartition %d, %s: got %q, want %q", copied, topic, got, want)
			}
		}
		dead := stages(t, got, "payments.dlq")
		if len(dead) != 2 || dead[0] != "decode: byte 1: schema id 256: the registry does not know it" || !strings.HasPrefix(dead[1], "decode: byte 0: the record does not begin with the id of a schema") {
			t.Errorf("repartition %d: dead letters %q", copied, dead)
		}
	}
}

// outage has a registry be away, but for one path, until what it returns is set to false.
func outage(server *srfake.Registry, spared string) *atomic.Bool {
	away := &atomic.Bool{}
	away.Store(true)
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		down := away.Load() && request.URL.Path != spared
		if down {
			http.Error(w, "the leader is elected", http.StatusServiceUnavailable)
		}
		return down
	})
	return away
}

// TestRegistryIsWaitedFor runs while the registry is away for all schemas but the first, and ends and begins again meanwhile. No
// event becomes a dead letter, time does not pass for partitions that wait, and the outputs are those of a registry that always answers.
func TestRegistryIsWaitedFor(t *testing.T) {
	for _, copied := range []int32{0, 2} {
		server := srfake.New()
		p := registered(server)
		p.Input.Repartition, p.Input.Time.Idle, p.Input.Time.Lateness = copied, 100*time.Millisecond, 0
		events, records := framedPayments(t, server)
		want := run(t, p, records...)
		away := outage(server, "/schemas/ids/1") // which the first event has
		log := memory.New(memory.Options{})
		for range 2 {
			runner, err := builtin.New(p, pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			appendInput(t, log, p, records...)
			records = nil
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- runner.Run(ctx, log) }()
			for begun := time.Now(); runner.Schemas.Stats().Faults < 3 || time.Since(begun) < 1500*time.Millisecond; {
				time.Sleep(10 * time.Millisecond)
			}
			if s := runner.Snapshot(); s.Counts.Events > 1 || s.Counts.DeadLetters != 0 || s.Schemas.Waiting != 1 || !strings.HasPrefix(s.Schemas.Away, "schema id 2: 503 Service Unavailable: the leader is elected") {
				t.Errorf("repartition %d: %d events, %d dead letters, %+v", copied, s.Counts.Events, s.Counts.DeadLetters, s.Schemas)
			}
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			runner.Close()
		}
		away.Store(false)
		runOn(t, log, p)
		for _, topic := range []string{"out", "alerts"} {
			if got, want := values(t, log, topic), values(t, want, topic); len(got) == 0 || !slices.Equal(got, want) {
				t.Errorf("repartition %d, %s: got %q, want %q of %d events", copied, topic, got, want, len(events))
			}
		}
		if dead := stages(t, log, "payments.dlq"); len(dead) > 0 {
			t.Errorf("repartition %d: dead letters %q", copied, dead)
		}
		server.Close()
	}
}

func TestRegistryHasToBeNamed(t *testing.T) {
	for url, want := range map[string]string{"": "schema_registry: missing: a format reads or writes by a registry", "schemas:8081": `schema_registry: "schemas:8081" is not a valid URL`} {
		p := payments()
		p.Input.Format.Name, p.Registry.URL = lang.FormatRegistry, url
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
