// Package redis finds rows in Redis, with one MGET for many keys.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/afterbay/afterbay/lookup"
)

const bufferBytes = 64 << 10 // buffer of a connection in each direction

// Options configures a Source.
type Options struct {
	URL    string // redis://host:port/0, or rediss:// with TLS; it may contain user and password
	Prefix string // prefix of each key, such as user:
}

// Source is a lookup.Source in Redis. The value of a key is its row, a JSON object.
type Source struct {
	option rueidis.ClientOption
	prefix string

	connecting chan struct{}  // holds a token; take it to connect
	client     rueidis.Client // nil before the first connection; only the holder of the token sets it
}

var _ lookup.Source = (*Source)(nil)

// New returns a source. It connects at the first request.
func New(o Options) (*Source, error) {
	option, err := rueidis.ParseURL(o.URL)
	if err != nil {
		return nil, errors.New("look up in Redis: the URL is not as redis://host:port/0") // the URL may contain a password
	}
	option.DisableCache = true // the Finder has its own cache
	option.DisableRetry = true // the caller decides when to retry
	option.AlwaysRESP2 = true  // sufficient, and works with older servers
	option.ReadBufferEachConn, option.WriteBufferEachConn = bufferBytes, bufferBytes
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = time.Second
	}
	s := &Source{option: option, prefix: o.Prefix, connecting: make(chan struct{}, 1)}
	s.connecting <- struct{}{}
	return s, nil
}

// Close closes the connections. The source must not be used after it.
func (s *Source) Close() {
	if <-s.connecting; s.client != nil {
		s.client.Close()
	}
}

// connect returns the client. The first call connects to the servers.
func (s *Source) connect(ctx context.Context) (rueidis.Client, error) {
	select {
	case <-s.connecting:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.connecting <- struct{}{} }()
	if s.client != nil {
		return s.client, nil
	}
	client, err := rueidis.NewClient(s.option)
	if err != nil {
		return nil, err
	}
	s.client = client
	return client, nil
}

// Rows implements lookup.Source. A value of a type other than string counts as no row.
func (s *Source) Rows(ctx context.Context, keys []string) ([][]byte, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, &lookup.Error{Err: fmt.Errorf("connect to Redis: %w", err)}
	}
	stored := make([]string, len(keys))
	for i, key := range keys {
		stored[i] = s.prefix + key
	}
	found, err := rueidis.MGet(client, ctx, stored)
	if err != nil {
		return nil, &lookup.Error{Err: fmt.Errorf("ask Redis: %w", err)}
	}
	rows := make([][]byte, len(keys))
	for i, key := range stored {
		message := found[key]
		if message.IsNil() {
			continue
		}
		if rows[i], err = message.AsBytes(); err != nil {
			return nil, &lookup.Error{Failed: true, Err: fmt.Errorf("value of %.60q in Redis: %w", key, err)}
		}
	}
	return rows, nil
}
