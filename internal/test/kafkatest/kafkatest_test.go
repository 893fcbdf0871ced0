package kafkatest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var broker = Shared{Options: Options{Secure: true, Settings: append(comeBackSoon, "add.partitions.to.txn.retry.backoff.ms=1")}}

// comeBackSoon ends the session of a killed broker after 3 seconds instead of
// 9: until then it is let back in no more than another takes over from it.
var comeBackSoon = []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}

func TestMain(m *testing.M) { os.Exit(broker.Run(m)) }

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// patience is how long a broker is waited for: a busy machine takes long.
const patience = 5 * time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// created counts topics: a broker outlives the tests, which may run again.
var created atomic.Int32

// create makes a topic, and returns its name.
func create(t *testing.T, c *Cluster, name string, partitions int32, replicas int16) (topic string) {
	t.Helper()
	topic = fmt.Sprint(name, created.Add(1))
	admin := kadm.NewClient(client(t, kgo.SeedBrokers(c.Addresses()...)))
	if _, err := admin.CreateTopic(within(t, patience), partitions, replicas, nil, topic); err != nil {
		t.Fatal(err)
	}
	return topic
}

func produce(t *testing.T, c *kgo.Client, topic string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		c.Produce(t.Context(), kgo.KeyStringRecord(fmt.Sprint(i), fmt.Sprint("value ", i)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce %d: %v", i, err)
			}
		})
	}
	if err := c.Flush(within(t, patience)); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, c *Cluster, topic string, want int) {
	t.Helper()
	reader := client(t, kgo.SeedBrokers(c.Addresses()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, seen := within(t, patience), map[string]bool{}
	for len(seen) < want && !t.Failed() {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(seen), want, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			key := string(r.Key)
			if seen[key] || string(r.Value) != "value "+key {
				t.Errorf("record %q: %q, seen before: %v", key, r.Value, seen[key])
			}
			seen[key] = true
		})
	}
}

