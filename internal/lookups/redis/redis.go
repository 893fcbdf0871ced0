// Package redis finds rows in Redis, one MGET for many keys.
package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/afterbay/afterbay/lookup"
)

const bufferBytes = 64 << 10 // of a connection, each way

// Options say where the rows are.
type Options struct {
	URL    string // redis://host:port/0, rediss:// for an encrypted way; user and password may stand in it
	Prefix string // before each key, such as user:
}

// Source is a lookup.Source in Redis. The value of a key is its row, a JSON object.
type Source struct {
	option rueidis.ClientOption
	prefix string

	connecting chan struct{}  // holds a token while nobody connects
	client     rueidis.Client // nil before; whoever has the token may set it
}

var _ lookup.Source = (*Source)(nil)

// New returns a source. It connects when rows are asked for.
func New(o Options) (*Source, error) {
	option, err := rueidis.ParseURL(o.URL)
	if err != nil {
		return nil, errors.New("look up in Redis: the URL is not as redis://host:port/0") // it may hold a password
	}
	option.DisableCache = true // the finder keeps rows itself
	option.DisableRetry = true // who calls says when it is tried again
	option.AlwaysRESP2 = true  // serves as well, and older servers too
	option.ReadBufferEachConn, option.WriteBufferEachConn = bufferBytes, bufferBytes
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = time.Second
	}
	s := &Source{option: option, prefix: o.Prefix, connecting: make(chan struct{}, 1)}
	s.connecting <- struct{}{}
	return s, nil
}

// Close ends the connections. No rows are asked for after it.
func (s *Source) Close() {
	if <-s.connecting; s.client != nil {
		s.client.Close()
	}
}

// connect returns the client, whose servers are looked for at its first use.
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

// Rows implements lookup.Source. A key of another kind than string has no row.
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
