package postgres

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestPlainTextNeedsToBeAskedFor(t *testing.T) {
	for _, c := range []struct {
		text, mode string
		plain      int // attempts
	}{
		{"postgres://u:p@db.example/x", "", 0},
		{"postgres://u:p@10.0.0.1:6000/x", "prefer", 0},
		{"postgresql://u:p@a.example,b.example/x", "", 0},
		{"host=db.example user=u", "", 0},
		{"postgres://u:p@db.example/sslmode=disable", "", 0},
		{"postgres://u:p@db.example/x?application_name=sslmode", "", 0},
		{"postgres://u:p@db.example/x?sslmode=verify-full", "", 0},
		{"postgres://u:p@db.example/x?sslmode=prefer", "", 1},
		{"postgres://u:p@db.example/x?sslmode=disable", "", 1},
		{"host=db.example sslmode = disable", "", 1},
		{"postgres://u:p@db.example/x", "disable", 1},
		{"postgres://u:p@localhost/x", "", 1},
		{"postgres://u:p@127.0.0.2/x", "", 1},
		{"postgres://u:p@[::1]/x", "", 1},
		{"postgres://u:p@/x?host=/run/postgresql", "", 1},
		{"postgres://u:p@localhost,db.example/x", "", 1},
	} {
		t.Setenv("PGSSLMODE", c.mode)
		config, err := pgconn.ParseConfig(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		RequireTLS(config, c.text)
		plain := 0
		for _, f := range append([]*pgconn.FallbackConfig{{TLSConfig: config.TLSConfig}}, config.Fallbacks...) {
			if f.TLSConfig == nil {
				plain++
			}
		}
		if plain != c.plain {
			t.Errorf("%s with PGSSLMODE=%s: %d attempts in plain text, want %d", c.text, c.mode, plain, c.plain)
		}
	}
}

// TestServerWithoutTLSGetsNothing has a server say that it has no TLS.
func TestServerWithoutTLSGetsNothing(t *testing.T) {
	const text = "postgres://user:secret@db.example/x"
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	RequireTLS(config, text)
	got := make(chan string, 8)
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil }
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			request := make([]byte, 8) // SSLRequest
			if _, err := io.ReadFull(theirs, request); err != nil {
				got <- err.Error()
				return
			}
			if _, err := theirs.Write([]byte("N")); err != nil {
				got <- err.Error()
				return
			}
			rest, _ := io.ReadAll(io.LimitReader(theirs, 1)) // until it is closed
			got <- string(rest)
		}()
		return ours, nil
	}
	_, err = pgconn.ConnectConfig(t.Context(), config)
	if err = Explain(err); err == nil || !strings.Contains(err.Error(), "add sslmode=disable to the URL") {
		t.Errorf("connected, or: %v", err)
	}
	if text := <-got; text != "" {
		t.Errorf("a server without TLS got %q", text)
	}
	if len(got) > 0 {
		t.Error("it was tried again")
	}
}
