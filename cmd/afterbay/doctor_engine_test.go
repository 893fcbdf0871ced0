package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/log/kafka"
)

func TestDoctorSaysWhatBrokersLack(t *testing.T) {
	t.Chdir(t.TempDir())
	const pipeline = `
pipeline: shop
input: {topic: orders, fields: {id: string}, key: id}
steps: [{emit: {topic: seen, value: [id]}}]
sinks: [{from: seen, name: post, http: {url: 'http://post'}}]
`
	if err := os.WriteFile("shop.yaml", []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := kfake.MustCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "1000"}))
	defer cluster.Close()
	engine := "kafka://" + cluster.ListenAddrs()[0]
	r := command(t, "", "doctor", "--engine", engine, "shop.yaml")
	for _, want := range []string{
		"fault    broker 0: transaction.max.timeout.ms=1000\n         the engine requests a longer transaction timeout", "\n         change: write transaction.max.timeout.ms=2000",
		"topic orders: it does not exist; a pipeline creates it", "topic seen: ", "topic shop.post.dlq: ", "topic shop.post.redrive: ", "transactional id afterbay-shop.post-*: ", "topic shop.changelog.orders: ", "transactional id afterbay-shop-*: ", "\n1 fault, ",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r.code != exitFailure || !strings.Contains(r.stderr, errUnfit.Error()) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	r = command(t, "", "doctor", "--json", "--engine", engine, "shop.yaml")
	var report struct {
		Healthy  bool
		Findings []kafka.Finding
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != exitFailure || report.Healthy || len(report.Findings) < 10 {
		t.Errorf("exit %d: %v: %s", r.code, err, r.stdout)
	}
	sound := kfake.MustCluster(kfake.NumBrokers(1))
	defer sound.Close()
	if got := must(t, "", "doctor", "--engine", "kafka://"+sound.ListenAddrs()[0]); !strings.Contains(got, "no topic of a pipeline") || !strings.Contains(got, "\n0 faults") {
		t.Error(got)
	}
	for _, args := range [][]string{{"--engine", "kafka://h"}, {"--engine", engine, "--cut"}, {}, {"a", "b"}} {
		if r := command(t, "", append([]string{"doctor"}, args...)...); r.code != exitUsage {
			t.Errorf("%q: exit %d: %s", args, r.code, r.stderr)
		}
	}
}
