package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/lookup"
)

// Check sends a request like that for rows: a GET for a key that may not exist, or a POST without
// keys. It returns an error if the answer is unusable. A missing row and a refused key are valid
// answers.
func (s *Source) Check(ctx context.Context) error {
	keys := []string{}
	if s.Single() {
		keys = append(keys, lookups.CheckKey)
	}
	_, err := s.Rows(ctx, keys)
	var status *statusError
	var of *lookup.Error
	m := &lookup.Mistake{Field: "url", Err: fmt.Errorf("ask for rows by HTTP: %w", err)}
	switch answered := errors.As(err, &status); {
	case err == nil, answered && calling.Refused(err):
		return nil
	case answered:
		m.Hint = s.hint(status.status)
	case errors.As(err, &of) && (of.Refused || of.Failed):
		m.Hint = s.shape()
	default:
		m.Hint = "start the service there, or correct the URL"
	}
	return m
}

// shape returns a hint that describes valid answers.
func (s *Source) shape() string {
	if s.Single() {
		return "use a URL that answers a GET with the row of a key, a JSON object"
	}
	return `use a URL that answers a POST of {"keys": [...]} with an object of rows by key, or write {key} into the URL to request each row`
}

func (s *Source) hint(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "correct the token, by token or token_file, or the headers"
	case status >= 300 && status < 400:
		return "use the target of the redirect: redirects are not followed"
	case status == http.StatusTooManyRequests, status >= 500:
		return "the service answers with an error: try again, or read its log"
	}
	return s.shape()
}
