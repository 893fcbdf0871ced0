package serving

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/http/server"
)

type format uint8

const (
	formatLines format = iota
	formatJSON
	formatCSV
)

const (
	onErrorContinue = "continue"
	onErrorFail     = "fail"
	onErrorSkip     = "skip"
)

// settings holds the options of a streaming request.
type settings struct {
	ctx       context.Context
	model     *served
	format    format
	header    bool   // the CSV has a header
	encoding  string // encoding of the body: "", "gzip" or "zstd"
	reply     string // encoding of the response
	onError   string
	maxErrors int64 // number of errors after which the stream ends; -1 means no limit
	render    renderer
	expects   bool // 100 Continue: headers are sent only after the first bytes of the body
}

func parseSettings(r *http.Request, m *served) (*settings, *refusal) {
	s := &settings{ctx: r.Context(), model: m, onError: onErrorContinue, maxErrors: -1, expects: r.Header.Get("Expect") != ""}
	if bad := s.content(r.Header.Get("Content-Type")); bad != nil {
		return nil, bad
	}
	coding, err := server.Coding(r, server.Gzip, server.Zstd)
	if err != nil {
		return nil, asRefusal(err, false)
	}
	s.encoding = coding
	s.reply = preferred(strings.Join(r.Header.Values("Accept-Encoding"), ","), "zstd", "gzip")
	if bad := s.accept(strings.Join(r.Header.Values("Accept"), ",")); bad != nil {
		return nil, bad
	}
	return s, s.query(r)
}

func (s *settings) query(r *http.Request) *refusal {
	query := r.URL.Query()
	if query.Has("on_error") {
		s.onError = query.Get("on_error")
	}
	switch s.onError {
	case onErrorContinue, onErrorFail, onErrorSkip:
	default:
		return refuse(http.StatusBadRequest, "bad_query", "on_error=%q: use continue, fail or skip", s.onError)
	}
	if query.Has("max_errors") {
		n, err := strconv.ParseInt(query.Get("max_errors"), 10, 64)
		if err != nil || n < 0 {
			return refuse(http.StatusBadRequest, "bad_query", "max_errors=%q: use a number from 0", query.Get("max_errors"))
		}
		s.maxErrors = n
	}
	return nil
}

// content parses the media type of the body.
func (s *settings) content(header string) *refusal {
	kind, parameters, err := mime.ParseMediaType(header)
	unsupported := func(what string) *refusal {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_type", "%s: use application/x-ndjson, application/jsonl, application/json or text/csv; header=present|absent", what)
	}
	if err != nil {
		return unsupported(fmt.Sprintf("Content-Type %q", header))
	}
	if charset := strings.ToLower(parameters["charset"]); charset != "" && charset != "utf-8" && charset != "utf8" && charset != "us-ascii" {
		return unsupported("charset " + charset)
	}
	switch kind {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines":
		s.format = formatLines
	case "application/json":
		s.format = formatJSON
	case "text/csv":
		s.format = formatCSV
		switch strings.ToLower(parameters["header"]) {
		case "", "present":
			s.header = true
		case "absent":
		default:
			return unsupported("header=" + parameters["header"])
		}
	default:
		return unsupported("Content-Type " + kind)
	}
	return nil
}

// accept selects the format of answers. The default is JSON lines.
func (s *settings) accept(header string) *refusal {
	const ndjson, jsonl, csv, events = "application/x-ndjson", "application/jsonl", "text/csv", "text/event-stream"
	if strings.TrimSpace(header) == "" {
		header = "*/*"
	}
	switch preferred(header, ndjson, jsonl, "application/json", csv, events, "application/*", "text/*", "*/*") {
	case "":
		return refuse(http.StatusNotAcceptable, "not_acceptable", "Accept %q: there are %s, %s and %s", header, ndjson, csv, events)
	case csv, "text/*":
		s.render = &csvLines{model: s.model, header: !strings.Contains(strings.ReplaceAll(strings.ToLower(header), " ", ""), "header=absent")}
	case events:
		s.render = &jsonLines{model: s.model, events: true}
	default:
		s.render = &jsonLines{model: s.model}
	}
	return nil
}

// preferred returns the offer with the highest weight in a header of media types or codings. It
// returns the first of several, or "" if the header names none.
func preferred(header string, offers ...string) string {
	found, most := "", 0.0
	weights := map[string]float64{}
	for part := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		weight := 1.0
		for p := range strings.SplitSeq(parameters, ";") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				if q, err := strconv.ParseFloat(text, 64); err == nil {
					weight = q
				}
			}
		}
		weights[strings.ToLower(strings.TrimSpace(name))] = weight
	}
	for _, offer := range offers {
		if weights[offer] > most {
			found, most = offer, weights[offer]
		}
	}
	return found
}
