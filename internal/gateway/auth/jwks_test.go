package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// jwkOf writes a public key as a JWK.
func jwkOf(id string, public any) map[string]string {
	switch public := public.(type) {
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": id, "x": encoding.EncodeToString(public)}
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "alg": "RS256", "kid": id, "n": encoding.EncodeToString(public.N.Bytes()), "e": encoding.EncodeToString(big.NewInt(int64(public.E)).Bytes())}
	}
	panic(public)
}

func keySetOf(t testing.TB, keys ...map[string]string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keySetFile writes the keys of testdata as a key set: ed and rs.
func keySetFile(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jwks.json")
	text := keySetOf(t, jwkOf("ed", private(t, "ed25519.pem").Public()), jwkOf("rs", private(t, "rsa.pem").Public()))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clock is moved by its test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// provider is an identity provider on this machine.
type provider struct {
	*httptest.Server
	mu    sync.Mutex // guards the rest
	reply func(w http.ResponseWriter)
	asked int
}

func newProvider(t *testing.T, set string) *provider {
	p := &provider{}
	p.publish(set)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked++
		p.reply(w)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) answer(reply func(w http.ResponseWriter)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = reply
}

func (p *provider) publish(set string) {
	p.answer(func(w http.ResponseWriter) { _, _ = io.WriteString(w, set) })
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// fresh is a token that is issued at the time of the clock.
func fresh(t *testing.T, c *clock, id string) string {
	t.Helper()
	now := c.Now().Unix()
	return signedJWT(t, jwt.SigningMethodEdDSA, private(t, "ed25519.pem"), `{"alg":"EdDSA","kid":"`+id+`"}`, claims(t, map[string]any{"iat": now, "exp": now + 900}))
}

// expect verifies a token of a key; "" is that it is accepted.
func expect(t *testing.T, k *Keyring, c *clock, id string, want Reason) {
	t.Helper()
	_, err := k.Verify(t.Context(), fresh(t, c, id))
	var refusal *Error
	errors.As(err, &refusal)
	if (err == nil) != (want == "") || err != nil && refusal.Reason != want {
		t.Errorf("at %v, key %s: %v, want %q", c.Now().Sub(issuedAt), id, err, want)
	}
}

func published(t *testing.T) (p *provider, k *Keyring, c *clock, public ed25519.PublicKey) {
	public = private(t, "ed25519.pem").Public().(ed25519.PublicKey)
	p, c = newProvider(t, keySetOf(t, jwkOf("a", public))), &clock{now: issuedAt}
	k = open(t, Keys{JWKS: &JWKS{URL: p.URL + "/keys", Audience: "gateway"}}, Options{Now: c.Now})
	return p, k, c, public
}

func TestKeySetIsReadAgainAtAnUnknownKeyOnceAMinute(t *testing.T) {
	p, k, c, public := published(t)
	expect(t, k, c, "a", "")
	for range 100 {
		expect(t, k, c, "b", UnknownKey)
	}
	if n := p.requests(); n != 1 {
		t.Errorf("%d requests in no time", n)
	}
	p.publish(keySetOf(t, jwkOf("a", public), jwkOf("b", public)))
	c.move(59 * time.Second)
	expect(t, k, c, "b", KeysUnavailable) // the token is newer than what was read
	old := fresh(t, &clock{now: issuedAt}, "b")
	_, err := k.Verify(t.Context(), old)
	if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Reason != UnknownKey {
		t.Errorf("a token that is older than the set: %v", err)
	}
	c.move(time.Second)
	expect(t, k, c, "b", "")
	expect(t, k, c, "c", UnknownKey)
	c.move(time.Second)
	expect(t, k, c, "c", KeysUnavailable)
	c.move(setPause)
	expect(t, k, c, "c", UnknownKey)
	expect(t, k, c, "a", "")
	if s := k.Stats().JWKS; p.requests() != 3 || s.Readings != 3 || s.Failures != 0 || s.Keys != 2 || !s.Read.Equal(c.Now()) {
		t.Errorf("%d requests, %+v", p.requests(), s)
	}
}

func TestKeyThatIsGoneFromItsSetSignsNoMore(t *testing.T) {
	p, k, c, public := published(t)
	expect(t, k, c, "a", "")
	p.publish(keySetOf(t, jwkOf("b", public)))
	c.move(setAge - time.Second)
	expect(t, k, c, "a", "")
	c.move(time.Second)
	expect(t, k, c, "a", UnknownKey)
	expect(t, k, c, "b", "")
}

// TestKeySetStaysWhileItCannotBeRead takes each way in which a provider fails.
func TestKeySetStaysWhileItCannotBeRead(t *testing.T) {
	many := make([]map[string]string, setKeysMax+1)
	for i := range many {
		many[i] = map[string]string{"kid": fmt.Sprint(i)}
	}
	x := jwkOf("a", private(t, "ed25519.pem").Public())
	for name, reply := range map[string]func(w http.ResponseWriter){
		"an error":       func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"another page":   func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"no keys":        func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"keys":[]}`) },
		"too many keys":  func(w http.ResponseWriter) { _, _ = io.WriteString(w, keySetOf(t, many...)) },
		"an id twice":    func(w http.ResponseWriter) { _, _ = io.WriteString(w, keySetOf(t, x, x)) },
		"too many bytes": func(w http.ResponseWriter) { _, _ = io.WriteString(w, keySetOf(t, x)+strings.Repeat(" ", setBytes)) },
		"a redirection": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/keys")
			w.WriteHeader(http.StatusFound)
		},
		"half of it": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"keys":`)
		},
		"nobody": nil,
	} {
		t.Run(name, func(t *testing.T) {
			p, k, c, public := published(t)
			expect(t, k, c, "a", "")
			if p.answer(reply); reply == nil {
				p.Close()
			}
			for range 3 {
				c.move(setAge)
				expect(t, k, c, "a", "")
				expect(t, k, c, "b", KeysUnavailable) // it may have been published meanwhile
			}
			if s := k.Stats().JWKS; s.Err == nil || s.Readings != 4 || s.Failures != 3 || s.Keys != 1 || !s.Read.Equal(issuedAt) {
				t.Errorf("%+v", s)
			}
			if reply != nil {
				p.publish(keySetOf(t, jwkOf("b", public)))
				c.move(setAge)
				expect(t, k, c, "a", UnknownKey)
				if s := k.Stats().JWKS; s.Err != nil || s.Failures != 3 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

func TestGatewayStartsWhileItsProviderIsDown(t *testing.T) {
	p, k, c, public := published(t)
	p.answer(func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	for range 10 {
		expect(t, k, c, "a", KeysUnavailable)
	}
	if n := p.requests(); n != 1 {
		t.Errorf("%d requests in no time", n)
	}
	p.publish(keySetOf(t, jwkOf("a", public)))
	expect(t, k, c, "a", KeysUnavailable)
	c.move(setRetry)
	expect(t, k, c, "a", "")
}

// TestClientsThatLeaveDoNotKeepTheSetFromBeingRead has a client go away before the
// provider answers.
func TestClientsThatLeaveDoNotKeepTheSetFromBeingRead(t *testing.T) {
	_, k, c, _ := published(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := k.Verify(gone, fresh(t, c, "a")); err != nil {
		t.Error(err)
	}
}

func TestManyClientsCauseOneRequest(t *testing.T) {
	p, k, c, _ := published(t)
	tokens := []string{fresh(t, c, "a"), fresh(t, c, "b")}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := k.Verify(t.Context(), tokens[i%2]); (err == nil) != (i%2 == 0) {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := p.requests(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestProviderThatHangsHoldsUpOneClientFor5s has others go on with the set that is
// there meanwhile.
func TestProviderThatHangsHoldsUpOneClientFor5s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{now: issuedAt}
		set, hangs := keySetOf(t, jwkOf("a", private(t, "ed25519.pem").Public())), false
		k := open(t, Keys{JWKS: &JWKS{URL: "https://idp.example/keys", Audience: "gateway"}}, Options{Now: c.Now, Transport: transport(func(r *http.Request) (*http.Response, error) {
			if hangs {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(set))}, nil
		})})
		expect(t, k, c, "a", "")
		hangs = true
		c.move(setAge)
		begun := time.Now()
		var held sync.WaitGroup
		held.Go(func() { expect(t, k, c, "a", "") })
		synctest.Wait()
		expect(t, k, c, "a", "")
		if took := time.Since(begun); took != 0 {
			t.Errorf("another client waited for %v", took)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Verify(short, fresh(t, c, "b")); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one whose time ends while it waits: %v", err)
		}
		expect(t, k, c, "b", KeysUnavailable) // waits for who reads, and reads no more
		held.Wait()
		if took := time.Since(begun); took != setTimeout {
			t.Errorf("it took %v", took)
		}
		expect(t, k, c, "a", "")
		if took := time.Since(begun); took != setTimeout {
			t.Errorf("the next waited too: %v", took)
		}
	})
}

// TestKeysOfTheStandardsAreRead takes those of RFC 7517, A.1, and RFC 8037, A.2, among
// others that are passed over.
func TestKeysOfTheStandardsAreRead(t *testing.T) {
	const rsaN = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
	keys, err := parseKeySet([]byte(`{"keys":[
		{"kty":"RSA","n":"`+rsaN+`","e":"AQAB","alg":"RS256","kid":"2011-04-29"},
		{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"ed"},
		{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","kid":"ec"},
		{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow","kid":"secret"},
		{"kty":"RSA","n":"`+rsaN+`","e":"AQAB","use":"enc","kid":"for encryption"},
		{"kty":"RSA","n":"`+rsaN+`","e":"AQAB","alg":"PS256","kid":"another algorithm"},
		{"kty":"RSA","n":"`+rsaN[:100]+`","e":"AQAB","kid":"weak"},
		{"kty":"RSA","n":"`+strings.Repeat("A_", 2000)+`","e":"AQAB","kid":"costly"},
		{"kty":"RSA","n":"`+rsaN+`","e":"AAAAAAAAAQABAAAB","kid":"costly too"},
		{"kty":"RSA","n":"`+rsaN+`","e":"AQ","kid":"no cipher"},
		{"kty":"OKP","crv":"Ed25519","x":"11qYAYKx","kid":"short"},
		{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"private"},
		{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","x5c":["AAAA"],"kid":"certificate"},
		{"kty":["OKP"],"kid":7}, 7, "text",
		{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"curve"},
		{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`), &JWKS{})
	if err != nil || len(keys) != 2 || keys["2011-04-29"].algorithm != RS256 || keys["ed"].algorithm != EdDSA {
		t.Errorf("%+v, %v", keys, err)
	}
}
