package auth

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

const (
	secret = "0123456789abcdef0123456789abcdef"
	other  = "fedcba9876543210fedcba9876543210"
)

// issuedAt is when the tokens of testdata were issued; they last for 15 minutes.
var issuedAt = time.Unix(1_790_000_000, 0)

func at(now time.Time) Options { return Options{Now: func() time.Time { return now }} }

// private reads a key of testdata.
func private(t testing.TB, name string) crypto.Signer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.(crypto.Signer)
}

// publicFile writes the other half of a key of testdata.
func publicFile(t testing.TB, name string) (path string) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(private(t, name).Public())
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// allKeys has a key of each kind, as testdata/tokens.py uses them.
func allKeys(t testing.TB) Keys {
	t.Helper()
	return Keys{
		Keys: []Key{
			{ID: "k1", Secret: secret, Audience: "gateway"},
			{ID: "k2", Secret: other, Audience: "gateway", Tenant: "acme"},
			{ID: "hs", Algorithm: HS256, Secret: secret, Audience: "gateway"},
			{ID: "rs", Algorithm: RS256, PublicFile: publicFile(t, "rsa.pem"), Audience: "gateway"},
			{ID: "ed", Algorithm: EdDSA, PublicFile: publicFile(t, "ed25519.pem"), Audience: "gateway"},
		},
		Legacy: &Legacy{Secret: secret, Tenant: "acme"},
	}
}

