// Package access authenticates and authorises the requests of a server. It holds tokens and their
// roles, and the table that says which role each endpoint requires.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// Loopback reports whether host, without port and brackets, is a loopback address of this machine.
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

// BearerToken returns the token in the Authorization header with the scheme Bearer, or "" if the
// request has no such header.
func BearerToken(r *http.Request) string {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(given)
}

// Equal compares two texts in constant time: the time reveals nothing about them, not even their
// lengths.
func Equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
