package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

// unsigned returns a bearer token of admin that brokers of tests take.
func unsigned(lasts time.Duration) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"sub":"admin","iat":%d,"exp":%d}`, time.Now().Unix()-3600, time.Now().Add(lasts).Unix())
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

// adminOf returns an administrator of the shared broker.
func adminOf(t *testing.T) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Get(t).Brokers[0].Address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// TestCertificatesAndTokensOpenBrokers connects by a client's certificate, and by
// tokens from where they may come from.
func TestCertificatesAndTokensOpenBrokers(t *testing.T) {
	cluster := broker.Get(t)
	t.Chdir(t.TempDir())
	write(t, "token", unsigned(time.Minute)+"\n")
	write(t, "stale", unsigned(-time.Minute)+"\n")
	write(t, "password", "s /\n")
	idp := kafkatest.NewIssuer(t, httptest.NewServer)
	idp.Token = func(int64) string { return unsigned(time.Minute) }
	certificate, key := cluster.ClientFiles()
	mutual := "topics --engine kafka+tls://" + cluster.Brokers[0].Mutual + "?ca=" + cluster.CertificateFile()
	tls := "topics --engine kafka+tls://" + cluster.Brokers[0].TLS + "?ca=" + cluster.CertificateFile() + "&sasl=oauthbearer"
	granted := "&scope=kafka&user=me%26you&password_file=password&token_url=" + idp.URL
	for _, c := range []struct {
		token, line string
		code        int
		want        string
	}{
		{"", mutual + "&cert=" + certificate + "&key=" + key, exitOK, "TOPIC"},
		{"", mutual, exitEngine, "bad certificate"},
		{"", tls + "&token_file=token", exitOK, "TOPIC"},
		{unsigned(time.Minute), tls, exitOK, "TOPIC"},
		{unsigned(-time.Minute), tls + "&token_file=token", exitOK, "TOPIC"},
		{"", tls + "&token_file=stale", exitEngine, "check that mechanism, user and password or token"},
		{"no token", tls, exitEngine, "SASL_AUTHENTICATION_FAILED"},
		{"", tls + granted, exitOK, "TOPIC"},
		{"", tls + strings.Replace(granted, "me%26you", "me", 1), exitEngine, "401 Unauthorized no such client: check that user"},
	} {
		t.Setenv(kafka.EnvToken, c.token)
		if r := command(t, "", strings.Fields(c.line)...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%s: exit %d: %s%s, want %d and %q", c.line, r.code, r.stdout, r.stderr, c.code, c.want)
		}
	}
}

// TestTokensAreReadAgainWhileAProcessRuns lives through brokers that ask for a
// login every three seconds: one of its tokens is a file that somebody replaces,
// the other comes from a server and is good for two seconds.
func TestTokensAreReadAgainWhileAProcessRuns(t *testing.T) {
	if apart(t) {
		return
	}
	cluster := broker.Get(t)
	t.Chdir(t.TempDir())
	write(t, "p.yaml", engineFile("renewed", "engine:\n  url: kafka://"+cluster.Brokers[0].SASL+"\n  sasl: oauthbearer\n  token_file: token\n"))
	plain := realEngine(t)
	must(t, numbered(10), "produce", "renewed-in", "--partitions", "1", "--key", "k", "--engine", plain)
	const first = 30 * time.Second // in which a busy machine starts what reads it
	expires := time.Now().Add(first)
	write(t, "token", unsigned(first))
	idp := kafkatest.NewIssuer(t, httptest.NewServer)
	idp.Lasts, idp.Token = 10, func(int64) string { return unsigned(10 * time.Second) }
	t.Setenv(kafka.EnvPassword, "s /")
	p, endRun := background(t, "run", "p.yaml", "--listen", "none", "--data", "a", "--leave-group")
	p.wait(t, "log kafka://")
	write(t, "token.new", unsigned(5*time.Minute))
	if err := os.Rename("token.new", "token"); err != nil {
		t.Fatal(err)
	}
	tail, endTail := background(t, "tail", "renewed-out", "--follow", "--engine", plain)
	tail.wait(t, `"k":"key 0"`)
	follow, endFollow := background(t, strings.Fields("tail renewed-out --follow --engine kafka://"+cluster.Brokers[0].SASL+"?sasl=oauthbearer&scope=kafka&user=me%26you&token_url="+idp.URL)...)
	follow.wait(t, `"k":"key 0"`)
	given := idp.Given.Load()
	for time.Now().Before(expires.Add(3*time.Second)) || idp.Given.Load()-given < 2 {
		must(t, numbered(10), "produce", "renewed-in", "--key", "k", "--engine", plain)
		time.Sleep(time.Second)
	}
	must(t, `{"k":"the last"}`+"\n", "produce", "renewed-in", "--key", "k", "--engine", plain)
	tail.wait(t, "the last")
	follow.wait(t, "the last")
	for name, end := range map[string]func() int{"run": endRun, "tail": endTail, "follow": endFollow} {
		if code := end(); code != exitOK {
			t.Errorf("%s: exit %d: %s%s", name, code, p, follow)
		}
	}
	if strings.Contains(p.String(), "rejoin") {
		t.Errorf("the process lost its partitions: %s", p)
	}
}

// TestBrokersSeeClientIDAndReplication asks them.
func TestBrokersSeeClientIDAndReplication(t *testing.T) {
	t.Chdir(t.TempDir())
	admin := adminOf(t)
	engine := func(words string) string {
		return "engine: {url: '" + realEngine(t) + "'" + words + "}\n"
	}
	write(t, "p.yaml", engineFile("seen", engine(", client_id: seen-1, replication_factor: 1, group_protocol: consumer")))
	write(t, "q.yaml", engineFile("thrice", engine(", replication_factor: 3")))
	if r := command(t, "", "run", "q.yaml", "--listen", "none", "--until-idle"); r.code != exitFailure || !strings.Contains(r.stderr, "set Replication to as many brokers as there are") {
		t.Errorf("three copies on one broker: exit %d: %s", r.code, r.stderr)
	}
	must(t, numbered(10), "produce", "seen-in", "--partitions", "1", "--key", "k", "--engine", "p.yaml")
	p, end := background(t, "run", "p.yaml", "--listen", "none", "--leave-group", "--parallelism", "1")
	p.wait(t, "log kafka://")
	tail, endTail := background(t, "tail", "seen-out", "--follow", "--engine", "p.yaml")
	tail.wait(t, `"k":"key 0"`)
	groups, err := admin.DescribeConsumerGroups(t.Context(), "seen")
	members := groups["seen"].Members
	if err != nil || len(members) != 1 || members[0].ClientID != "seen-1" {
		t.Errorf("the group that brokers assign is %+v, %v", groups["seen"], err)
	}
	topics, err := admin.ListTopics(t.Context(), "seen-out", "seen.changelog.seen-in")
	err = errors.Join(err, topics.Error())
	if replicas := topics["seen-out"].Partitions.NumReplicas(); err != nil || replicas != 1 || slices.Contains(topics.Names(), "thrice-in") {
		t.Errorf("%d replicas, topics %v: %v", replicas, topics.Names(), err)
	}
	if a, b := end(), endTail(); a != exitOK || b != exitOK {
		t.Errorf("exit %d, %d: %s", a, b, p)
	}
}
