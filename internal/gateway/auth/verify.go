package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// BytesMax is the maximum length of a token in bytes.
const BytesMax = 8 << 10

const v2Prefix = V2 + "."

// encoding is canonical: each byte sequence has exactly one text. The decoder ignores line breaks,
// but wellFormed rejects them.
var encoding = base64.RawURLEncoding.Strict()

// Identity is the verified owner of a token.
type Identity struct {
	Tenant  string    // 1 to 255 bytes
	Client  string    // 1 to 255 bytes
	Scope   string    // words separated by spaces; "" means no limit
	Expires time.Time // zero for a legacy token, which never expires
	Key     string    // id of the key that signed it
}

// Verify returns the identity of a token. The error is an *Error, only for logs. ctx limits the
// wait for a JWKS.
func (k *Keyring) Verify(ctx context.Context, token string) (Identity, error) {
	who, err := k.verify(ctx, token)
	k.count(err)
	return who, err
}

func (k *Keyring) verify(ctx context.Context, token string) (Identity, error) {
	switch {
	case len(token) > BytesMax:
		return Identity{}, &Error{Reason: TooLarge}
	case strings.Contains(token, ":"):
		return k.verifyLegacy(token)
	case !wellFormed(token):
		return Identity{}, &Error{Reason: Malformed}
	case strings.HasPrefix(token, v2Prefix):
		return k.verifyV2(token)
	}
	return k.verifyJWT(ctx, token)
}

