package hub_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/stream"
)

// TestColdResume goes on behind the results of a client, by a hub that has read
// nothing, in a partition that has a hundred times as many of others.
func TestColdResume(t *testing.T) {
	behind, others := 1_000, 20_000
	strict := os.Getenv("AFTERBAY_PROVE") != ""
	if strict {
		behind, others = 10_000, 1_000_000
	}
	for _, c := range []struct {
		name  string
		every int // records of others, after each of the client's
	}{{"spread", others / behind}, {"before", 0}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, behind, others, c.every)
			log, err := embedded.Open(dir, embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, log, 1, hub.Options{})
			began, used := time.Now(), cpu()
			s := w.subscribe("acme/back", 0)
			got, err := s.read(patience(t), behind)
			took, used := time.Since(began), cpu()-used
			if err != nil || len(got) != behind {
				t.Fatalf("%d records, %v", len(got), err)
			}
			for i := range got {
				if r, err := wire.ParseResult(&got[i]); err != nil || r.Seq != uint64(i+1) {
					t.Fatalf("record %d: %+v, %v", i, r, err)
				}
			}
			m := w.hub.Metrics()
			fmt.Printf("gateway.cold_resume_%d_of_%d.%s %.4g s, cpu %.4g s\n", behind, others+behind, c.name, took.Seconds(), used.Seconds())
			t.Logf("%d pages, %d records scanned, %d passed", m.Pages.Load(), m.Scanned.Load(), m.Passed.Load())
			if strict && used > 2*time.Second { // a loaded machine needs twice as much
				t.Errorf("it cost %v of CPU, want 2s at most", used)
			}
			s.Close()
			w.stop()
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// fill writes the results of a client and of others, in their order in the log.
func fill(t *testing.T, dir string, behind, others, every int) {
	t.Helper()
	log, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	payload := []byte(`{"decision":"show","score":0.25,"text":"a message of a chat, as people write it to each other"}`)
	var records []stream.Record
	add := func(client string, seq int) {
		result := wire.Result{Tenant: "acme", Client: client, Seq: uint64(seq), Event: fmt.Sprint("e", seq), Status: wire.StatusOK, Payload: payload, Model: "m@1", Correlation: "c"}
		records = append(records, wire.ResultRecord(topic, &result))
		if len(records) == 2000 {
			if err := log.Append(t.Context(), records...); err != nil {
				t.Fatal(err)
			}
			records = records[:0]
		}
	}
	seq := 0
	other := func() { seq++; add(fmt.Sprint("other", seq%500), seq) }
	for i := range behind {
		add("back", i+1)
		for range every {
			other()
		}
	}
	for seq < others {
		other()
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// cpu returns what the process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
