package servertest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"
)

// Redis connects to a server of Redis, until the test ends.
func (s *Server) Redis(t testing.TB) rueidis.Client {
	t.Helper()
	option, err := rueidis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Postgres connects to a server of PostgreSQL, until the test ends.
func (s *Server) Postgres(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
