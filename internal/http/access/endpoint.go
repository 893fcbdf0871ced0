package access

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/http/server"
)

// Endpoint is one operation of a server. A Mux consists only of endpoints, so every path has a
// role.
type Endpoint struct {
	Method  string // HTTP method
	Pattern string // pattern of http.ServeMux, without the method
	Role    Role   // required role of the caller
	Of      string // wildcard of Pattern that names the topic, model or pool for Role; "" if the handler checks it, or the role needs none
	Class   server.Class
	Lasts   func(*http.Request) bool // whether the request has class Stream instead; nil means never
	Summary string                   // description in one line
	Handler http.HandlerFunc
}

// Mux routes requests to endpoints, and checks the caller's role for each. Create one with NewMux.
type Mux struct {
	// Renamed maps old paths to new ones. A request for an old path, or for one below it, gets an
	// error that names the new path. Set it before the first request.
	Renamed map[string]string

	gate      *Gate
	refuse    func(http.ResponseWriter, *http.Request, *server.Refusal)
	mux       *http.ServeMux
	byPattern map[string]*Endpoint
	all       []Endpoint
}

// NewMux returns a Mux. refuse writes the error reply for a rejected request, in the format of the
// server. NewMux panics if an endpoint lacks its method, role, summary or handler.
func NewMux(gate *Gate, refuse func(http.ResponseWriter, *http.Request, *server.Refusal), endpoints ...Endpoint) *Mux {
	m := &Mux{gate: gate, refuse: refuse, mux: http.NewServeMux(), byPattern: map[string]*Endpoint{}, all: endpoints}
	m.all = append(m.all, Endpoint{Method: http.MethodGet, Pattern: "/{$}", Role: Known, Class: server.Operator, Summary: "List the endpoints.", Handler: m.index})
	for i := range m.all {
		e := &m.all[i]
		if e.Method == "" || e.Role == "" || e.Summary == "" || e.Handler == nil || !valid(e.Role) {
			panic(fmt.Sprintf("access: endpoint %s %s lacks its method, role, summary or handler", e.Method, e.Pattern))
		}
		if e.Of != "" && !strings.Contains(e.Pattern, "{"+e.Of+"}") {
			panic(fmt.Sprintf("access: endpoint %s %s has no {%s}", e.Method, e.Pattern, e.Of))
		}
		m.byPattern[e.Method+" "+e.Pattern] = e
		m.mux.HandleFunc(e.Method+" "+e.Pattern, func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, e) })
	}
	unknown := &Endpoint{Role: Known, Class: server.Operator, Handler: m.unknown}
	m.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, unknown) })
	return m
}

func valid(r Role) bool {
	switch r {
	case Public, Known, Produce, Read, Infer, Work, Metrics, Admin, Owner:
		return true
	}
	return false
}

// Endpoints returns all endpoints of the Mux.
func (m *Mux) Endpoints() []Endpoint { return m.all }

// Class returns the class of a request, for the limits of a server.Server.
func (m *Mux) Class(r *http.Request) server.Class {
	_, pattern := m.mux.Handler(r)
	e := m.byPattern[pattern]
	switch {
	case e == nil:
		return server.Operator
	case e.Lasts != nil && e.Lasts(r):
		return server.Stream
	}
	return e.Class
}

// ServeHTTP answers a request.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

func (m *Mux) serve(w http.ResponseWriter, r *http.Request, e *Endpoint) {
	if e.Role != Public {
		caller, why := m.gate.Caller(r)
		of := ""
		if e.Of != "" {
			of = r.PathValue(e.Of)
		}
		if why == nil && !caller.May(e.Role, of) {
			why = caller.lacks(e.Role, of)
		}
		if why != nil {
			if why.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="afterbay"`)
			}
			m.refuse(w, r, why)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
	}
	e.Handler(w, r)
}

// index lists the endpoints that the caller may use.
func (m *Mux) index(w http.ResponseWriter, r *http.Request) {
	type line struct {
		Method  string `json:"method"`
		Path    string `json:"path"`
		Role    Role   `json:"role"`
		Summary string `json:"summary"`
	}
	caller, lines := From(r.Context()), []line{}
	for i := range m.all {
		if e := &m.all[i]; caller.May(e.Role, "") {
			lines = append(lines, line{e.Method, shown(e.Pattern), e.Role, e.Summary})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(map[string]any{"name": "afterbay", "endpoints": lines}) // an error means that the client has disconnected
}

func shown(pattern string) string { return strings.TrimSuffix(pattern, "{$}") }

// unknown answers requests without an endpoint.
func (m *Mux) unknown(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for i := range m.all {
		e := &m.all[i]
		copied := *r
		copied.Method = e.Method
		if _, pattern := m.mux.Handler(&copied); pattern == e.Method+" "+e.Pattern {
			methods = append(methods, e.Method)
		}
	}
	if len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		m.refuse(w, r, &server.Refusal{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: r.Method + " " + quote(r.URL.Path) + " is not an endpoint", Hint: "use " + strings.Join(methods, " or ")})
		return
	}
	hint := "GET / lists them"
	if path, ok := m.renamed(r.URL.Path); ok {
		hint = "use " + quote(path) + ": the path was renamed"
	}
	m.refuse(w, r, &server.Refusal{Status: http.StatusNotFound, Code: "not_found", Message: r.Method + " " + quote(r.URL.Path) + " is not an endpoint", Hint: hint})
}

// renamed returns the new path of a renamed path.
func (m *Mux) renamed(path string) (string, bool) {
	for old, renamed := range m.Renamed {
		if rest, ok := strings.CutPrefix(path, old); ok && (rest == "" || rest[0] == '/') {
			return renamed + rest, true
		}
	}
	return "", false
}

// quote returns untrusted text as one line without control characters.
func quote(text string) string {
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return strconv.Quote(text)
}
