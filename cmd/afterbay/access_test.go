package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/stream"
)

// writeCertificate writes cert.pem and key.pem, of 127.0.0.1, and returns the
// certificate.
func writeCertificate(t *testing.T, serial int64) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return der
}

func tokenLine(name, secret, roles string) string {
	return fmt.Sprintf("  - {name: %s, sha256: %x, roles: %s}\n", name, sha256.Sum256([]byte(secret)), roles)
}

// TestRunReadsItsTokensAndCertificateAgain replaces both while a process runs, which
// commands on its machine reach all the time.
func TestRunReadsItsTokensAndCertificateAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	const first, second = "first-0123456789abcdef0123456789abcdef", "second-0123456789abcdef0123456789abcdef"
	write(t, "counts.yaml", countsPipeline)
	write(t, "tokens.yaml", "tokens:\n"+tokenLine("shop", first, "{produce: [in], metrics}"))
	writeCertificate(t, 1)
	out, end := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0", "--token-file", "tokens.yaml", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	out.wait(t, "afterbay tail mid --follow")
	_, url, _ := strings.Cut(out.String(), "listening on ")
	url, _, _ = strings.Cut(url, ": POST")
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	// ask returns the status of a request, and the number of the certificate.
	ask := func(token string) (int, int64) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/topics/in", strings.NewReader(`{"k":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		reply, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		return reply.StatusCode, reply.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if status, serial := ask(first); status != http.StatusOK || serial != 1 {
		t.Errorf("at the start: %d, certificate %d", status, serial)
	}
	if status, _ := ask(second); status != http.StatusUnauthorized {
		t.Errorf("a token that comes later: %d", status)
	}
	must(t, "", "topics")

	writeCertificate(t, 2)
	write(t, "tokens.yaml", "tokens:\n"+tokenLine("shop", second, "{produce: [in]}"))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		status, serial := ask(second)
		if status == http.StatusOK && serial == 2 {
			break
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("never: status %d, certificate %d", status, serial)
		}
	}
	if status, _ := ask(first); status != http.StatusUnauthorized {
		t.Errorf("a token that was removed: %d", status)
	}
	must(t, "", "topics")
	if r := command(t, `{"k":"a"}`, "produce", "mid"); r.code != exitFailure || !strings.Contains(r.stderr, "is written by pipeline") {
		t.Errorf("produce to a topic that a pipeline writes: %d %s", r.code, r.stderr)
	}
	if code := end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestTokenFilesThatAreWrongSayWhere(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	write(t, "short", "too short")
	digest := strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		"tokens:\n  - {name: a, sha256: abc, roles: {admin: true}}\n":                                                                     "tokens.yaml:2:23: tokens[0].sha256: ",
		"tokens:\n  - {name: a, sha256: " + digest + ", roles: {adm: true}}\n":                                                            "tokens.yaml:2:97: tokens[0].roles.adm: unknown word",
		"tokens:\n  - {name: a, secret_file: short, roles: {admin: true}}\n":                                                              "tokens.yaml:2:28: tokens[0].secret_file: short holds a token of 9 bytes: it needs 32",
		"tokens:\n  - {name: a, secret_file: none, roles: {admin: true}}\n":                                                               "tokens.yaml:2:28: tokens[0].secret_file: cannot read none: no such file",
		"tokens:\n  - {name: a, roles: {admin: true}}\n":                                                                                  "`sha256` is missing",
		"tokens:\n  - {name: a, sha256: " + digest + "}\n":                                                                                "`roles` is missing",
		"tokens:\n  - {name: a, sha256: " + digest + ", roles: {metrics}}\n  - {name: b, sha256: " + digest + ", roles: {metrics: true}}": "same token as a",
	} {
		write(t, "tokens.yaml", text)
		if r := command(t, "", "run", "counts.yaml", "--listen", "127.0.0.1:0", "--until-idle", "--token-file", "tokens.yaml"); r.code != exitInvalid || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s; want %s", text, r.code, r.stderr, want)
		}
		if r := command(t, "", "lint", "tokens.yaml"); r.code != exitInvalid || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("%s: lint: exit %d: %s%s; want %s", text, r.code, r.stdout, r.stderr, want)
		}
	}
	write(t, "tokens.yaml", "tokens:\n"+tokenLine("shop", strings.Repeat("x", 32), "{metrics}"))
	if got := must(t, "", "lint", "tokens.yaml"); !strings.Contains(got, "the token file is valid: it has 1 token\n") {
		t.Errorf("lint of a right file: %s", got)
	}
}

func TestTopicsAreDeletedByTheCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	must(t, "{}\n{}\n", "produce", "old", "--partitions", "1")
	out, end := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail mid --follow")
	for topic, want := range map[string]string{"in": `pipeline "counts" reads it`, "mid": "writes it", "none": "unknown topic"} {
		if r := command(t, "", "topics", "delete", topic); r.code != exitFailure || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s; want %s", topic, r.code, r.stderr, want)
		}
	}
	must(t, "", "topics", "delete", "old")
	if code := end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if got := must(t, "", "topics"); strings.Contains(got, "old") {
		t.Errorf("it is listed: %s", got)
	}
	must(t, "{}\n", "produce", "old", "--partitions", "1", "--producer", "again")
	if got := must(t, "", "topics"); !strings.Contains(got, "2-3") {
		t.Errorf("its offsets do not go on: %s", got)
	}
	must(t, "", "topics", "delete", "old") // without a process
	if r := command(t, "{}\n", "produce", "counts.dlq"); r.code != exitUsage || !strings.Contains(r.stderr, "belongs to the engine") {
		t.Errorf("produce to dead letters: exit %d: %s", r.code, r.stderr)
	}
}

// TestTailCannotDriveTheTerminal prints a record of others.
func TestTailCannotDriveTheTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "produce", "in", "--partitions", "1")
	log, err := process.OpenDirectory("data", nil)
	if err != nil {
		t.Fatal(err)
	}
	evil := "\x1b]0;owned\a{\"a\":\n1}\u009b2J\xff"
	if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte(evil), Value: []byte(evil)}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tail", "in"}, {"tail", "in", "--headers"}} {
		if got := must(t, "", args...); strings.ContainsAny(got, "\x1b\a\u009b") || !utf8.ValidString(got) || strings.Count(got, "\n") != 1 {
			t.Errorf("%v: %q", args, got)
		}
	}
}
