package serve

import (
	"fmt"
	"net/http"

	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/internal/http/access"
)

func problem(w http.ResponseWriter, status int, hint, format string, args ...any) {
	ingest.WriteJSON(w, status, ingest.Problem{Error: fmt.Sprintf(format, args...), Hint: hint})
}

// guard lets requests in that bring the token, and where there is none those
// that no web page can have sent: a page may be able to reach this machine's
// loopback by a name of its own, or by a form.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := access.Token(r)
		switch {
		case access.Equal(given, s.admin) || s.options.Token != "" && access.Equal(given, s.options.Token):
		case s.options.Token != "":
			w.Header().Set("WWW-Authenticate", `Bearer realm="afterbay"`)
			problem(w, http.StatusUnauthorized, "send Authorization: Bearer with the token that the process was started with", "the token is missing or wrong")
			return
		case !s.options.Insecure && !access.Loopback(access.HostOf(r)):
			problem(w, http.StatusForbidden, "use 127.0.0.1 or localhost, or give the process a token", "requests for host %q are not taken", r.Host)
			return
		case origin.Check(r) != nil:
			problem(w, http.StatusForbidden, "give the process a token and send it", "requests of other web pages are not taken")
			return
		}
		next.ServeHTTP(w, r)
	})
}
