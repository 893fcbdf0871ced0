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

// Check asks the service as rows are asked for, by a GET for a key that nobody may
// have or a POST of no keys, and says what is wrong with the answer. That there is no
// such row, or that the key is refused, is an answer.
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

// shape says what answers are like.
func (s *Source) shape() string {
	if s.Single() {
		return "name what answers a GET with the row of a key, an object of JSON"
	}
	return `name what answers a POST of {"keys": [...]} with an object of rows by key, or write {key} into the URL to get each by itself`
}

func (s *Source) hint(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "correct the token, by token or token_file, or the headers"
	case status >= 300 && status < 400:
		return "name where it leads to: redirects are not followed"
	case status == http.StatusTooManyRequests, status >= 500:
		return "the service is there, and cannot answer: try again, or see what it logs"
	}
	return s.shape()
}
