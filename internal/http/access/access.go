// Package access is what servers of this project judge requests by.
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

// Token returns the bearer token of a request, "" where it has none.
func Token(r *http.Request) string {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return given
}

// Equal compares in a time that tells nothing about either, their lengths
// included.
func Equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
