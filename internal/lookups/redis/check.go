package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/lookup"
)

const sampled = 1000 // number of keys to scan for one with the prefix

// Check tests whether the server responds and allows reads of keys with the prefix. If it finds a
// key with the prefix, it also checks that the key can be a row.
func (s *Source) Check(ctx context.Context) error {
	_, err := s.Rows(ctx, []string{lookups.CheckKey})
	var said *rueidis.RedisError
	if errors.As(err, &said) {
		return &lookup.Mistake{Field: "url", Err: err, Hint: accessHint(said.Error(), s.prefix)}
	}
	if err != nil {
		return &lookup.Mistake{Field: "url", Err: err, Hint: "start Redis there, or correct the URL"}
	}
	key, kind, err := s.sample(ctx)
	if err == nil && kind != "" && kind != "string" {
		return &lookup.Mistake{
			Field: "prefix", Err: fmt.Errorf("%.60q in Redis is of type %s, which cannot hold a row", key, kind),
			Hint: "store rows as JSON strings (a sink with format: json), or use a prefix with such rows",
		}
	}
	return nil // without permission to scan, no key is known
}

func accessHint(said, prefix string) string {
	switch {
	case strings.HasPrefix(said, "NOPERM"):
		return fmt.Sprintf("let the user of the URL read: ACL SETUSER <name> ~%s* +mget", prefix)
	case strings.HasPrefix(said, "NOAUTH"), strings.HasPrefix(said, "WRONGPASS"):
		return "correct user and password of the URL"
	}
	return "use a server and a database that support MGET"
}

// sample returns a key with the prefix and its type; "" if the scan finds none.
func (s *Source) sample(ctx context.Context) (key, kind string, err error) {
	client, err := s.connect(ctx)
	if err != nil {
		return "", "", err
	}
	literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s.prefix)
	found, err := client.Do(ctx, client.B().Scan().Cursor(0).Match(literal+"*").Count(sampled).Build()).AsScanEntry()
	if err != nil || len(found.Elements) == 0 {
		return "", "", err
	}
	key = found.Elements[0]
	kind, err = client.Do(ctx, client.B().Type().Key(key).Build()).ToString()
	return key, kind, err
}
