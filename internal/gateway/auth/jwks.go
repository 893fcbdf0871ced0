package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
)

// Limits for a JWKS.
const (
	setBytes   = 256 << 10
	setKeysMax = 256
	setTimeout = 5 * time.Second  // for one request
	setAge     = 10 * time.Minute // age at which the set is read again: a key that was removed is then no longer accepted
	setPause   = time.Minute      // minimum time between two reads, even if tokens name unknown keys
	setRetry   = 5 * time.Second  // minimum time between two reads until the first succeeds
)

// keySet holds the keys of a JWKS as of the last successful read. One of the callers that need a
// newer set reads it. The others continue with the current set. Only a caller with a key that is
// not in the set waits for the read.
type keySet struct {
	from    JWKS
	now     func() time.Time
	client  *http.Client
	reading chan struct{} // holds an element while a read is running

	mu       sync.Mutex      // guards the fields below
	keys     map[string]*key // by id; nil before the first successful read
	tried    time.Time       // end of the last read
	failures int64
	readings int64
	read     time.Time // time of the last successful read
	err      error     // error of the last read
}

// JWKSStats describes the state of a JWKS.
type JWKSStats struct {
	Keys     int   // keys in use
	Readings int64 // reads since the start
	Failures int64 // failed reads: the previous set stays in use
	Read     time.Time
	Err      error // error of the last read, or nil
}

func newKeySet(from JWKS, now func() time.Time, transport http.RoundTripper, found *KeysErrors) *keySet {
	switch at, err := url.Parse(from.URL); {
	case (from.URL == "") == (from.File == ""):
		found.add("jwks", "`url` or `file` names the set", "write one of them")
	case from.File != "":
	case err != nil || at.Host == "" || at.User != nil:
		found.add("jwks.url", "is not a valid URL", "write it as in https://idp.example/.well-known/jwks.json")
	case at.Scheme == "http" && httpclient.Loopback(at.Hostname()):
	case at.Scheme != "https":
		found.add("jwks.url", "without encryption, an attacker on the network can change keys", "write https://")
	}
	if !named(from.Audience) {
		found.add("jwks.audience", "is not a name", "write the audience of its tokens: "+nameRule)
	}
	if from.Tenant != "" && !named(from.Tenant) {
		found.add("jwks.tenant", "is not a name", "write "+nameRule)
	}
	return &keySet{from: from, now: now, client: httpclient.NoRedirects(transport), reading: make(chan struct{}, 1)}
}

var errNewer = errors.New("the key is not in the set as it was read last, and the token is newer")

// find returns the key of an id; nil if the set has none. It returns an error if that is uncertain.
// Then the set could not be read, or was read before the token was issued, perhaps with a key that
// was published since.
func (s *keySet) find(ctx context.Context, id string, issued time.Time) (*key, error) {
	found, due := s.look(id)
	switch {
	case !due:
	case s.enter(ctx, found == nil):
		if _, due = s.look(id); due { // another caller may have read it meanwhile
			// The read has its own timeout. If it used ctx, clients that disconnect early could
			// prevent every read.
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

// look returns a key of the current set, and whether the set should be read.
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

// enter reports whether the caller may read the set. If wait is true, it blocks until another read
// has ended, or until ctx is done.
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

// refresh reads the set. If that fails, the previous set stays in use.
func (s *keySet) refresh(ctx context.Context) {
	keys, err := s.fetch(ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings++
	s.tried = s.now() // set after the read, so that callers that arrive during it find the set due, and wait
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

// parseKeySet parses a JWKS. It ignores keys for other uses or with unsupported algorithms.
func parseKeySet(data []byte, from *JWKS) (map[string]*key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	if len(set.Keys) > setKeysMax {
		return nil, fmt.Errorf("read the key set: %d keys, at most %d", len(set.Keys), setKeysMax)
	}
	keys := make(map[string]*key, len(set.Keys))
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) != nil { // RFC 7517 section 5: a reader ignores keys that it does not support
			continue
		}
		algorithm := algorithmOf(k.Key)
		if algorithm == "" || k.Algorithm != "" && k.Algorithm != algorithm || k.Use != "" && k.Use != "sig" || !named(k.KeyID) {
			continue
		}
		if keys[k.KeyID] != nil {
			return nil, fmt.Errorf("read the key set: two keys have the id %.64q", k.KeyID)
		}
		keys[k.KeyID] = &key{id: k.KeyID, algorithm: algorithm, material: k.Key, issuer: from.Issuer, audience: from.Audience, tenant: from.Tenant}
	}
	if len(keys) == 0 {
		return nil, errors.New("read the key set: it holds no key of RS256 or EdDSA that has an id")
	}
	return keys, nil
}

func (s *keySet) stats() JWKSStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return JWKSStats{Keys: len(s.keys), Readings: s.readings, Failures: s.failures, Read: s.read, Err: s.err}
}
