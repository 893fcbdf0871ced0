package servertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// S3Server is a server of S3 objects that checks signatures, on paths as
// http://host/bucket/key. What it holds, and its credentials, are gone with its
// process: pause it where it is to be away.
type S3Server struct {
	*Server
	AccessKey, SecretKey string // of somebody who may do everything
	Region               string
}

// S3 starts a server without buckets that ends with the test. AFTERBAY_S3 is a
// python that has moto with its server: without it the test is skipped.
func S3(t testing.TB) *S3Server {
	t.Helper()
	program := Named(t, "AFTERBAY_S3", "no python with moto")
	port := freePort(t)
	s := &S3Server{Region: "us-east-1", Server: &Server{
		URL: "http://127.0.0.1:" + port, program: program,
		arguments: []string{"-m", "moto.server", "-H", "127.0.0.1", "-p", port},
		// The user is made before signatures are checked.
		environment: []string{"INITIAL_NO_AUTH_ACTION_COUNT=3"},
	}}
	s.ready = func(ctx context.Context) error {
		_, err := ask(ctx, http.MethodGet, s.URL+"/moto-api/", nil)
		return err
	}
	s.run(t)
	const policy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}`
	s.manage(t, url.Values{"Action": {"CreateUser"}})
	made := s.manage(t, url.Values{"Action": {"CreateAccessKey"}})
	s.manage(t, url.Values{"Action": {"PutUserPolicy"}, "PolicyName": {"all"}, "PolicyDocument": {policy}})
	key := regexp.MustCompile(`(?s)<AccessKeyId>(.*)</AccessKeyId>.*<SecretAccessKey>(.*)</SecretAccessKey>`).FindStringSubmatch(made)
	if key == nil {
		t.Fatalf("no access key: %s", made)
	}
	s.AccessKey, s.SecretKey = key[1], key[2]
	return s
}

func (s *S3Server) manage(t testing.TB, form url.Values) string {
	t.Helper()
	form.Set("Version", "2010-05-08")
	form.Set("UserName", "tester")
	said, err := ask(t.Context(), http.MethodPost, s.URL, form)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func ask(ctx context.Context, method, to string, form url.Values) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=x")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", response.Status, said)
	}
	return string(said), err
}
