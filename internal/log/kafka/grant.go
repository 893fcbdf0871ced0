package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// grant requests bearer tokens with client credentials (RFC 6749, section 4.4). It caches a token
// for most of its lifetime.
type grant struct {
	url, scope, user string
	password         func() (string, error)
	client           http.Client

	mu    sync.Mutex // guards the fields below
	kept  string
	until time.Time
}

const (
	grantMax   = 10 * time.Second // timeout of a request
	grantBytes = 1 << 20          // size limit of an answer

	grantSeconds = 24 * 60 * 60 // maximum time that a token is cached
)

// newGrant returns a grant. It trusts the system's certificates, and those in the CA file if one is
// set.
func newGrant(e *credentials) *grant {
	g := &grant{url: e.TokenURL, scope: e.Scope, user: e.first(e.User, EnvUser), password: func() (string, error) { return e.secret(e.Password, e.PasswordFile, EnvPassword) }}
	g.client.Timeout = grantMax
	if more, err := os.ReadFile(e.CA); err == nil {
		trusted, err := x509.SystemCertPool()
		if err != nil {
			trusted = x509.NewCertPool()
		}
		trusted.AppendCertsFromPEM(more)
		g.client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}}
	}
	return g
}

// token returns a token that is valid for at least another fifth of its lifetime.
func (g *grant) token(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.until) {
		return g.kept, nil
	}
	token, lasts, err := g.ask(ctx)
	if err != nil {
		return "", fmt.Errorf("get a token of %s: %w", g.url, err)
	}
	g.kept, g.until = token, time.Now().Add(lasts/5*4)
	return token, nil
}

func (g *grant) ask(ctx context.Context) (token string, lasts time.Duration, err error) {
	password, err := g.password()
	if err != nil {
		return "", 0, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if g.scope != "" {
		form.Set("scope", g.scope)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(g.user), url.QueryEscape(password))
	reply, err := g.client.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer reply.Body.Close()
	var answer struct {
		AccessToken      string `json:"access_token"`
		ExpiresIn        int64  `json:"expires_in"` // in seconds
		Error            string `json:"error"`
		ErrorDescription string `json:"error_description"`
	}
	err = json.NewDecoder(io.LimitReader(reply.Body, grantBytes)).Decode(&answer)
	switch {
	case reply.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("%s %s: check that user and password are those of a client of that server", reply.Status, cmp.Or(answer.ErrorDescription, answer.Error))
	case err != nil:
		return "", 0, fmt.Errorf("read the answer: %w", err)
	case answer.AccessToken == "":
		return "", 0, fmt.Errorf("the answer holds no access_token")
	}
	return answer.AccessToken, time.Duration(min(answer.ExpiresIn, grantSeconds)) * time.Second, nil
}
