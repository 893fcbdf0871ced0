package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func rowsOf(t *testing.T, o Options, keys ...string) ([]string, error) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.Rows(t.Context(), keys)
	var texts []string
	for _, row := range rows {
		if row == nil {
			texts = append(texts, "none")
			continue
		}
		texts = append(texts, string(row))
	}
	return texts, err
}

func TestKeysAreGotOneByOne(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch key := strings.TrimPrefix(r.URL.Path, "/users/"); {
		case r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-Team") != "risk":
			w.WriteHeader(http.StatusForbidden)
		case key == "nobody":
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprintf(w, `{"key":%q,"raw":%q}`, key, r.URL.EscapedPath())
		}
	})
	o := Options{URL: to + "/users/{key}", Bearer: "secret", Headers: map[string]string{"X-Team": "risk"}}
	got, err := rowsOf(t, o, "ann", "nobody", "a/b c")
	want := []string{`{"key":"ann","raw":"/users/ann"}`, "none", `{"key":"a/b c","raw":"/users/a%2Fb%20c"}`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

func TestKeysAreGotByTheQuery(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"key":%q,"more":%q}`, r.URL.Query().Get("id"), r.URL.Query().Get("more"))
	})
	got, err := rowsOf(t, Options{URL: to + "/?id={key}&more=1"}, "a&b=c d")
	if want := []string{`{"key":"a&b=c d","more":"1"}`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

func TestManyKeysAreOnePost(t *testing.T) {
	calls := 0
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		var asked struct{ Keys []string }
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &asked) != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"b": {"n": %d}, "a": null, "z": {}}`, len(asked.Keys))
	})
	got, err := rowsOf(t, Options{URL: to}, "a", "b", "c")
	if want := []string{"none", `{"n": 3}`, "none"}; err != nil || !slices.Equal(got, want) || calls != 1 {
		t.Errorf("%q %v in %d calls, want %q", got, err, calls, want)
	}
}

func TestFaultOfAnAnswerIsTheKeysOrTheServers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		many   bool
		blame  model.Blame
	}{
		"bad request":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, false, model.BlameRows},
		"unprocessable":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) }, true, model.BlameRows},
		"no JSON":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, false, model.BlameRows},
		"no object":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }, true, model.BlameModel},
		"too large":      {func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2000)) }, false, model.BlameRows},
		"fails":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false, model.BlameModel},
		"busy":           {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, false, model.BlameWay},
		"not ready":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, true, model.BlameWay},
		"lets nobody in": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, false, model.BlameWay},
		"not there":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, true, model.BlameWay},
		"elsewhere":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(302) }, false, model.BlameWay},
		"ends on the way": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, "{}")
		}, false, model.BlameWay},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t, c.answer)
			if !c.many {
				to += "/{key}"
			}
			_, err := rowsOf(t, Options{URL: to, BytesMax: 1000}, "a")
			var e *lookup.Error
			if !errors.As(err, &e) || e.Blame() != c.blame {
				t.Errorf("%v: %+v", err, e)
			}
		})
	}
	if _, err := rowsOf(t, Options{URL: "http://127.0.0.1:1/{key}"}, "a"); err == nil {
		t.Error("no error of a port where nobody listens")
	}
	if _, err := rowsOf(t, Options{URL: "http://127.0.0.1:1/{key}"}, ".."); err == nil || !strings.Contains(err.Error(), "not a part of a path") {
		t.Error(err)
	}
}

func TestErrorsShowNoSecretOfTheURL(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for _, text := range []string{server.URL + "/hush/{key}?token=hush", server.URL + "/hush?token=hush"} {
		s, err := New(Options{URL: text})
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"rows": func() error { _, err := s.Rows(t.Context(), []string{"hush"}); return err }(), "check": s.Check(t.Context())} {
			if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "/...?...: ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for _, text := range []string{"ftp://user:hush@host/{key}?hush", "http://user:hush@host/{key}/{key}?hush", "http://host:hush/"} {
		if _, err := New(Options{URL: text}); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
}

func TestWrongURLsAreRefused(t *testing.T) {
	for _, text := range []string{"", "users/{key}", "ftp://a/{key}", "http://a/{key}/{key}", "http://u:p@a/{key}", "http://a b/"} {
		if s, err := New(Options{URL: text}); err == nil {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

// checkOf returns what Check says of a service, and what to do next.
func checkOf(t *testing.T, o Options) (said, hint string) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Check(t.Context())
	if err == nil {
		return "", ""
	}
	var m *lookup.Mistake
	if !errors.As(err, &m) || m.Field != "url" {
		t.Fatalf("%T of %+v: %v", err, m, err)
	}
	return m.Error(), m.Hint
}

func TestCheckSaysHowAServiceDoesNotAnswerWithRows(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/rows":
			if body, _ := io.ReadAll(r.Body); r.Method != http.MethodPost || string(body) != `{"keys":[]}` {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			fmt.Fprint(w, "{}")
		case "/row/0":
			fmt.Fprint(w, `{"trusted":true}`)
		case "/none/0":
			w.WriteHeader(http.StatusNotFound)
		case "/uuid/0":
			w.WriteHeader(http.StatusBadRequest)
		case "/page", "/page/0":
			fmt.Fprint(w, "<html>")
		case "/moved/0":
			http.Redirect(w, r, "/row/0", http.StatusFound)
		case "/locked/0":
			w.WriteHeader(http.StatusUnauthorized)
		case "/busy/0":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	const gone = "http://127.0.0.1:1"
	for _, c := range []struct{ url, said, hint string }{
		{url + "/rows", "", ""},
		{url + "/row/{key}", "", ""},
		{url + "/none/{key}", "", ""},
		{url + "/uuid/{key}", "", ""},
		{url + "/rows?of={key}", "405 Method Not Allowed", "a GET with the row of a key"},
		{url + "/page/{key}", "is not JSON: <html>", "a GET with the row of a key"},
		{url + "/page", "not an object of rows by key", `a POST of {"keys": [...]}`},
		{url + "/none/0", "404 Not Found", `a POST of {"keys": [...]}`},
		{url + "/moved/{key}", "302 Found", "redirects are not followed"},
		{url + "/locked/{key}", "401 Unauthorized", "correct the token"},
		{url + "/busy/{key}", "503 Service Unavailable", "answers with an error"},
		{gone + "/{key}", "connection refused", "start the service there"},
	} {
		said, hint := checkOf(t, Options{URL: c.url})
		if (said == "") != (c.said == "") || !strings.Contains(said, c.said) || !strings.Contains(hint, c.hint) {
			t.Errorf("%s: %q, %q", c.url, said, hint)
		}
	}
}
