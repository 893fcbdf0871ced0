package httpclient_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
)

func TestTokenOfAFileIsReadEachTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if _, err := httpclient.Bearer("", file); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(" "+want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := httpclient.Bearer("", file); got != want || err != nil {
			t.Errorf("%q, %v, not %q", got, err, want)
		}
	}
	if got, err := httpclient.Bearer("itself", ""); got != "itself" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRedirectionIsAnAnswer(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	defer server.Close()
	response, err := httpclient.NoRedirects(http.DefaultTransport).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusFound {
		t.Error(response.Status)
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "7": 7 * time.Second, "999999999999": time.Hour,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 23:00:00 GMT": time.Hour, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		if got := httpclient.RetryAfter(text, now, time.Hour); got != want {
			t.Errorf("%q: %v, not %v", text, got, want)
		}
	}
}
