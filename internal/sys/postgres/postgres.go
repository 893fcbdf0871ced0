// Package postgres decides which connections to PostgreSQL must be encrypted.
package postgres

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// RequireTLS removes the fallback to plain text for servers beyond loopback, unless the
// URL has sslmode. Without RequireTLS a server that offers no TLS gets the password.
// With PGSSLMODE=disable or allow the first attempt is in plain text; RequireTLS does
// not change that.
func RequireTLS(c *pgconn.Config, text string) {
	if saysMode(text) {
		return
	}
	encrypted := map[string]bool{}
	if c.TLSConfig != nil {
		encrypted[address(c.Host, c.Port)] = true
	}
	var kept []*pgconn.FallbackConfig
	for _, f := range c.Fallbacks {
		at := address(f.Host, f.Port)
		if f.TLSConfig != nil {
			encrypted[at] = true
		} else if encrypted[at] && !near(f.Host, f.Port) {
			continue
		}
		kept = append(kept, f)
	}
	c.Fallbacks = kept
}

// Explain adds advice to the error of a server without TLS.
func Explain(err error) error {
	if err == nil || !strings.Contains(err.Error(), "server refused TLS connection") {
		return err
	}
	return fmt.Errorf("%w: set up TLS on the server; if the network between is trusted, add sslmode=disable to the URL", err)
}

var keyword = regexp.MustCompile(`(^|\s)sslmode\s*=`)

// saysMode reports whether a URL, or a keyword/value string, sets sslmode.
func saysMode(text string) bool {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return keyword.MatchString(text)
	}
	_, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	return err == nil && values.Has("sslmode")
}

func address(host string, port uint16) string { return fmt.Sprint(host, " ", port) }

// near reports whether bytes sent to a host stay on this machine.
func near(host string, port uint16) bool {
	if network, _ := pgconn.NetworkAddress(host, port); network == "unix" || strings.HasPrefix(host, "@") || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
