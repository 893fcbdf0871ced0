package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// FuzzVerify sees that nothing panics, and that nothing is accepted but what was
// issued: all of that is in the corpus, to be changed.
func FuzzVerify(f *testing.F) {
	keys := allKeys(f)
	keys.JWKS = &JWKS{File: keySetFile(f), Audience: "gateway"}
	k := open(f, keys, at(issuedAt))
	issued := make(map[string]bool)
	for _, form := range forms {
		issued[peer(f, form)] = true
	}
	issued[signedJWT(f, jwt.SigningMethodEdDSA, private(f, "ed25519.pem"), `{"alg":"EdDSA","kid":"ed"}`, claims(f, nil))] = true
	issued[signed("k2", other, claims(f, map[string]any{"tid": nil, "aud": []string{"x", "gateway"}, "nbf": issuedAt.Unix()}))] = true
	for token := range issued {
		if _, err := k.Verify(f.Context(), token); err != nil {
			f.Fatalf("%s: %v", token, err)
		}
		f.Add(token)
	}
	for _, token := range []string{"", "v2....", "...", ":", "v2.k1.e30.", "eyJhbGciOiJub25lIn0.e30.", signed("k1", secret, "null"), signed("k1", other, "{}")} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		who, err := k.Verify(t.Context(), token)
		if err == nil {
			if !issued[token] || who.Client != "c42" || who.Tenant != "acme" {
				t.Fatalf("%q is accepted: %+v", token, who)
			}
			return
		}
		var refusal *Error
		if !errors.As(err, &refusal) || hints[refusal.Reason] == "" || who != (Identity{}) {
			t.Errorf("%q: %+v, %v", token, who, err)
		}
		if refusal.Signed && !strings.Contains(token, ".") && !strings.Contains(token, ":") {
			t.Errorf("%q has a signature: %v", token, err)
		}
		_, _ = Inspect(token)
	})
}

// FuzzKeySet sees that no key set panics, and that every key of one can be used.
func FuzzKeySet(f *testing.F) {
	f.Add(keySetOf(f, jwkOf("ed", private(f, "ed25519.pem").Public()), jwkOf("rs", private(f, "rsa.pem").Public())))
	f.Add(`{"keys":[{"kty":"RSA","n":"","e":"","kid":"a"},{"kty":"OKP","crv":"Ed25519","x":"","kid":"b"}]}`)
	f.Add(`{"keys":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseKeySet([]byte(text), &JWKS{})
		if err != nil {
			return
		}
		for id, key := range keys {
			method := jwt.GetSigningMethod(key.algorithm)
			if id == "" || key.id != id || method == nil || method.Verify("a", make([]byte, 256), key.material) == nil {
				t.Errorf("%q: %+v", id, key)
			}
		}
	})
}
