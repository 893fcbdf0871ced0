package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// Client is a Directory that calls another process.
type Client struct {
	URL   string // http://host:port
	Token string // "" sends none
	Key   string // field with the keys of appended records; "" uses the topic's key field

	http *http.Client // nil is http.DefaultClient
}

var _ inspect.Directory = (*Client)(nil)

// StatusError is an error reply.
type StatusError struct {
	Status int
	ingest.Problem
	After time.Duration // when to send the request again, if the reply says so
}

// Error returns the problem and what to do next.
func (e *StatusError) Error() string {
	text := e.Problem.Error
	if text == "" {
		text = fmt.Sprintf("status %d", e.Status)
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap returns the sentinel error for the status, or nil.
func (e *StatusError) Unwrap() error {
	switch {
	case e.Status == http.StatusNotFound && strings.Contains(e.Problem.Error, inspect.ErrUnknownPipeline.Error()):
		return inspect.ErrUnknownPipeline
	case e.Status == http.StatusNotFound:
		return stream.ErrUnknownTopic
	case e.Status == http.StatusRequestEntityTooLarge:
		return stream.ErrTooLarge
	}
	return nil
}

// do sends a request and returns the reply if it is a success.
func (c *Client) do(ctx context.Context, method, path string, body []byte, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	reply, err := cmp.Or(c.http, http.DefaultClient).Do(r)
	var away *url.Error
	if errors.As(err, &away) && ctx.Err() == nil {
		return nil, fmt.Errorf("ask the process at %s://%s: %w: check the address, and that afterbay runs there", r.URL.Scheme, r.URL.Host, away.Err)
	}
	if err != nil {
		return nil, err
	}
	if reply.StatusCode/100 == 2 {
		return reply, nil
	}
	defer reply.Body.Close()
	failure := &StatusError{Status: reply.StatusCode}
	if seconds, err := strconv.ParseUint(reply.Header.Get("Retry-After"), 10, 16); err == nil {
		failure.After = time.Duration(seconds) * time.Second
	}
	text, _ := io.ReadAll(io.LimitReader(reply.Body, 64<<10))
	if json.Unmarshal(text, &failure.Problem) != nil {
		failure.Problem.Error = fmt.Sprintf("%s %s: %s: %s", method, r.URL.Redacted(), reply.Status, bytes.TrimSpace(text[:min(len(text), 200)]))
	}
	return nil, failure
}

// call sends a request and decodes the JSON reply into v, unless v is nil.
func (c *Client) call(ctx context.Context, method, path string, body []byte, v any, headers ...string) error {
	reply, err := c.do(ctx, method, path, body, headers...)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if v == nil {
		return nil
	}
	if err := json.NewDecoder(reply.Body).Decode(v); err != nil {
		return fmt.Errorf("read the reply of %s: %w", c.URL, err)
	}
	return nil
}

// Append implements Directory. The values must not contain newlines; the other process extracts
// their keys. If a pipeline is too far behind, Append waits.
func (c *Client) Append(ctx context.Context, records ...stream.Record) error {
	_, err := c.post(ctx, records, func(int) []string { return nil })
	return err
}

// AppendOnce implements Directory, with the limits of Append.
func (c *Client) AppendOnce(ctx context.Context, producer string, first int64, records ...stream.Record) (int, error) {
	return c.post(ctx, records, func(at int) []string {
		return []string{ingest.HeaderProducer, producer, ingest.HeaderSequence, strconv.FormatInt(first+int64(at), 10)}
	})
}

// post appends records, in several requests if one would be too large. numbering returns the
// headers for the records from an index on.
func (c *Client) post(ctx context.Context, records []stream.Record, numbering func(at int) []string) (repeated int, err error) {
	if len(records) == 0 {
		return 0, nil
	}
	path := "/v1/topics/" + url.PathEscape(records[0].Partition.Topic)
	if c.Key != "" {
		path += "?key=" + url.QueryEscape(c.Key)
	}
	for at, most := 0, len(records); at < len(records); {
		var body []byte
		part := records[at:min(len(records), at+most)]
		for i := range part {
			body = append(append(body, part[i].Value...), '\n')
		}
		var reply ingest.Reply
		err := c.call(ctx, http.MethodPost, path, body, &reply, numbering(at)...)
		var refused *StatusError
		switch {
		case err == nil:
			repeated, at = repeated+reply.Repeated, at+len(part)
		case errors.As(err, &refused) && refused.Status == http.StatusRequestEntityTooLarge && len(part) > 1:
			most = len(part) / 2
		case errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests:
			select {
			case <-time.After(max(refused.After, time.Second)):
			case <-ctx.Done():
				return repeated, err
			}
		default:
			return repeated, err
		}
	}
	return repeated, nil
}

// CreateTopic implements Directory.
func (c *Client) CreateTopic(ctx context.Context, topic stream.Topic) error {
	body := fmt.Appendf(nil, `{"partitions":%d,"key":%s}`, topic.Partitions, inspect.AppendText(nil, []byte(topic.Key)))
	return c.call(ctx, http.MethodPut, "/v1/topics/"+url.PathEscape(topic.Name), body, nil)
}

// DeleteTopic implements Directory.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/topics/"+url.PathEscape(name), nil, nil)
}

// List implements Directory.
func (c *Client) List(ctx context.Context) ([]inspect.Topic, error) {
	var reply struct{ Topics []inspect.Topic }
	err := c.call(ctx, http.MethodGet, "/v1/topics", nil, &reply)
	return reply.Topics, err
}

// Records implements Directory.
func (c *Client) Records(ctx context.Context, q inspect.Query) iter.Seq2[stream.Record, error] {
	values := url.Values{}
	if q.Partition != inspect.AllPartitions {
		values.Set("partition", strconv.Itoa(int(q.Partition)))
	}
	values.Set("offset", strconv.FormatInt(q.From, 10))
	values.Set("limit", strconv.FormatInt(q.Limit, 10))
	values.Set("follow", strconv.FormatBool(q.Follow))
	values.Set("view", strconv.FormatBool(q.View))
	path := "/v1/topics/" + url.PathEscape(q.Topic) + "/records?" + values.Encode()
	return readLines(ctx, c, http.MethodGet, path, func(line []byte) (stream.Record, error) { return inspect.ParseRecord(line, q.Topic) })
}

// Entries implements Directory.
func (c *Client) Entries(ctx context.Context, pipeline string, key *string) iter.Seq2[inspect.Entry, error] {
	path := "/v1/state/" + url.PathEscape(pipeline)
	if key != nil {
		path += "/" + url.PathEscape(*key)
	}
	return readLines(ctx, c, http.MethodGet, path, parseEntry)
}

// EntriesOf implements Directory.
func (c *Client) EntriesOf(ctx context.Context, pipeline string, kind byte) iter.Seq2[inspect.Entry, error] {
	path := "/v1/state/" + url.PathEscape(pipeline) + "?kind=" + url.QueryEscape(string(rune(kind)))
	return readLines(ctx, c, http.MethodGet, path, parseEntry)
}

func parseEntry(line []byte) (e inspect.Entry, err error) { return e, json.Unmarshal(line, &e) }

// Lag implements Directory.
func (c *Client) Lag(ctx context.Context, pipeline string) ([]observe.Lag, error) {
	all, err := c.Lags(ctx, pipeline)
	return all.Lag, err
}

// Lags returns the lag, and the state of the sources of the pipelines that the other process runs.
func (c *Client) Lags(ctx context.Context, pipeline string) (all Lags, err error) {
	path := "/v1/lag"
	if pipeline != "" {
		path += "/" + url.PathEscape(pipeline)
	}
	return all, c.call(ctx, http.MethodGet, path, nil, &all)
}

// readLines yields the lines of a streamed reply.
func readLines[T any](ctx context.Context, c *Client, method, path string, parse func([]byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		reply, err := c.do(ctx, method, path, nil)
		if err != nil {
			yield(none, err)
			return
		}
		defer reply.Body.Close()
		lines := bufio.NewReaderSize(reply.Body, 64<<10)
		for {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) && len(line) == 0 {
				return
			}
			if err != nil {
				yield(none, fmt.Errorf("read from %s: %w", c.URL, err))
				return
			}
			var item T
			if bytes.HasPrefix(line, []byte(`{"error":`)) {
				failure := &StatusError{}
				if err = json.Unmarshal(line, &failure.Problem); err == nil {
					err = failure
				}
			} else {
				item, err = parse(line)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}
