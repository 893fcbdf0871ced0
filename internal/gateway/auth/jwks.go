package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
)

// The bounds of a key set.
const (
	setBytes   = 256 << 10
	setKeysMax = 256
	setTimeout = 5 * time.Second  // of a request
	setAge     = 10 * time.Minute // after which a set is read again: a key that is gone from it signs no more
	setPause   = time.Minute      // between two readings, whatever keys tokens name
	setRetry   = 5 * time.Second  // between two readings while there is no set at all
)

// keySet is the keys of a JWKS as they were when it was last read. One goroutine of
// those that need it reads it; the others go on with what is there, but for those
// whose key is not.
type keySet struct {
	from    JWKS
	now     func() time.Time
	client  *http.Client
	reading chan struct{} // holds an element while one reads

	mu       sync.Mutex      // guards the rest
	keys     map[string]*key // by id; nil where none was ever read
	tried    time.Time       // end of the newest reading
	failures int64
	readings int64
	read     time.Time // when keys were read
	err      error     // of the newest reading
}

// JWKSStats is how a JWKS stands.
type JWKSStats struct {
	Keys     int   // in use
	Readings int64 // since the start
	Failures int64 // of Readings: the set before stayed
	Read     time.Time
	Err      error // of the newest reading, or nil
}

func newKeySet(from JWKS, now func() time.Time, transport http.RoundTripper, found *KeysErrors) *keySet {
	switch at, err := url.Parse(from.URL); {
	case (from.URL == "") == (from.File == ""):
		found.add("jwks", "`url` or `file` names the set", "write one of them")
	case from.File != "":
	case err != nil || at.Host == "" || at.User != nil:
		found.add("jwks.url", "is not a valid URL", "write it as in https://idp.example/.well-known/jwks.json")
	case at.Scheme == "http" && loopback(at.Hostname()):
	case at.Scheme != "https":
		found.add("jwks.url", "whoever is on the way can change keys", "write https://")
	}
	if !named(from.Audience) {
		found.add("jwks.audience", "is no name", "write whom its tokens are for: "+nameRule)
	}
	if from.Tenant != "" && !named(from.Tenant) {
		found.add("jwks.tenant", "is no name", "write "+nameRule)
	}
	return &keySet{from: from, now: now, client: httpclient.NoRedirects(transport), reading: make(chan struct{}, 1)}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

var errNewer = errors.New("the key is not in the set as it was read last, and the token is newer")

// find returns the key of an id; nil where the set has none. An error says why nobody
// knows: the set could not be read, or was read before the token was issued, perhaps by
// a key that was published meanwhile.
func (s *keySet) find(ctx context.Context, id string, issued time.Time) (*key, error) {
	found, due := s.look(id)
	switch {
	case !due:
	case s.enter(ctx, found == nil):
		if _, due = s.look(id); due { // another may have read it meanwhile
			// The reading ends with its own time: clients that leave early
			// would otherwise keep the set from ever being read.
			s.refresh(context.WithoutCancel(ctx))
		}
		<-s.reading
		found, _ = s.look(id)
	case found == nil:
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case found != nil:
		return found, nil
	case s.err != nil:
		return nil, s.err
	case issued.After(s.read):
		return nil, errNewer
	}
	return nil, nil
}

// look returns a key as it stands, and whether the set should be read.
func (s *keySet) look(id string) (found *key, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.keys[id]
	now := s.now()
	switch since := now.Sub(s.tried); {
	case s.keys == nil:
		return nil, since >= setRetry
	case found == nil:
		return nil, since >= setPause
	default:
		return found, since >= setPause && now.Sub(s.read) >= setAge
	}
}

// enter reports whether the caller may read the set; it waits for who does, if told
// to, until ctx ends.
func (s *keySet) enter(ctx context.Context, wait bool) bool {
	select {
	case s.reading <- struct{}{}:
		return true
	default:
	}
	if !wait {
		return false
	}
	select {
	case s.reading <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh reads the set. Where that fails, what was there stays.
func (s *keySet) refresh(ctx context.Context) {
	keys, err := s.fetch(ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings++
	s.tried = s.now() // after it, so that who comes meanwhile finds it due, and waits
	if s.err = err; err != nil {
		s.failures++
		return
	}
	s.keys, s.read = keys, s.tried
}

func (s *keySet) fetch(ctx context.Context) (map[string]*key, error) {
	if s.from.File != "" {
		data, err := readFile(s.from.File, setBytes)
		if err != nil {
			return nil, fmt.Errorf("read the key set: %w", err)
		}
		return parseKeySet(data, &s.from)
	}
	ctx, cancel := context.WithTimeout(ctx, setTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.from.URL, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	reply, err := s.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("get the key set: %w", err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get the key set of %s: %s", s.from.URL, reply.Status)
	}
	data, err := readAll(reply.Body, setBytes)
	if err != nil {
		return nil, fmt.Errorf("get the key set of %s: %w", s.from.URL, err)
	}
	return parseKeySet(data, &s.from)
}

// parseKeySet reads a JWKS. Keys that are for something else, or of algorithms that
// are not ours, are passed over.
func parseKeySet(data []byte, from *JWKS) (map[string]*key, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	if len(set.Keys) > setKeysMax {
		return nil, fmt.Errorf("read the key set: %d keys, at most %d", len(set.Keys), setKeysMax)
	}
	keys := make(map[string]*key, len(set.Keys))
	for i := range set.Keys {
		k := &set.Keys[i]
		public := k.public()
		algorithm := algorithmOf(public)
		if algorithm == "" || k.Algorithm != "" && k.Algorithm != algorithm || k.Use != "" && k.Use != "sig" || !named(k.ID) {
			continue
		}
		if keys[k.ID] != nil {
			return nil, fmt.Errorf("read the key set: two keys have the id %.64q", k.ID)
		}
		keys[k.ID] = &key{id: k.ID, algorithm: algorithm, material: public, issuer: from.Issuer, audience: from.Audience, tenant: from.Tenant}
	}
	if len(keys) == 0 {
		return nil, errors.New("read the key set: it holds no key of RS256 or EdDSA that has an id")
	}
	return keys, nil
}

// jwk is a key of a set, as far as it concerns us (RFC 7517, 7518, 8037).
type jwk struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
	Curve     string `json:"crv"`
	N         string `json:"n"` // base64url, as E and X
	E         string `json:"e"`
	X         string `json:"x"`
}

// public returns the key; nil where it is none of ours.
func (k *jwk) public() any {
	switch {
	case k.Type == "OKP" && k.Curve == "Ed25519":
		if x, err := encoding.DecodeString(k.X); err == nil {
			return ed25519.PublicKey(x)
		}
	case k.Type == "RSA":
		n, err := encoding.DecodeString(k.N)
		e, errE := encoding.DecodeString(k.E)
		if exponent := new(big.Int).SetBytes(e); err == nil && errE == nil && exponent.BitLen() <= 31 {
			return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}
		}
	}
	return nil
}

func (s *keySet) stats() JWKSStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return JWKSStats{Keys: len(s.keys), Readings: s.readings, Failures: s.failures, Read: s.read, Err: s.err}
}
