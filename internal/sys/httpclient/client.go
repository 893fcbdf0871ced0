// Package httpclient has helpers for HTTP clients.
package httpclient

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Bearer returns token, or the content of file without surrounding space if a file is given. ""
// means no token. It reads the file at each call, since tokens are renewed.
func Bearer(token, file string) (string, error) {
	if file == "" {
		return token, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// NoRedirects returns a client that follows no redirects, so that a token reaches only one server.
func NoRedirects(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RetryAfter parses a Retry-After header, in seconds or as a date. It returns 0 to most. 0 means
// that there is no wait or that the header is invalid.
func RetryAfter(text string, now time.Time, most time.Duration) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
