// Package httpclient is what callers of a service over HTTP have in common.
package httpclient

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Bearer returns a token, or what a file of it holds, without the space around it;
// "" is none. The file is read each time, since tokens are renewed.
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

// NoRedirects returns a client that follows none: a token is for one server.
func NoRedirects(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RetryAfter reads the header of that name, seconds or a date, and returns 0 to
// most; 0 is nothing to wait for, or nothing that can be read.
func RetryAfter(text string, now time.Time, most time.Duration) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
