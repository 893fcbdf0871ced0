package gateway

import "net/http"

// What pages of other origins may send and read, beside what every page may.
const (
	pageSends = "Authorization, Content-Type, Last-Event-ID, Traceparent, X-Correlation-Id"
	pageReads = CursorHeader + ", Retry-After, X-Correlation-Id"
	pageAsks  = "7200" // seconds for which a browser does not ask again
)

// share lets pages of Options.Origins read the answers of next, which has no
// cookies: what a page may do its token says.
func (g *Gateway) share(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" && g.allowed(origin) {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Expose-Headers", pageReads)
		}
		next(w, r)
	}
}

// preflight answers a browser that asks whether a page may make a request by
// method.
func (g *Gateway) preflight(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.check(r); err != nil {
			g.refuse(w, err)
			return
		}
		w.Header().Set("Access-Control-Allow-Methods", method)
		w.Header().Set("Access-Control-Allow-Headers", pageSends)
		w.Header().Set("Access-Control-Max-Age", pageAsks)
		w.WriteHeader(http.StatusNoContent)
	}
}
