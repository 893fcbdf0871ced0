package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

// open returns a client whose credentials are those of a file, and the file.
func open(t *testing.T, server *servertest.S3Server) (*s3.Client, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = no\naws_secret_access_key = no\n\n[mine]\naws_access_key_id = %s\naws_secret_access_key=%s\n", server.AccessKey, server.SecretKey)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := s3.New(s3.Options{Endpoint: server.URL, Region: server.Region, Credentials: file, Profile: "mine", Client: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	return c, file
}

func status(t *testing.T, response *http.Response, err error) int {
	t.Helper()
	if response != nil {
		response.Body.Close()
		return response.StatusCode
	}
	var refused *s3.Error
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	return refused.Status
}

func TestObjectsAreWrittenOnceAndReadByTheirNames(t *testing.T) {
	c, _ := open(t, servertest.S3(t))
	do := func(method, key string, headers http.Header, body []byte) (*http.Response, error) {
		return c.Do(t.Context(), method, "calls", key, headers, body)
	}
	response, err := do(http.MethodPut, "", nil, nil)
	if n := status(t, response, err); n != 200 {
		t.Fatal(n)
	}
	once := http.Header{"If-None-Match": {"*"}}
	for _, key := range []string{"plain", "2026/11/a b", "x//y"} {
		body := []byte("content of " + key)
		response, err := do(http.MethodPut, key, once, body)
		if n := status(t, response, err); n != 200 {
			t.Fatalf("%q: %d", key, n)
		}
		response, err = do(http.MethodPut, key, once, []byte("other"))
		if n := status(t, response, err); n != http.StatusPreconditionFailed {
			t.Errorf("%q is written twice: %d", key, n)
		}
		if response, err = do(http.MethodGet, key, nil, nil); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%q: %q %v", key, got, err)
		}
	}
	_, err = do(http.MethodGet, "none", nil, nil)
	var refused *s3.Error
	if !errors.As(err, &refused) || refused.Status != 404 || refused.Code != "NoSuchKey" || refused.OfAccount() {
		t.Error(err)
	}
}

func TestWrongCredentialsAreNotTheObjectsFault(t *testing.T) {
	server := servertest.S3(t)
	server.SecretKey = "of somebody else"
	c, _ := open(t, server)
	_, err := c.Do(t.Context(), http.MethodGet, "calls", "key", nil, nil)
	var refused *s3.Error
	if !errors.As(err, &refused) || refused.Status != 403 || !refused.OfAccount() {
		t.Error(err)
	}
}

func TestWhereBucketsAre(t *testing.T) {
	without(t)
	t.Setenv("AWS_DEFAULT_REGION", "eu-west-1")
	for _, c := range []struct{ endpoint, bucket, want string }{
		{"", "calls", "https://calls.s3.eu-west-1.amazonaws.com/a%20b"},
		{"", "my.calls", "https://s3.eu-west-1.amazonaws.com/my.calls/a%20b"},
		{"http://store:9000/", "calls", "http://store:9000/calls/a%20b"},
		{"https://store/s3", "calls", "https://store/s3/calls/a%20b"},
	} {
		client, err := s3.New(s3.Options{Endpoint: c.endpoint})
		if err != nil {
			t.Fatal(err)
		}
		if got := client.Where(c.bucket, "a b"); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	client, err := s3.New(s3.Options{Endpoint: "http://store"})
	if err != nil {
		t.Fatal(err)
	}
	// As other clients write them.
	for key, want := range map[string]string{"a b/c+d": "a%20b/c%2Bd", "ä=ö&?#%": "%C3%A4%3D%C3%B6%26%3F%23%25", "tilde~(1)'!*": "tilde~%281%29%27%21%2A"} {
		if got := client.Where("calls", key); got != "http://store/calls/"+want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, endpoint := range []string{"store:9000", "ftp://a", "http://u:p@a", "http://a?b"} {
		if _, err := s3.New(s3.Options{Endpoint: endpoint}); err == nil {
			t.Errorf("%q is taken", endpoint)
		}
	}
}

func TestKeysThatLeadElsewhereAreNotSent(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	c, err := s3.New(s3.Options{Endpoint: server.URL, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"..", "a/../b", "../other/key", "a/..", "./a", "a/./b"} {
		if _, err := c.Do(t.Context(), http.MethodGet, "calls", key, nil, nil); err == nil || !strings.Contains(err.Error(), "may lead to another object") {
			t.Errorf("%q: %v", key, err)
		}
	}
	if asked {
		t.Error("the server was asked")
	}
	for _, key := range []string{"a..b", "...", "a/.hidden", "x//y"} {
		if err := s3.CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}
