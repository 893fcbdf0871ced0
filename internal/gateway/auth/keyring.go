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

// Keyring verifies tokens, and issues tokens with the keys that have a secret. It is safe for
// concurrent use.
type Keyring struct {
	keys     map[string]*key // by id
	set      *keySet         // nil if not configured
	legacy   *key            // nil if not configured
	lifetime time.Duration
	skew     time.Duration
	now      func() time.Time
	parser   *jwt.Parser

	accepted atomic.Int64
	refused  map[Reason]*atomic.Int64 // has an entry for every Reason
}

// Options holds what a Keyring needs from its environment.
type Options struct {
	Now       func() time.Time  // nil is time.Now
	Transport http.RoundTripper // for JWKS.URL; nil is http.DefaultTransport
}

// New returns a Keyring. It reads the files that keys names, except the JWKS. The JWKS is read when
// the first token needs it, so that a gateway can start while its identity provider is down. The
// error is a KeysErrors with all errors found.
func New(keys Keys, o Options) (*Keyring, error) {
	k := &Keyring{
		keys:     make(map[string]*key, len(keys.Keys)),
		lifetime: cmp.Or(keys.Lifetime, time.Hour),
		skew:     cmp.Or(keys.Skew, 30*time.Second),
		now:      o.Now,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{HS256, RS256, EdDSA}), jwt.WithStrictDecoding(),
			jwt.WithoutClaimsValidation()), // judge validates claims, as for v2 tokens
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

// read loads the keys of a keys file and returns all errors.
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
			found.add("legacy.tenant", "is not a name", "write the tenant that these clients belong to")
		}
	}
	return found
}

// Stats counts the tokens that a Keyring has verified since it was created.
type Stats struct {
	Accepted int64
	Refused  map[Reason]int64 // has an entry for every Reason
	JWKS     JWKSStats
}

// Stats returns the counters of the Keyring.
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