// wellFormed reports whether token has only base64url characters and dots.
func wellFormed(token string) bool {
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// verifyV2 verifies a v2 token. It parses the claims only after the signature check.
func (k *Keyring) verifyV2(token string) (Identity, error) {
	parts := strings.SplitN(token, ".", 5) // five parts are too many
	if len(parts) != 4 {
		return Identity{}, &Error{Reason: Malformed}
	}
	found := k.keys[parts[1]]
	switch {
	case found == nil:
		return Identity{}, &Error{Reason: UnknownKey}
	case found.algorithm != V2:
		return Identity{}, &Error{Reason: WrongAlgorithm, Key: found.id}
	}
	mac, err := encoding.DecodeString(parts[3])
	if err != nil || !hmac.Equal(mac, macOf(found, token[:len(token)-len(parts[3])-1])) {
		return Identity{}, &Error{Reason: BadSignature, Key: found.id}
	}
	claims := jwt.MapClaims{} // a map, because decoding into a struct would accept SUB for sub
	text, err := encoding.DecodeString(parts[2])
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil {
		return Identity{}, &Error{Reason: Malformed, Key: found.id, Signed: true}
	}
	return k.judge(found, claims)
}

// macOf returns the HMAC-SHA256 of text with a v2 or legacy key.
func macOf(by *key, text string) []byte {
	mac := hmac.New(sha256.New, by.material.([]byte))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (k *Keyring) verifyJWT(ctx context.Context, token string) (Identity, error) {
	claims := jwt.MapClaims{}
	var found *key
	_, err := k.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (_ any, err error) {
		if found, err = k.keyOf(ctx, t); err != nil {
			return nil, err
		}
		return found.material, nil
	})
	var refusal *Error
	switch {
	case err == nil:
		return k.judge(found, claims)
	case errors.As(err, &refusal):
		return Identity{}, refusal
	case found != nil:
		return Identity{}, &Error{Reason: BadSignature, Key: found.id}
	case errors.Is(err, jwt.ErrTokenMalformed):
		return Identity{}, &Error{Reason: Malformed}
	}
	return Identity{}, &Error{Reason: WrongAlgorithm}
}

// keyOf returns the key that a JWT header names. It rejects a token with another algorithm than its
// key's. Otherwise an attacker could use a public key as an HMAC secret.
func (k *Keyring) keyOf(ctx context.Context, token *jwt.Token) (*key, error) {
	header := token.Header
	if _, extended := header["crit"]; extended { // crit requires a verifier to reject headers that it does not understand
		return nil, &Error{Reason: Malformed, Detail: "its header has crit"}
	}
	id, ok := header["kid"].(string)
	if !ok || !named(id) {
		return nil, &Error{Reason: Malformed, Detail: "its header names no key (kid)"}
	}
	found := k.keys[id]
	if found == nil && k.set != nil {
		var issued time.Time
		at, err := token.Claims.GetIssuedAt() // the signature is not verified yet
		if err == nil && at != nil {
			issued = at.Time
		}
		if found, err = k.set.find(ctx, id, issued); err != nil {
			return nil, &Error{Reason: KeysUnavailable, Err: err}
		}
	}
	switch {
	case found == nil:
		return nil, &Error{Reason: UnknownKey}
	case header["alg"] != found.algorithm:
		return nil, &Error{Reason: WrongAlgorithm, Key: found.id}
	}
	return found, nil
}

func (k *Keyring) verifyLegacy(token string) (Identity, error) {
	if k.legacy == nil {
		return Identity{}, &Error{Reason: LegacyOff}
	}
	client, signature, _ := strings.Cut(token, ":")
	mac, err := hex.DecodeString(signature)
	if err != nil || !hmac.Equal(mac, macOf(k.legacy, client)) || signature != hex.EncodeToString(mac) {
		return Identity{}, &Error{Reason: BadSignature, Key: k.legacy.id}
	}
	if !named(client) {
		return Identity{}, &Error{Reason: Incomplete, Key: k.legacy.id, Signed: true, Detail: "the client is not a valid name"}
	}
	return Identity{Tenant: k.legacy.tenant, Client: client, Key: k.legacy.id}, nil
}

// judge validates the claims of a token with a valid signature, and returns its identity.
func (k *Keyring) judge(by *key, claims jwt.MapClaims) (Identity, error) {
	refuse := func(reason Reason, detail string) (Identity, error) {
		return Identity{}, &Error{Reason: reason, Key: by.id, Signed: true, Detail: detail}
	}
	issued, notIssued := claims.GetIssuedAt()
	expires, notExpires := claims.GetExpirationTime()
	from, notFrom := claims.GetNotBefore()
	if notIssued != nil || notExpires != nil || notFrom != nil || issued == nil || expires == nil {
		return refuse(Incomplete, "iat and exp must be times, in seconds since 1970")
	}
	now := k.now()
	if late := now.Sub(expires.Time); late >= k.skew {
		return refuse(Expired, "it ended "+late.Round(time.Second).String()+" ago")
	}
	if early := issued.Sub(now); early > k.skew {
		return refuse(NotYetValid, "it is issued in "+early.Round(time.Second).String())
	}
	if from != nil && from.Sub(now) > k.skew {
		return refuse(NotYetValid, "it begins in "+from.Sub(now).Round(time.Second).String())
	}
	if lasts := expires.Sub(issued.Time); lasts > k.lifetime {
		return refuse(TooLong, "it is for "+lasts.String()+", at most "+k.lifetime.String())
	}
	if by.issuer != "" && claims["iss"] != by.issuer {
		return refuse(WrongIssuer, "")
	}
	if audience, err := claims.GetAudience(); err != nil || !slices.Contains(audience, by.audience) {
		return refuse(WrongAudience, "")
	}
	return k.identity(by, claims, expires.Time, refuse)
}

func (k *Keyring) identity(by *key, claims jwt.MapClaims, expires time.Time, refuse func(Reason, string) (Identity, error)) (Identity, error) {
	who := Identity{Tenant: by.tenant, Expires: expires, Key: by.id}
	if said, ok := claims["tid"]; ok {
		tenant, _ := said.(string)
		switch {
		case !named(tenant):
			return refuse(Incomplete, "tid is not a valid name")
		case by.tenant != "" && by.tenant != tenant:
			return refuse(WrongTenant, "")
		}
		who.Tenant = tenant
	}
	if who.Tenant == "" {
		return refuse(Incomplete, "tid is missing")
	}
	if who.Client, _ = claims["sub"].(string); !named(who.Client) {
		return refuse(Incomplete, "sub is not a valid name")
	}
	if said, ok := claims["scope"]; ok {
		if who.Scope, ok = said.(string); !ok || !scoped(who.Scope) {
			return refuse(Incomplete, "scope is not a list of words separated by spaces")
		}
	}
	return who, nil
}

// scoped reports whether text is a valid scope: printable ASCII, as in RFC 6749.
func scoped(text string) bool {
	return text != "" && len(text) <= scopeBytes && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}
