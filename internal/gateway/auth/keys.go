package auth

import (
	"strings"
	"time"
)

// The bounds of a file of keys, and of what it names.
const (
	keysMax     = 16       // of the file
	secretMin   = 32       // bytes: as long as what HMAC-SHA256 gives
	fileBytes   = 64 << 10 // of a secret or public key
	rsaBitsMin  = 2048     //
	rsaBitsMax  = 8192     // a larger one costs milliseconds a token
	lifetimeMax = 24 * time.Hour
	skewMax     = 5 * time.Minute
	keyIDRule   = "1 to 64 letters, digits, - and _"
	nameBytes   = 255 // of a client, tenant or audience
	scopeBytes  = 1024
)

// The algorithms.
const (
	V2    = "v2" // HMAC-SHA256, in Afterbay's own form
	HS256 = "HS256"
	RS256 = "RS256"
	EdDSA = "EdDSA"
)

// Keys says whose tokens are accepted.
type Keys struct {
	Keys     []Key         // at most 16; two of an issuer while one takes over from the other
	JWKS     *JWKS         // nil is none
	Legacy   *Legacy       // nil is none: such tokens are refused
	Lifetime time.Duration // longest time from iat to exp of a token; 0 is 1 h
	Skew     time.Duration // how far clocks of issuers may be off; 0 is 30 s
}

// Key is one that signs tokens, or that checks what its other half signed.
type Key struct {
	ID         string // as tokens name it: 1 to 64 letters, digits, - and _
	Algorithm  string // of its tokens, whatever they say themselves: v2 (default) is Afterbay's own form, the others are JWT
	Secret     string // of v2 and HS256: at least 32 bytes
	SecretFile string // a file of the secret alone; space around it is no part of it
	PublicFile string // of RS256 and EdDSA: a file of the public key in PEM
	Audience   string // whom its tokens must be for: their aud
	Tenant     string // the one tenant of its tokens; "" is the tid of each
}

// JWKS is a set of keys that an identity provider publishes (RFC 7517), and replaces
// when it likes. Those of RS256 and EdDSA are used, others passed over.
type JWKS struct {
	URL      string // of the set, https but on this machine; asked for every 10 min, and at an unknown key, at most once a minute; while it is down the set stays as it was
	File     string // instead of URL: a file of the set, read again as often
	Issuer   string // the iss of its tokens; "" is any
	Audience string // whom its tokens must be for: their aud
	Tenant   string // the one tenant of its tokens; "" is the tid of each
}

// Legacy accepts tokens `<client id>:<hex of HMAC-SHA256 of the client id>`, which
// never end and are for any service with the secret.
type Legacy struct {
	Secret     string // at least 32 bytes
	SecretFile string // a file of the secret alone
	Tenant     string // of all such tokens
}

// KeysError is one thing that a file of keys says and that does not hold.
type KeysError struct {
	Path    string // in the file: "keys[0].secret_file"
	Message string
	Hint    string // what to do next
	Err     error  // behind it, or nil
}

// Error returns path, message and hint.
func (e *KeysError) Error() string { return e.Path + ": " + e.Message + ": " + e.Hint }

// Unwrap returns what is behind it.
func (e *KeysError) Unwrap() error { return e.Err }

// KeysErrors is all that is found at once.
type KeysErrors []*KeysError

// Error returns the errors, one a line.
func (es KeysErrors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (es *KeysErrors) add(path, message, hint string) {
	*es = append(*es, &KeysError{Path: path, Message: message, Hint: hint})
}
