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

// Endpoint is one thing that a server answers. A Mux is made of endpoints alone, so
// that no path can be without a role.
type Endpoint struct {
	Method  string // of HTTP
	Pattern string // as http.ServeMux has it, without the method
	Role    Role   // that the caller must have
	Of      string // the wildcard of Pattern that names the topic, model or pool of Role; "" if the handler checks that, or the role has none
	Class   server.Class
	Lasts   func(*http.Request) bool // whether it is of class Stream instead; nil is never
	Summary string                   // what it does, in a line
	Handler http.HandlerFunc
}

// Mux answers the endpoints of a server, each for callers with its role. Make one
// with NewMux.
type Mux struct {
	// Renamed maps old paths to new ones. A request for an old path, or for one below
	// it, is refused, and the error names the new path. Set it before the first request.
	Renamed map[string]string

	gate      *Gate
	refuse    func(http.ResponseWriter, *http.Request, *server.Refusal)
	mux       *http.ServeMux
	byPattern map[string]*Endpoint
	all       []Endpoint
}

// NewMux returns a Mux. refuse answers a request that is not taken, in the form of
// the surface. NewMux panics if an endpoint lacks its method, role, summary or
// handler.
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

// Endpoints returns all that the Mux answers.
func (m *Mux) Endpoints() []Endpoint { return m.all }

// Class says which bound of a server.Server a request counts against.
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
	_ = out.Encode(map[string]any{"name": "afterbay", "endpoints": lines}) // the error of a client that is gone has no reader
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

// renamed returns the new path of an old one.
func (m *Mux) renamed(path string) (string, bool) {
	for old, renamed := range m.Renamed {
		if rest, ok := strings.CutPrefix(path, old); ok && (rest == "" || rest[0] == '/') {
			return renamed + rest, true
		}
	}
	return "", false
}

// quote writes a text of others so that it is one line without control characters.
func quote(text string) string {
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return strconv.Quote(text)
}
