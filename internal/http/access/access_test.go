package access

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/server"
)

const (
	shopToken  = "shop-0123456789abcdef0123456789abcdef"
	rootToken  = "root-0123456789abcdef0123456789abcdef"
	shortToken = "too-short"
)

func newSet(t *testing.T) *Set {
	t.Helper()
	s := &Set{}
	for _, one := range []struct {
		name, secret string
		roles        Roles
	}{
		{"shop", shopToken, Roles{Produce: []string{"payments", "clicks.*"}, Read: []string{"decisions"}, Infer: []string{"fraud*"}}},
		{"root", rootToken, Roles{Admin: true}},
		{"short", shortToken, Roles{Admin: true}},
	} {
		if err := s.Add(one.name, sha256.Sum256([]byte(one.secret)), one.roles); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestTokensAreNamedAndGivenOnce(t *testing.T) {
	s := newSet(t)
	if err := s.Add("shop", sha256.Sum256([]byte("other")), Roles{}); err == nil {
		t.Error("a name was taken twice")
	}
	if err := s.Add("copy", sha256.Sum256([]byte(shopToken)), Roles{}); err == nil {
		t.Error("a token was taken twice")
	}
}

func TestRolesAreForWhatTheyName(t *testing.T) {
	shop, root := newSet(t).find(shopToken), newSet(t).find(rootToken)
	for _, c := range []struct {
		role       Role
		of         string
		shop, root bool
	}{
		{Produce, "payments", true, true},
		{Produce, "payments2", false, true},
		{Produce, "clicks.web", true, true},
		{Produce, "clicks", false, true},
		{Produce, "", true, true},
		{Read, "payments", false, true},
		{Read, "decisions", true, true},
		{Infer, "fraud", true, true},
		{Infer, "fraud/2", true, true},
		{Infer, "afraud", false, true},
		{Work, "", false, true},
		{Metrics, "", false, true},
		{Admin, "", false, true},
		{Known, "", true, true},
		{Owner, "", false, false},
	} {
		if got := shop.May(c.role, c.of); got != c.shop {
			t.Errorf("shop: %s %q is %v", c.role, c.of, got)
		}
		if got := root.May(c.role, c.of); got != c.root {
			t.Errorf("root: %s %q is %v", c.role, c.of, got)
		}
	}
	if !shop.Names(Produce, "payments") || shop.Names(Produce, "clicks.web") || root.Names(Produce, "payments") {
		t.Error("a topic is named by its name alone, neither by a pattern nor by an administrator")
	}
}

// fixed is a token file that does not change.
type fixed struct{ set *Set }

func (f fixed) Get() *Set { return f.set }

func (f fixed) Stale() bool { return false }

func TestTokensAreBearerTokensOf32BytesAtLeast(t *testing.T) {
	gate := &Gate{Tokens: fixed{newSet(t)}}
	for header, want := range map[string]int{
		"Bearer " + shopToken: 0, "bearer " + shopToken: 0, shopToken: 401, "Basic " + shopToken: 401, "Bearer" + shopToken: 401,
		"Bearer " + shortToken: 401, "": 401, "Bearer ": 401, "Bearer x" + shopToken: 401,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		_, why := gate.Caller(r)
		if got := status(why); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
}

func status(why *server.Refusal) int {
	if why == nil {
		return 0
	}
	return why.Status
}

func TestAnEndpointCannotBeWithoutARole(t *testing.T) {
	handle := func(http.ResponseWriter, *http.Request) {}
	for name, e := range map[string]Endpoint{
		"no role":      {Method: "GET", Pattern: "/a", Summary: "A.", Handler: handle},
		"unknown role": {Method: "GET", Pattern: "/a", Role: "boss", Summary: "A.", Handler: handle},
		"no method":    {Pattern: "/a", Role: Admin, Summary: "A.", Handler: handle},
		"no summary":   {Method: "GET", Pattern: "/a", Role: Admin, Handler: handle},
		"no wildcard":  {Method: "GET", Pattern: "/a", Role: Read, Of: "topic", Summary: "A.", Handler: handle},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it was mounted", name)
				}
			}()
			NewMux(&Gate{}, nil, e)
		}()
	}
}

func TestEndpointsAskForTheirRoles(t *testing.T) {
	var last *Caller
	handle := func(w http.ResponseWriter, r *http.Request) { last = From(r.Context()) }
	mux := NewMux(&Gate{Owner: "owner", Tokens: fixed{newSet(t)}},
		func(w http.ResponseWriter, _ *http.Request, why *server.Refusal) { why.Write(w) },
		Endpoint{Method: "GET", Pattern: "/health", Role: Public, Class: server.Health, Summary: "Health.", Handler: handle},
		Endpoint{Method: "GET", Pattern: "/topics/{topic}", Role: Read, Of: "topic", Summary: "Read.", Lasts: func(r *http.Request) bool { return r.URL.Query().Has("follow") }, Handler: handle},
		Endpoint{Method: "POST", Pattern: "/topics/{topic}", Role: Produce, Of: "topic", Summary: "Append.", Handler: handle},
		Endpoint{Method: "POST", Pattern: "/owner", Role: Owner, Summary: "Do.", Handler: handle},
	)
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/health", "", 200},
		{"GET", "/topics/decisions", "", 401},
		{"GET", "/topics/decisions", shopToken, 200},
		{"GET", "/topics/payments", shopToken, 403},
		{"POST", "/topics/payments", shopToken, 200},
		{"POST", "/topics/decisions", shopToken, 403},
		{"DELETE", "/topics/decisions", shopToken, 405},
		{"POST", "/owner", rootToken, 403},
		{"POST", "/owner", "owner", 200},
		{"GET", "/nothing", shopToken, 404},
		{"GET", "/nothing", "", 401},
		{"GET", "/", shopToken, 200},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s by %q: %d %s, want %d", c.method, c.path, c.token, w.Code, w.Body, c.want)
		}
		if c.path == "/" && (strings.Contains(w.Body.String(), "/owner") || !strings.Contains(w.Body.String(), "/topics/{topic}")) {
			t.Errorf("the list of endpoints: %s", w.Body)
		}
	}
	if last == nil || last.Name != "command line" {
		t.Errorf("the last caller is %+v", last)
	}
	for path, want := range map[string]server.Class{"/health": server.Health, "/topics/a": server.Data, "/topics/a?follow=true": server.Stream, "/nothing": server.Operator} {
		if got := mux.Class(httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("class of %s is %v, want %v", path, got, want)
		}
	}
}
