package serving_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/http/serving"
)

// certificate writes a certificate of 127.0.0.1 and its key, and returns the files
// and who trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
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
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	certFile, keyFile, pool = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem"), x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for path, content := range map[string][]byte{certFile: text, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, pool
}

func TestTLSOfBothVersionsOfHTTP(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	url := start(t, models(), serving.ServerOptions{CertFile: certFile, KeyFile: keyFile})
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	for version, protocols := range map[int]*http.Protocols{1: {}, 2: {}} {
		protocols.SetHTTP1(version == 1)
		protocols.SetHTTP2(version == 2)
		transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: pool}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+streamPath, strings.NewReader("[1,2,3,4]\n"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", ndjson)
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if n := countLines(t, response.Body); n != 2 || response.ProtoMajor != version {
			t.Errorf("%d lines by %s", n, response.Proto)
		}
		transport.CloseIdleConnections()
	}
}
