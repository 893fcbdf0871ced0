package auth

import (
	"strings"
	"time"
)

// Limits for a keys file, and for the files that it names.
const (
	keysMax     = 16       // keys in the file
	secretMin   = 32       // bytes: the size of an HMAC-SHA256
	fileBytes   = 64 << 10 // size of a secret file or public key file
	rsaBitsMin  = 2048     //
	rsaBitsMax  = 8192     // a larger key costs milliseconds for each token
	lifetimeMax = 24 * time.Hour
	skewMax     = 5 * time.Minute
	keyIDRule   = "1 to 64 letters, digits, - and _"
	nameBytes   = 255 // of a client, tenant or audience
	scopeBytes  = 1024
)

// The algorithms of keys.
const (
	V2    = "v2" // HMAC-SHA256, in Afterbay's own form
	HS256 = "HS256"
	RS256 = "RS256"
	EdDSA = "EdDSA"
)

// Keys configures which tokens are accepted.
type Keys struct {
	Keys     []Key         // at most 16; an issuer may have two while a new key replaces the old one
	JWKS     *JWKS         // nil is none
	Legacy   *Legacy       // nil is none: such tokens are refused
	Lifetime time.Duration // longest time from iat to exp of a token; 0 is 1 h
	Skew     time.Duration // maximum clock difference between issuers and the gateway; 0 is 30 s
}

// Key is a key that verifies tokens. A key with a secret also signs them.
type Key struct {
	ID         string // id that tokens name: 1 to 64 letters, digits, - and _
	Algorithm  string // algorithm of the key's tokens, whatever algorithm a token names: v2 (default) is Afterbay's own form, the others are JWT
	Secret     string // secret of v2 and HS256: at least 32 bytes
	SecretFile string // a file that contains only the secret; surrounding white space is ignored
	PublicFile string // for RS256 and EdDSA: a PEM file with the public key
	Audience   string // audience (aud) that the key's tokens must name
	Tenant     string // tenant of all tokens of the key; "" is the tid of each token
}

// JWKS is a key set that an identity provider publishes and may replace at any time (RFC 7517).
// Only those for RS256 and EdDSA are used.
type JWKS struct {
	URL      string // URL of the set, https except on this machine; read every 10 min, and for an unknown key, at most once a minute; while it is down, the previous set stays in use
	File     string // instead of URL: a file with the set, read as often
	Issuer   string // issuer (iss) that its tokens must name; "" is any
	Audience string // audience (aud) that its tokens must name
	Tenant   string // tenant of all its tokens; "" is the tid of each token
}

// Legacy accepts tokens `<client id>:<hex of HMAC-SHA256 of the client id>`, which never expire and
// which every service with the secret accepts.
type Legacy struct {
	Secret     string // at least 32 bytes
	SecretFile string // a file that contains only the secret
	Tenant     string // tenant of all such tokens
}

// KeysError is one error in a keys file.
type KeysError struct {
	Path    string // path in the file, such as "keys[0].secret_file"
	Message string
	Hint    string // what to do next
	Err     error  // the cause, or nil
}

// Error returns the path, message and hint.
func (e *KeysError) Error() string { return e.Path + ": " + e.Message + ": " + e.Hint }

// Unwrap returns the cause.
func (e *KeysError) Unwrap() error { return e.Err }

// KeysErrors is a list of all errors in a keys file.
type KeysErrors []*KeysError

// Error returns the errors, one on each line.
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
