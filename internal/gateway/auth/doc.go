// Package auth says who a client of the gateway is, by a token that it shows.
//
// There are three forms:
//
//   - v2.<key id>.<claims>.<mac>, Afterbay's own: claims as JSON, and HMAC-SHA256
//     of all before the last point, both in base64url without padding. `afterbay
//     token issue` writes it.
//   - JWT, signed by HS256, RS256 or EdDSA, with keys of the file or of a JWKS that
//     an identity provider publishes.
//   - <client id>:<hex of HMAC-SHA256 of the client id>, which never ends: only
//     where the file of keys has `legacy`.
//
// Whichever key a token names, the form, algorithm, audience and tenant are those of
// the key, never those that the token asks for. All tokens but legacy ones say sub
// (client), aud, iat and exp; tid (tenant) where the key has no tenant; scope, where
// the client may not do everything.
package auth
