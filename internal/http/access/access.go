// Package access authenticates and authorises the requests of a server: tokens and
// their roles, and the table of endpoints that says which role each of them needs.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// Loopback reports whether host, without port and brackets, is this machine alone.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// HostOf returns the host that a request names, without port and brackets.
func HostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}

// BearerToken returns the token of a request, "" where it has none: the scheme is
// Bearer, and nothing else is a token.
func BearerToken(r *http.Request) string {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(given)
}

// Equal compares in a time that tells nothing about either, their lengths
// included.
func Equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