func TestRecordsOutliveKilledBroker(t *testing.T) {
	begin := time.Now()
	lap := func(what string) {
		t.Logf("%-32s %5.2f s", what, time.Since(begin).Seconds())
		begin = time.Now()
	}
	c := broker.Get(t)
	lap("format and start, secure")
	topic := create(t, c, "kept", 4, 1)
	lap("create a topic of 4 partitions")
	writer := client(t, kgo.SeedBrokers(c.Addresses()...), kgo.DefaultProduceTopic(topic))
	produce(t, writer, topic, 0, 10_000)
	lap("produce 10,000 records")
	if err := c.Brokers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := client(t, kgo.SeedBrokers(c.Addresses()...)).Ping(within(t, time.Second)); err == nil {
		t.Error("a killed broker answers")
	}
	lap("kill")
	if err := c.Brokers[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	lap("start again after SIGKILL")
	produce(t, writer, topic, 10_000, 10_010)
	consume(t, c, topic, 10_010)
	lap("produce 10, consume 10,010")
	if err := c.Brokers[0].Stop(); err != nil {
		t.Error(err)
	}
	lap("stop by SIGTERM")
	if err := c.Brokers[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	lap("start again after SIGTERM")
	consume(t, c, topic, 10_010)
	if err := c.Brokers[0].Start(t.Context()); err == nil {
		t.Error("a running broker was started again")
	}
}

func TestPausedBrokerAnswersWhenResumed(t *testing.T) {
	c := broker.Get(t)
	topic := create(t, c, "paused", 1, 1)
	writer := client(t, kgo.SeedBrokers(c.Addresses()...), kgo.DefaultProduceTopic(topic))
	produce(t, writer, topic, 0, 1)
	if err := c.Brokers[0].Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	writer.Produce(t.Context(), kgo.KeyStringRecord("1", "value 1"), func(_ *kgo.Record, err error) { answered <- err })
	select {
	case err := <-answered:
		t.Errorf("a paused broker answered: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if err := c.Brokers[0].Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	consume(t, c, topic, 2)
}

func TestSettingsReachTheBroker(t *testing.T) {
	c := broker.Get(t)
	admin := kadm.NewClient(client(t, kgo.SeedBrokers(c.Addresses()...)))
	configs, err := admin.DescribeBrokerConfigs(within(t, patience), 1)
	if err != nil {
		t.Fatal(err)
	}
	got := "nothing"
	for _, config := range configs[0].Configs {
		if config.Key == "add.partitions.to.txn.retry.backoff.ms" {
			got = config.MaybeValue()
		}
	}
	if got != "1" {
		t.Errorf("add.partitions.to.txn.retry.backoff.ms is %s, want 1", got)
	}
}

func TestSecureListenersCheckWhoAsksForWhat(t *testing.T) {
	c := broker.Get(t)
	topic := create(t, c, "secret", 1, 1)
	pem, err := os.ReadFile(c.CertificateFile())
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	token := func(user string) string {
		encode := base64.RawURLEncoding.EncodeToString
		claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, time.Now().Unix()-1, time.Now().Unix()+600)
		return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
	}
	plainly := func(user, password string) sasl.Mechanism {
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}
	admin := kadm.NewClient(client(t, kgo.SeedBrokers(c.Addresses()...)))
	for _, test := range []struct {
		name      string
		mechanism sasl.Mechanism
		want      error
	}{
		{"PLAIN", plainly("admin", "admin-secret"), nil},
		{"SCRAM-SHA-256", scram.Auth{User: "admin", Pass: "admin-secret"}.AsSha256Mechanism(), nil},
		{"SCRAM-SHA-512", scram.Auth{User: "admin", Pass: "admin-secret"}.AsSha512Mechanism(), nil},
		{"OAUTHBEARER", oauth.Auth{Token: token("admin")}.AsMechanism(), nil},
		{"wrong password", plainly("admin", "x"), kerr.SaslAuthenticationFailed},
		{"wrong SCRAM password", scram.Auth{User: "admin", Pass: "x"}.AsSha512Mechanism(), kerr.SaslAuthenticationFailed},
		{"no ACL", plainly("worker", "worker-secret"), kerr.TopicAuthorizationFailed},
		{"no ACL for the token", oauth.Auth{Token: token("worker")}.AsMechanism(), kerr.TopicAuthorizationFailed},
	} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/TLS=%v", test.name, encrypted), func(t *testing.T) {
				options := []kgo.Opt{kgo.SASL(test.mechanism), kgo.SeedBrokers(c.Brokers[0].SASL)}
				if encrypted {
					options = append(options, kgo.SeedBrokers(c.Brokers[0].TLS), kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
				}
				c := client(t, options...)
				err := c.Ping(within(t, patience)) // to produce would try a wrong password again and again
				if err == nil {
					err = c.ProduceSync(within(t, patience), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
				}
				if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			})
		}
	}
	t.Run("ACL", func(t *testing.T) {
		acls := kadm.NewACLs().Allow("User:worker").AllowHosts().Topics(topic).Operations(kadm.OpWrite, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral)
		if _, err := admin.CreateACLs(within(t, patience), acls); err != nil {
			t.Fatal(err)
		}
		c := client(t, kgo.SASL(plainly("worker", "worker-secret")), kgo.SeedBrokers(c.Brokers[0].SASL))
		if err := c.ProduceSync(within(t, patience), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Error(err)
		}
	})
	t.Run("unknown certificate", func(t *testing.T) {
		c := client(t, kgo.SeedBrokers(c.Brokers[0].TLS), kgo.DialTLSConfig(&tls.Config{}), kgo.SASL(plainly("admin", "admin-secret")))
		var unknown x509.UnknownAuthorityError
		if err := c.Ping(within(t, patience)); !errors.As(err, &unknown) {
			t.Errorf("got %v, want an unknown authority", err)
		}
	})
}

func TestThreeBrokersServeWithoutOne(t *testing.T) {
	begin := time.Now()
	c := Start(t, Options{Brokers: 3, Settings: comeBackSoon})
	t.Logf("start three brokers: %.1f s", time.Since(begin).Seconds())
	topic := create(t, c, "replicated", 3, 3)
	writer := client(t, kgo.SeedBrokers(c.Addresses()...), kgo.DefaultProduceTopic(topic))
	produce(t, writer, topic, 0, 1000)
	if err := c.Brokers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	produce(t, writer, topic, 1000, 2000)
	consume(t, c, topic, 2000)
	t.Logf("produce and consume without one of them: %.1f s", time.Since(begin).Seconds())
	begin = time.Now()
	if err := c.Brokers[1].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("start it again: %.1f s", time.Since(begin).Seconds())
}

func TestBrokerThatCannotStartShowsItsLog(t *testing.T) {
	Need(t)
	_, err := start(t.Context(), Options{Settings: []string{"process.roles=nothing"}})
	if err == nil || !strings.Contains(err.Error(), "process.roles") {
		t.Errorf("got %v, want what the broker says about process.roles", err)
	}
}

// ending is a test that notes how it ended.
type ending struct {
	testing.TB
	said string
}

func (e *ending) Helper()           {}
func (e *ending) Fatal(args ...any) { e.said += "failed: " + fmt.Sprint(args...) }
func (e *ending) Skip(args ...any)  { e.said += "skipped: " + fmt.Sprint(args...) }

func TestMissingKafkaFailsFullTestsAndSkipsQuickOnes(t *testing.T) {
	t.Setenv("AFTERBAY_KAFKA", t.TempDir())
	for full, want := range map[string]string{"1": "failed: AFTERBAY_FULL=1 but ", "": "skipped: NOT RUN: "} {
		t.Setenv("AFTERBAY_FULL", full)
		e := &ending{TB: t}
		Need(e)
		if !strings.HasPrefix(e.said, want) {
			t.Errorf("AFTERBAY_FULL=%q: %s, want %s", full, e.said, want)
		}
	}
}
