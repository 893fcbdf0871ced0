package gateway

import "net/http"

// Headers that pages of other origins may send and read, in addition to the headers that CORS
// always allows.
const (
	pageSends = "Authorization, Content-Type, Last-Event-ID, Traceparent, X-Correlation-Id"
	pageReads = CursorHeader + ", Retry-After, X-Correlation-Id"
	pageAsks  = "7200" // seconds that a browser caches the preflight answer
)

// share lets pages of Options.Origins read the answers of next. next uses no cookies: the token
// alone decides what a page may do.
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

// preflight answers a browser's CORS preflight request for method.
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
