// Package auth authenticates clients of the gateway by a token.
//
// There are three forms of token:
//
//   - v2.<key id>.<claims>.<mac>, Afterbay's own form. The claims are JSON. The mac is
//     HMAC-SHA256 of everything before the last dot. Both are in base64url without
//     padding. `afterbay token issue` creates such tokens.
//   - JWT, signed with HS256, RS256 or EdDSA. The keys are in the keys file, or in a JWKS
//     that an identity provider publishes.
//   - <client id>:<hex of HMAC-SHA256 of the client id>, which never expires. It is
//     accepted only if the keys file contains `legacy`.
//
// A token names its key. The form, algorithm, audience and tenant are always those of the key, not
// those that the token claims. Every token except a legacy one contains sub (client), aud, iat and
// exp. It also contains tid (tenant) if the key has no tenant, and scope if it limits what the
// client may do.
package auth
