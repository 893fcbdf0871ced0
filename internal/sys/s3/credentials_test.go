package s3_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/sys/s3"
)

// without clears the variables of Amazon's tools, and turns off the role of the machine.
func without(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// signer is a client of a server that accepts everything.
type signer struct {
	*s3.Client
	mu    sync.Mutex // guards the rest
	by    string     // access key of the last request
	token string     // its session token
	sent  int
}

var keyOf = regexp.MustCompile(`Credential=([^/]*)/`)

func newSigner(t *testing.T, o s3.Options) *signer {
	t.Helper()
	s := &signer{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent++
		s.token = r.Header.Get("X-Amz-Security-Token")
		if found := keyOf.FindStringSubmatch(r.Header.Get("Authorization")); found != nil {
			s.by = found[1]
		}
	}))
	t.Cleanup(server.Close)
	o.Endpoint, o.Client = server.URL, server.Client()
	var err error
	if s.Client, err = s3.New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

// expect sends a request, which must be signed by a key.
func (s *signer) expect(t *testing.T, key, token string) {
	t.Helper()
	response, err := s.Do(t.Context(), http.MethodGet, "calls", "key", nil, nil)
	if err != nil {
		t.Errorf("want key %s: %v", key, err)
		return
	}
	response.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by != key || s.token != token {
		t.Errorf("signed by %q with token %q, want %q and %q", s.by, s.token, key, token)
	}
}

// issuer gives credentials of a role: key1 at the first request for them, then key2.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex // guards the rest
	given   int
	lasting time.Duration
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{lasting: time.Hour}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	expires := time.Now().Add(i.lasting).UTC().Format(time.RFC3339)
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		_, _ = io.WriteString(w, "of the machine")
	case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
		_, _ = io.WriteString(w, "role")
	case r.Header.Get("Authorization") == "of the pod", r.Header.Get("X-Aws-Ec2-Metadata-Token") == "of the machine":
		i.given++
		_ = json.NewEncoder(w).Encode(map[string]string{
			"Code": "Success", "AccessKeyId": fmt.Sprint("key", i.given), "SecretAccessKey": "secret", "Token": "session", "Expiration": expires,
		})
	case r.FormValue("Action") == "AssumeRoleWithWebIdentity" && r.FormValue("WebIdentityToken") == "of the account" && r.FormValue("RoleArn") == "arn:aws:iam::1:role/reader":
		i.given++
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>key%d</AccessKeyId>
			<SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken><Expiration>%s</Expiration></Credentials>
			</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, i.given, expires)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}

func (i *issuer) last(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lasting = d
}

func TestCredentialsOfRolesAreKeptAndRenewed(t *testing.T) {
	for name, variables := range map[string]func(server, folder string) map[string]string{
		"web identity": func(server, folder string) map[string]string {
			return map[string]string{
				"AWS_ENDPOINT_URL_STS": server, "AWS_ROLE_ARN": "arn:aws:iam::1:role/reader",
				"AWS_WEB_IDENTITY_TOKEN_FILE": write(t, filepath.Join(folder, "token"), "of the account"),
			}
		},
		"container": func(server, folder string) map[string]string {
			return map[string]string{
				"AWS_CONTAINER_CREDENTIALS_FULL_URI":     server + "/v1/credentials",
				"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write(t, filepath.Join(folder, "token"), "of the pod"),
			}
		},
		"machine": func(server, _ string) map[string]string {
			return map[string]string{"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server}
		},
	} {
		t.Run(name, func(t *testing.T) {
			without(t)
			i := newIssuer(t)
			for variable, value := range variables(i.URL, t.TempDir()) {
				t.Setenv(variable, value)
			}
			now := time.Now()
			s := newSigner(t, s3.Options{Now: func() time.Time { return now }})
			for range 3 {
				s.expect(t, "key1", "session")
				now = now.Add(11 * time.Second)
			}
			i.last(30 * time.Second) // less than what renews them
			s = newSigner(t, s3.Options{})
			s.expect(t, "key2", "session")
			if name != "machine" { // credentials of a machine are used beyond their end while its server has no other ones
				s.expect(t, "key3", "session")
			}
		})
	}
}

func TestCredentialsOfAFileAreReadAgain(t *testing.T) {
	without(t)
	const keys = "[mine]\naws_access_key_id = %s\naws_secret_access_key = secret\naws_session_token = %[1]s-token\n"
	file := write(t, filepath.Join(t.TempDir(), "credentials"), fmt.Sprintf(keys, "first"))
	for name, o := range map[string]s3.Options{"of the options": {Credentials: file, Profile: "mine"}, "of the variables": {Profile: "mine"}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
			t.Setenv("AWS_ACCESS_KEY_ID", "another") // the profile of the options counts
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			write(t, file, fmt.Sprintf(keys, "first"))
			now := time.Now()
			o.Now = func() time.Time { return now }
			s := newSigner(t, o)
			s.expect(t, "first", "first-token")
			write(t, file, fmt.Sprintf(keys, "second"))
			now = now.Add(9 * time.Second)
			s.expect(t, "first", "first-token")
			now = now.Add(time.Second)
			s.expect(t, "second", "second-token")
		})
	}
}

func TestCredentialsOfVariables(t *testing.T) {
	without(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "mine")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := newSigner(t, s3.Options{})
	s.expect(t, "mine", "")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	newSigner(t, s3.Options{}).expect(t, "mine", "session")
}

func TestCredentialsThatAreMissingSayWhatToDo(t *testing.T) {
	without(t)
	dir := t.TempDir()
	other := write(t, filepath.Join(dir, "other"), "[other]\naws_access_key_id=a\naws_secret_access_key=b\n")
	half := write(t, filepath.Join(dir, "half"), "[default]\naws_access_key_id=a\n")
	bare := write(t, filepath.Join(dir, "bare"), "[default]\nregion=us-east-1\n")
	const want = "no aws_access_key_id and aws_secret_access_key in [default]"
	for file, want := range map[string]string{filepath.Join(dir, "none"): "set AWS_ACCESS_KEY_ID", other: want, half: want, bare: want, "": "set AWS_ACCESS_KEY_ID"} {
		// A file of the options is alone: the role of the container is not taken instead.
		if file != "" {
			i := newIssuer(t)
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", i.URL)
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of the pod")
		} else {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
		}
		s := newSigner(t, s3.Options{Credentials: file})
		if _, err := s.Do(t.Context(), http.MethodGet, "b", "k", nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if s.sent != 0 {
			t.Errorf("%q: a request was sent", file)
		}
	}
}
