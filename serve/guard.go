package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/afterbay/afterbay/ingest"
)

func problem(w http.ResponseWriter, status int, hint, format string, args ...any) {
	ingest.WriteJSON(w, status, ingest.Problem{Error: fmt.Sprintf(format, args...), Hint: hint})
}

// bounded refuses requests over requestsMax, and gives each reply its time.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.requests <- struct{}{}:
			defer func() { <-s.requests }()
		default:
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusServiceUnavailable, "send it again later", "%d requests are under way", requestsMax)
			return
		}
		extend(w)
		next.ServeHTTP(w, r)
	})
}

// extend gives the reply, or the next part of a stream, its time from now.
func extend(w http.ResponseWriter) {
	// A writer without deadlines is a test's.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTimeout + writeTimeout))
}

// guard lets requests in that bring the token, and where there is none those
// that no web page can have sent: a page may be able to reach this machine's
// loopback by a name of its own, or by a form.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case equal(given, s.admin) || s.options.Token != "" && equal(given, s.options.Token):
		case s.options.Token != "":
			w.Header().Set("WWW-Authenticate", `Bearer realm="afterbay"`)
			problem(w, http.StatusUnauthorized, "send Authorization: Bearer with the token that the process was started with", "the token is missing or wrong")
			return
		case !s.options.Insecure && !loopback(hostOf(r)):
			problem(w, http.StatusForbidden, "use 127.0.0.1 or localhost, or give the process a token", "requests for host %q are not taken", r.Host)
			return
		case origin.Check(r) != nil:
			problem(w, http.StatusForbidden, "give the process a token and send it", "requests of other web pages are not taken")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}

// equal compares in a time that tells nothing about either, their lengths
// included.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
