package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/stream"
)

const copiesPipeline = `pipeline: fraud
input:
  topic: payments
  partitions: 2
  key: customer
  fields: {tx: string, customer: string}
steps:
  - emit: {topic: decisions, value: [tx, customer]}
sinks:
`

// TestAnotherClusterGetsWhatPipelinesWroteOnce has two sinks to a cluster, and a
// process that has nothing to do.
func TestAnotherClusterGetsWhatPipelinesWroteOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "copies", "once"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	address := strings.Join(cluster.ListenAddrs(), ",")
	write(t, "fraud.yaml", copiesPipeline+`  - {from: decisions, name: copies, kafka: {cluster: 'kafka://`+address+`', topic: copies}}
  - {from: decisions, name: once, kafka: {cluster: {url: 'kafka://`+address+`'}, topic: once, exactly_once: true}}
`)
	must(t, lakeEvents(0, 500), "produce", "payments", "--partitions", "2", "--key", "customer")
	must(t, "", "lint", "--connect", "fraud.yaml")
	out := must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	for _, want := range []string{
		"sink copies: decisions to kafka://" + address + " topic copies", "sink fraud.copies: 500 delivered, 0 repeated, 0 dead letters, 0 failed calls", "sink fraud.once: 500 delivered",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, topic := range []string{"copies", "once"} {
		seen := map[string]int{}
		for i := range int32(3) {
			p := stream.Partition{Topic: topic, Index: i}
			for from := stream.Offset(0); ; {
				r, found, err := log.Peek(t.Context(), p, from)
				if err != nil {
					t.Fatal(err)
				}
				if !found {
					break
				}
				if from = r.Offset + 1; !strings.Contains(string(r.Value), fmt.Sprintf(`"customer":%q`, r.Key)) {
					t.Errorf("the key of %s is %s", r.Value, r.Key)
				}
				seen[header.Get(&r, header.ID)]++
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s: %s is there %d times", topic, id, n)
			}
		}
		if len(seen) != 500 {
			t.Errorf("%s has %d ids", topic, len(seen))
		}
	}
}

func TestClustersThatCannotBeAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(kafka.EnvPassword, "of the engine")
	write(t, "fraud.yaml", copiesPipeline+`  - {from: decisions, name: a, kafka: {cluster: 'http://other', topic: copies}}
  - {from: decisions, name: b, kafka: {cluster: 'kafka://other:9092', topic: 'co pies'}, max: 2000}
`)
	write(t, "other.yaml", strings.Replace(copiesPipeline, "fraud", "other", 1)+`  - {from: decisions, name: c, kafka: {cluster: {url: 'kafka+tls://other:9092', sasl: plain, user: me}, topic: copies}}
  - {from: decisions, name: d, kafka: {cluster: {url: 'kafka://other:9092', ca: ca.pem}, topic: copies}}
  - {from: decisions, name: e, kafka: {cluster: 'kafka://other', topic: copies}}
`)
	r := command(t, "", "lint", "fraud.yaml", "other.yaml")
	for _, want := range []string{
		`sinks[0].kafka.cluster: "http://other" is not a valid URL`, `sinks[1].kafka.topic: "co pies" is not the name of a topic`, "sinks[1].max: it has no effect for this kind of sink",
		"sinks[0].kafka.cluster.sasl: plain without a secret of this cluster", "sinks[1].kafka.cluster.ca: certificates need an encrypted connection",
		`sinks[2].kafka.cluster.url: broker "other" is not HOST:PORT`,
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in\n%s", want, r.stderr)
		}
	}
}

func TestConnectAsksWhereSinksWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	dir := t.TempDir()
	write(t, "file", "")
	here, err := filepath.Abs("file")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	write(t, "fraud.yaml", copiesPipeline+`  - {from: decisions, name: a, kafka: {cluster: 'kafka://`+cluster.ListenAddrs()[0]+`', topic: copies}}
  - {from: decisions, name: b, files: {url: 'file://`+dir+`/lake'}}
  - {from: decisions, name: c, files: {url: 'file://`+here+`'}}
  - {from: decisions, name: d, files: {url: 's3://lake/x'}}
`)
	r := command(t, "", "lint", "--connect", "fraud.yaml")
	for _, want := range []string{`sinks[0]: the cluster of the sink has no topic "copies"`, "sinks[2]: " + here + " is not a folder", "sinks[3]: ", "127.0.0.1:1", "3 findings"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in\n%s", want, r.stderr)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}
