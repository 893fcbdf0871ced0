package auth

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issue returns a token for the tenant, client and scope of the identity. It signs the token with
// the key of this id, which must have a secret. The lifetime is truncated to whole seconds; it is
// at least one second and at most the lifetime of the Keyring. Its tenant may be "" if the key has
// a tenant.
func (k *Keyring) Issue(id string, who Identity, lasts time.Duration) (string, error) {
	by := k.keys[id]
	switch {
	case by == nil:
		return "", fmt.Errorf("there is no key %q: name one of the file of keys: %s", id, strings.Join(slices.Sorted(maps.Keys(k.keys)), ", "))
	case by.algorithm != V2 && by.algorithm != HS256:
		return "", fmt.Errorf("key %s is public: the holder of the private key issues its tokens", id)
	case !named(who.Client):
		return "", fmt.Errorf("the client %q is not a valid name: write %s", who.Client, nameRule)
	case who.Tenant == "" && by.tenant == "":
		return "", fmt.Errorf("the tenant is missing: name one, or write `tenant` at key %s", id)
	case who.Tenant != "" && !named(who.Tenant):
		return "", fmt.Errorf("the tenant %q is not a valid name: write %s", who.Tenant, nameRule)
	case by.tenant != "" && who.Tenant != "" && by.tenant != who.Tenant:
		return "", fmt.Errorf("key %s is for the tenant %q alone: name another key", id, by.tenant)
	case who.Scope != "" && !scoped(who.Scope):
		return "", fmt.Errorf("the scope is not a list of words separated by spaces: write at most %d bytes of printable ASCII", scopeBytes)
	case lasts < time.Second || lasts > k.lifetime:
		return "", fmt.Errorf("a token cannot last %v: 1s to %v, the `lifetime` of the file of keys", lasts, k.lifetime)
	}
	now := k.now().Unix()
	claims := jwt.MapClaims{"sub": who.Client, "aud": by.audience, "iat": now, "exp": now + int64(lasts/time.Second)}
	if who.Tenant != "" {
		claims["tid"] = who.Tenant
	}
	if who.Scope != "" {
		claims["scope"] = who.Scope
	}
	token, err := by.sign(claims)
	if err == nil && len(token) > BytesMax { // names of 255 bytes cannot reach it
		err = fmt.Errorf("the token has %d bytes, at most %d", len(token), BytesMax)
	}
	return token, err
}

func (k *key) sign(claims jwt.MapClaims) (string, error) {
	if k.algorithm == HS256 {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
		token.Header["kid"] = k.id
		return token.SignedString(k.material)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := v2Prefix + k.id + "." + encoding.EncodeToString(text)
	return signed + "." + encoding.EncodeToString(macOf(k, signed)), nil
}
