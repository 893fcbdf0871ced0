package auth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Keyring checks tokens, and issues those that it has the secrets for. It may be
// used by many goroutines.
type Keyring struct {
	keys     map[string]*key // by id
	set      *keySet         // nil is none
	legacy   *key            // nil is none
	lifetime time.Duration
	skew     time.Duration
	now      func() time.Time
	parser   *jwt.Parser

	accepted atomic.Int64
	refused  map[Reason]*atomic.Int64 // of each there is
}

// Options is what a Keyring takes from its surroundings.
type Options struct {
	Now       func() time.Time  // nil is time.Now
	Transport http.RoundTripper // to JWKS.URL; nil is http.DefaultTransport
}

// New reads the files that keys name, but for a JWKS: that is read for the first
// token that needs it, so that a gateway starts while its identity provider is down.
// An error is KeysErrors: all that is wrong.
func New(keys Keys, o Options) (*Keyring, error) {
	k := &Keyring{
		keys:     make(map[string]*key, len(keys.Keys)),
		lifetime: cmp.Or(keys.Lifetime, time.Hour),
		skew:     cmp.Or(keys.Skew, 30*time.Second),
		now:      o.Now,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{HS256, RS256, EdDSA}), jwt.WithStrictDecoding(),
			jwt.WithoutClaimsValidation()), // judge does it, as of the other form
		refused: make(map[Reason]*atomic.Int64, len(hints)),
	}
	if k.now == nil {
		k.now = time.Now
	}
	for reason := range hints {
		k.refused[reason] = new(atomic.Int64)
	}
	found := k.read(keys)
	if keys.JWKS != nil {
		k.set = newKeySet(*keys.JWKS, k.now, o.Transport, &found)
	}
	if len(found) > 0 {
		return nil, found
	}
	return k, nil
}

// read makes the keys of a file ready.
func (k *Keyring) read(keys Keys) (found KeysErrors) {
	switch {
	case len(keys.Keys) == 0 && keys.JWKS == nil && keys.Legacy == nil:
		found.add("keys", "there is no key", "write one: {id, secret, audience}")
	case len(keys.Keys) > keysMax:
		found.add("keys", fmt.Sprintf("%d keys, at most %d", len(keys.Keys), keysMax), "remove those that have been replaced, or publish them as a JWKS")
	}
	if k.lifetime < time.Second || k.lifetime > lifetimeMax {
		found.add("lifetime", k.lifetime.String()+" is out of range", "write 1s to 24h: a token cannot be called back")
	}
	if k.skew < 0 || k.skew > skewMax {
		found.add("skew", k.skew.String()+" is out of range", "write up to 5m")
	}
	for i := range keys.Keys {
		path := fmt.Sprintf("keys[%d]", i)
		one := readKey(&keys.Keys[i], path, &found)
		if k.keys[one.id] != nil {
			found.add(path+".id", "two keys have this id", "rename one: a token names its key")
		}
		k.keys[one.id] = one
	}
	if l := keys.Legacy; l != nil {
		k.legacy = &key{id: "legacy", tenant: l.Tenant, material: readSecret(l.Secret, l.SecretFile, "legacy", &found)}
		if !named(l.Tenant) {
			found.add("legacy.tenant", "is no name", "write the tenant that these clients belong to")
		}
	}
	return found
}

// Stats is what a Keyring did since it was made.
type Stats struct {
	Accepted int64
	Refused  map[Reason]int64 // of every reason
	JWKS     JWKSStats
}

// Stats returns what the Keyring did.
func (k *Keyring) Stats() Stats {
	s := Stats{Accepted: k.accepted.Load(), Refused: make(map[Reason]int64, len(k.refused))}
	for reason, count := range k.refused {
		s.Refused[reason] = count.Load()
	}
	if k.set != nil {
		s.JWKS = k.set.stats()
	}
	return s
}

func (k *Keyring) count(err error) {
	var refusal *Error
	if errors.As(err, &refusal) {
		k.refused[refusal.Reason].Add(1)
		return
	}
	k.accepted.Add(1)
}