func open(t testing.TB, keys Keys, o Options) *Keyring {
	t.Helper()
	k, err := New(keys, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// peer reads a token that testdata/tokens.py wrote.
func peer(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

var forms = []string{"v2", "hs256", "rs256", "eddsa", "legacy"}

// signed is a v2 token with a MAC that holds, whatever it says.
func signed(id, by, claims string) string {
	text := "v2." + id + "." + encoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, []byte(by))
	mac.Write([]byte(text))
	return text + "." + encoding.EncodeToString(mac.Sum(nil))
}

// signedLegacy is a legacy token with a MAC that holds.
func signedLegacy(client string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(client))
	return client + ":" + hex.EncodeToString(mac.Sum(nil))
}

// signedJWT is a JWT with a header and claims of one's own.
func signedJWT(t testing.TB, method jwt.SigningMethod, by any, header, claims string) string {
	t.Helper()
	text := encoding.EncodeToString([]byte(header)) + "." + encoding.EncodeToString([]byte(claims))
	signature, err := method.Sign(text, by)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encoding.EncodeToString(signature)
}

// claims are right but for what changes says of them; nil removes one.
func claims(t testing.TB, changes map[string]any) string {
	t.Helper()
	all := map[string]any{"sub": "c42", "tid": "acme", "aud": "gateway", "iat": issuedAt.Unix(), "exp": issuedAt.Unix() + 900}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTokensOfOtherProgramsAreAccepted(t *testing.T) {
	k := open(t, allKeys(t), at(issuedAt.Add(time.Minute)))
	ids := map[string]string{"v2": "k1", "hs256": "hs", "rs256": "rs", "eddsa": "ed", "legacy": "legacy"}
	for _, form := range forms {
		want := Identity{Tenant: "acme", Client: "c42", Key: ids[form]}
		if form != "legacy" {
			want.Scope, want.Expires = "chat read", issuedAt.Add(15*time.Minute)
		}
		who, err := k.Verify(t.Context(), peer(t, form))
		if err != nil {
			t.Errorf("%s: %v", form, err)
		} else if diff := cmp.Diff(want, who); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
	if s := k.Stats(); s.Accepted != 5 {
		t.Errorf("%+v", s)
	}
}

func TestIssuedTokenSaysWhoTheClientIs(t *testing.T) {
	k := open(t, allKeys(t), at(issuedAt))
	for id, tenant := range map[string]string{"k1": "acme", "k2": "", "hs": "\u00e9t\u00e9"} {
		token, err := k.Issue(id, Identity{Tenant: tenant, Client: "a:b|c@d", Scope: "read"}, 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		want := Identity{Tenant: tenant, Client: "a:b|c@d", Scope: "read", Expires: issuedAt.Add(90 * time.Second), Key: id}
		if want.Tenant == "" {
			want.Tenant = "acme" // the key's
		}
		if who, err := k.Verify(t.Context(), token); err != nil || who != want {
			t.Errorf("%s: %+v, %v, want %+v", id, who, err, want)
		}
	}
	for want, issue := range map[string]func() (string, error){
		`there is no key "k9"`:              func() (string, error) { return k.Issue("k9", Identity{Tenant: "t", Client: "c"}, time.Minute) },
		"key ed is public":                  func() (string, error) { return k.Issue("ed", Identity{Tenant: "t", Client: "c"}, time.Minute) },
		`the client "" is not a valid name`: func() (string, error) { return k.Issue("k1", Identity{Tenant: "t"}, time.Minute) },
		"the tenant is missing":             func() (string, error) { return k.Issue("k1", Identity{Client: "c"}, time.Minute) },
		`for the tenant "acme"`:             func() (string, error) { return k.Issue("k2", Identity{Tenant: "t", Client: "c"}, time.Minute) },
		`the tenant "a\nb" is no`:           func() (string, error) { return k.Issue("k1", Identity{Tenant: "a\nb", Client: "c"}, time.Minute) },
		"the scope is not a list of words": func() (string, error) {
			return k.Issue("k1", Identity{Tenant: "t", Client: "c", Scope: "\u00e9"}, time.Minute)
		},
		"a token cannot last 2h0m":  func() (string, error) { return k.Issue("k1", Identity{Tenant: "t", Client: "c"}, 2*time.Hour) },
		"a token cannot last 100ms": func() (string, error) { return k.Issue("k1", Identity{Tenant: "t", Client: "c"}, 100*time.Millisecond) },
	} {
		if token, err := issue(); err == nil || token != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestKeyIsReplacedWhileTokensOfBothAreShown goes through a rotation.
func TestKeyIsReplacedWhileTokensOfBothAreShown(t *testing.T) {
	before := Key{ID: "2026-10", Secret: secret, Audience: "gateway"}
	after := Key{ID: "2026-11", Secret: other, Audience: "gateway"}
	who := Identity{Tenant: "acme", Client: "c42"}
	token := make(map[string]string)
	for _, key := range []Key{before, after} {
		var err error
		if token[key.ID], err = open(t, Keys{Keys: []Key{key}}, at(issuedAt)).Issue(key.ID, who, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for _, stage := range []struct {
		keys          []Key
		before, after bool
	}{{[]Key{before}, true, false}, {[]Key{before, after}, true, true}, {[]Key{after}, false, true}} {
		k := open(t, Keys{Keys: stage.keys}, at(issuedAt))
		for id, want := range map[string]bool{before.ID: stage.before, after.ID: stage.after} {
			_, err := k.Verify(t.Context(), token[id])
			if (err == nil) != want || err != nil && err.(*Error).Reason != UnknownKey {
				t.Errorf("%d keys: token of %s: %v", len(stage.keys), id, err)
			}
		}
	}
}

func TestTokenEndsAtItsTimeAndTheSkewOfClocks(t *testing.T) {
	for _, form := range []string{"v2", "hs256", "rs256", "eddsa"} {
		for at, want := range map[time.Duration]Reason{
			-31 * time.Second: NotYetValid, -30 * time.Second: "", 0: "", 15*time.Minute + 29*time.Second: "", 15*time.Minute + 30*time.Second: Expired, 1e6 * time.Hour: Expired,
		} {
			k := open(t, allKeys(t), Options{Now: func() time.Time { return issuedAt.Add(at) }})
			_, err := k.Verify(t.Context(), peer(t, form))
			var refusal *Error
			errors.As(err, &refusal)
			if (err == nil) != (want == "") || err != nil && (refusal.Reason != want || !refusal.Signed) {
				t.Errorf("%s at %v: %v, want %q", form, at, err, want)
			}
		}
	}
}

func TestTokenMayBeForAsLongAsTheLifetime(t *testing.T) {
	k := open(t, allKeys(t), at(issuedAt))
	if _, err := k.Verify(t.Context(), signed("k1", secret, claims(t, map[string]any{"exp": issuedAt.Unix() + 3600}))); err != nil {
		t.Error(err)
	}
}

func TestKeysThatAreNotRightAreAllSaid(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, _ := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: private(t, "rsa.pem").Public().(*rsa.PublicKey).N, E: 2})
	even := write("even.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	rsaFile, large := publicFile(t, "rsa.pem"), write("large", strings.Repeat("x", fileBytes+1))
	for want, keys := range map[string]Keys{
		"keys: there is no key":                                  {},
		"keys: 17 keys, at most 16":                              {Keys: make([]Key, 17)},
		"keys[0].id: is not an id of a key":                      {Keys: []Key{{ID: "../k", Secret: secret, Audience: "a"}}},
		"keys[1].id: two keys have":                              {Keys: []Key{{ID: "k", Secret: secret, Audience: "a"}, {ID: "k", Secret: other, Audience: "a"}}},
		"keys[0].audience: is not a name":                        {Keys: []Key{{ID: "k", Secret: secret}}},
		"keys[0].tenant: is not a name":                          {Keys: []Key{{ID: "k", Secret: secret, Audience: "a", Tenant: "a\x00b"}}},
		"keys[0].alg: is no algorithm":                           {Keys: []Key{{ID: "k", Algorithm: "none", Secret: secret, Audience: "a"}}},
		"keys[0].secret: the secret has 31 bytes":                {Keys: []Key{{ID: "k", Secret: secret[1:], Audience: "a"}}},
		"keys[0].secret_file: the secret has 31 bytes":           {Keys: []Key{{ID: "k", SecretFile: write("short", secret[1:]+"\n"), Audience: "a"}}},
		"keys[0].secret_file: larger than 65536 bytes":           {Keys: []Key{{ID: "k", SecretFile: large, Audience: "a"}}},
		"keys[0].secret_file: open nowhere: no such":             {Keys: []Key{{ID: "k", SecretFile: "nowhere", Audience: "a"}}},
		"keys[0].public_file: v2 has no public key":              {Keys: []Key{{ID: "k", Secret: secret, PublicFile: rsaFile, Audience: "a"}}},
		"keys[0].secret: RS256 has no secret":                    {Keys: []Key{{ID: "k", Algorithm: RS256, Secret: secret, PublicFile: rsaFile, Audience: "a"}}},
		"keys[0].public_file: is missing":                        {Keys: []Key{{ID: "k", Algorithm: RS256, Audience: "a"}}},
		"keys[0].public_file: the file holds a key of another":   {Keys: []Key{{ID: "k", Algorithm: EdDSA, PublicFile: rsaFile, Audience: "a"}}},
		"keys[0].public_file: the file holds no public key":      {Keys: []Key{{ID: "k", Algorithm: RS256, PublicFile: "testdata/rsa.pem", Audience: "a"}}},
		"keys[0].public_file: the file holds no Ed25519 key and": {Keys: []Key{{ID: "k", Algorithm: RS256, PublicFile: even, Audience: "a"}}},
		"legacy.secret: the secret has 0 bytes":                  {Legacy: &Legacy{Tenant: "t"}},
		"legacy.tenant: is not a name":                           {Legacy: &Legacy{Secret: secret}},
		"lifetime: 25h0m0s is out of range":                      {Lifetime: 25 * time.Hour},
		"skew: 6m0s is out of range":                             {Skew: 6 * time.Minute},
		"jwks: `url` or `file`":                                  {JWKS: &JWKS{Audience: "a"}},
		"jwks.url: without encryption, an attacker":              {JWKS: &JWKS{Audience: "a", URL: "http://idp.example/keys"}},
		"jwks.url: is not a valid URL":                           {JWKS: &JWKS{Audience: "a", URL: "https://u:p@idp.example/keys"}},
		"jwks.audience: is not a name":                           {JWKS: &JWKS{URL: "https://idp.example/keys"}},
		"jwks.tenant: is not a name":                             {JWKS: &JWKS{URL: "https://idp.example/keys", Audience: "a", Tenant: "\n"}},
	} {
		_, err := New(keys, Options{})
		var found KeysErrors
		if !errors.As(err, &found) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret[1:]) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := New(Keys{Keys: []Key{{}, {}}}, Options{}); len(err.(KeysErrors)) < 6 {
		t.Errorf("not all at once: %v", err)
	}
}

func TestInspectShowsWhatATokenSays(t *testing.T) {
	for _, form := range forms {
		c, err := Inspect(peer(t, form))
		if err != nil || c.Claims["sub"] != "c42" {
			t.Errorf("%s: %+v, %v", form, c, err)
		}
	}
	if c, err := Inspect(peer(t, "eddsa")); err != nil || c.Form != "JWT" || c.Algorithm != EdDSA || c.Key != "ed" || c.Claims["tid"] != "acme" {
		t.Errorf("%+v, %v", c, err)
	}
	for token, want := range map[string]string{
		"":                              "the token has 1 parts",
		"a b":                           "not base64url and points alone",
		"v2.k1.!.x":                     "not base64url",
		"v2.k1.AAAA.x":                  "the claims of the token cannot be read",
		"AAAA.AAAA.x":                   "the header of the token cannot be read",
		strings.Repeat("A", BytesMax+1): "8193 bytes, at most 8192",
	} {
		if _, err := Inspect(token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", token, err, want)
		}
	}
}
