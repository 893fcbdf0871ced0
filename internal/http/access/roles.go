package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
)

// SecretBytesMin is the minimum length of a token in a token file.
const SecretBytesMin = 32

// Role is a permission that an endpoint requires.
type Role string

// The values of Role. A token of a token file can have the roles from Produce to Admin. Admin
// includes all of those.
const (
	Public  Role = "public"  // health: no token is needed
	Known   Role = "known"   // any valid token
	Produce Role = "produce" // appends to a topic
	Read    Role = "read"    // reads the records of a topic
	Infer   Role = "infer"   // calls a model
	Work    Role = "work"    // takes the work of a pool
	Metrics Role = "metrics" // reads metrics and the state of the process
	Admin   Role = "admin"   // changes topics, and reads and changes the state of pipelines
	Owner   Role = "owner"   // the command line, which can read the data directory
	Client  Role = "client"  // a client of a gateway, which checks the token itself: no Mux serves this role
)

// Token is a token of a token file.
type Token struct {
	Name string // in logs and refusals

	// The sha256 of the token in hex: printf %s "$TOKEN" | sha256sum.
	SHA256 string
	// A file with the token: at least 32 bytes, without the white space at its end.
	SecretFile string

	Roles Roles
}

// Roles are what a token allows. In names * stands for any number of characters. A topic
// of the engine, such as fraud.dlq, must be named exactly.
type Roles struct {
	Produce []string // Topics that it may append to; a topic that a pipeline writes, or one of the engine, must be named exactly.
	Read    []string // Topics that it may read; one of the engine, such as fraud.dlq, must be named exactly.
	Infer   []string // Models that it may ask.
	Work    []string // Pools of work that it may take from.
	Metrics bool     // It may read metrics, lag, budgets and the status of the process.
	Admin   bool     // It may do all of the above, create and delete topics, read state and clients, and settle dead letters and queued events; it needs Produce for topics that a pipeline writes.
}

// patterns returns the name patterns of a role.
func (r *Roles) patterns(role Role) []string {
	switch role {
	case Produce:
		return r.Produce
	case Read:
		return r.Read
	case Infer:
		return r.Infer
	case Work:
		return r.Work
	}
	return nil
}

// Caller is the sender of a request.
type Caller struct {
	Name  string // name of its token; "" if the request needed none
	roles Roles
	owner bool
}

// Scope returns a prefix that separates the names chosen with this token from those of other
// tokens. It is empty for administrators and for requests that need no token.
func (c *Caller) Scope() string {
	if c.owner || c.roles.Admin {
		return ""
	}
	return "token:" + c.Name + ":"
}

// May reports whether the caller has a role for the topic, model or pool named of. If of is "", it
// reports whether the caller has the role for any name. No pattern matches a topic that is named
// like one of the engine.
func (c *Caller) May(role Role, of string) bool {
	switch {
	case role == Public, role == Known, c.owner:
		return true
	case role == Owner:
		return false
	case c.roles.Admin:
		return true
	case role == Metrics:
		return c.roles.Metrics
	}
	patterns := c.roles.patterns(role)
	if of == "" {
		return len(patterns) > 0
	}
	if (role == Produce || role == Read) && naming.Topic(of) {
		return slices.Contains(patterns, of)
	}
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, of) })
}

// Knows reports whether the caller may be told that a topic exists.
func (c *Caller) Knows(topic string) bool { return c.May(Read, topic) || c.May(Produce, topic) }

// Names reports whether the caller's token lists of for a role by its exact name, not by a pattern
// or the role admin.
func (c *Caller) Names(role Role, of string) bool { return slices.Contains(c.roles.patterns(role), of) }

// matches reports whether a name matches a pattern. Only * is special in patterns.
func matches(pattern, name string) bool {
	escaped := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`, `/`, "\x00").Replace(pattern)
	ok, err := path.Match(escaped, strings.ReplaceAll(name, "/", "\x00"))
	return err == nil && ok
}

// Set is the set of tokens in a file.
type Set struct{ tokens []known }

type known struct {
	digest [sha256.Size]byte
	caller Caller
}

// Add adds a token by its SHA-256 digest. A repeated name or digest is an error.
func (s *Set) Add(name string, digest [sha256.Size]byte, roles Roles) error {
	for i := range s.tokens {
		switch t := &s.tokens[i]; {
		case t.caller.Name == name:
			return fmt.Errorf("%q names two tokens", name)
		case t.digest == digest:
			return errors.New("it is the same token as " + t.caller.Name)
		}
	}
	s.tokens = append(s.tokens, known{digest, Caller{Name: name, roles: roles}})
	return nil
}

// find returns the caller of a token, nil if the token is unknown. The time it takes reveals
// nothing about the tokens.
func (s *Set) find(token string) (found *Caller) {
	digest := sha256.Sum256([]byte(token))
	for i := range s.tokens {
		if subtle.ConstantTimeCompare(s.tokens[i].digest[:], digest[:]) == 1 && len(token) >= SecretBytesMin {
			found = &s.tokens[i].caller
		}
	}
	return found
}
