package admin

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
)

// TestOnlyTheOwnerOfADirectoryHasItDerivedAgain asks with each token, and none: the
// request names a file whose models may be programs.
func TestOnlyTheOwnerOfADirectoryHasItDerivedAgain(t *testing.T) {
	asked := 0
	s := newServer(memory.New(memory.Options{}), Options{Token: "secret", Logger: slog.New(slog.DiscardHandler), Reprocess: func(_ context.Context, r reprocess.Request) iter.Seq2[reprocess.Progress, error] {
		return func(yield func(reprocess.Progress, error) bool) {
			asked++
			yield(reprocess.Progress{Group: r.File, Done: true}, nil)
		}
	}}, nil)
	server := httptest.NewServer(s.http)
	defer server.Close()
	for token, want := range map[string]int{"": http.StatusUnauthorized, "secret": http.StatusForbidden, s.admin: http.StatusOK} {
		client := &Client{URL: server.URL, Token: token}
		got := http.StatusOK
		for p, err := range client.Reprocess(t.Context(), reprocess.Request{File: "new.yaml"}) {
			if refused, ok := err.(*StatusError); ok {
				got = refused.Status
			} else if err != nil || p.Group != "new.yaml" || !p.Done {
				t.Errorf("%+v, %v", p, err)
			}
		}
		if got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
