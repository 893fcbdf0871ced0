package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/spec"
)

// Tokens is a token file: the tokens that the servers of a process accept, each with its roles.
type Tokens struct {
	Tokens []access.Token // at most 1,000; the paths of their files are joined with the folder of the token file

	source *spec.Source
	places map[string]spec.Place
	path   string
}

const (
	tokensMax        = 1000
	tokenSecretBytes = 4 << 10 // of a secret file
)

var tokenFileFields = []spec.Field[Tokens]{
	{Name: "tokens", Required: true, Form: spec.Into(func(t *Tokens) *[]access.Token { return &t.Tokens }, spec.ListOf(spec.MappingOf(tokenFields))),
		Example: "[{name: shop, secret_file: /run/secrets/shop, roles: {produce: [payments]}}]", Help: "the tokens that are accepted; at most 1,000"},
}

var tokenFields = []spec.Field[access.Token]{
	{Name: "name", Required: true, Form: spec.Into(func(t *access.Token) *string { return &t.Name }, spec.ReadName), Example: "shop"},
	{Name: "sha256", Required: true, Or: "secret_file", Form: spec.Into(func(t *access.Token) *string { return &t.SHA256 }, tokenDigest()),
		Example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
	{Name: "secret_file", Form: spec.Into(func(t *access.Token) *string { return &t.SecretFile }, spec.ReadPath), Example: "/run/secrets/shop", Absent: "`sha256`"},
	{Name: "roles", Required: true, Form: spec.Into(func(t *access.Token) *access.Roles { return &t.Roles }, spec.MappingOf(roleFields)),
		Example: "{produce: [payments], read: [decisions], metrics: true}", Help: "what the token allows"},
}

var (
	topicNames = spec.ListOf(spec.TextOf("a topic"))
	roleFields = []spec.Field[access.Roles]{
		{Name: "produce", Form: spec.Into(func(r *access.Roles) *[]string { return &r.Produce }, topicNames), Example: "[payments, 'clicks.*']", Absent: "none"},
		{Name: "read", Form: spec.Into(func(r *access.Roles) *[]string { return &r.Read }, topicNames), Example: "[decisions]", Absent: "none"},
		{Name: "infer", Form: spec.Into(func(r *access.Roles) *[]string { return &r.Infer }, spec.ListOf(spec.TextOf("a model"))), Example: "[fraud]", Absent: "none"},
		{Name: "work", Form: spec.Into(func(r *access.Roles) *[]string { return &r.Work }, spec.ListOf(spec.TextOf("a pool"))), Example: "[gpu]", Absent: "none"},
		{Name: "metrics", Form: spec.Into(func(r *access.Roles) *bool { return &r.Metrics }, onlyTrueOrBare()), Example: "true", Absent: "it may not"},
		{Name: "admin", Form: spec.Into(func(r *access.Roles) *bool { return &r.Admin }, onlyTrueOrBare()), Example: "true", Absent: "it may not"},
	}
)

// onlyTrueOrBare is OnlyTrue, but also reads a field without a value as true: {metrics}.
func onlyTrueOrBare() spec.Form[bool] {
	f := spec.OnlyTrue()
	return spec.Form[bool]{Read: func(r *spec.Reader, n *spec.Node, path string, into *bool) {
		if n.Kind == spec.NoValue {
			*into = true
			return
		}
		f.Read(r, n, path, into)
	}, Shape: f.Shape}
}

// tokenDigest reads the sha256 of a token.
func tokenDigest() spec.Form[string] {
	f := spec.TextOf("the sha256 of the token, 64 hex digits")
	return spec.Form[string]{Read: func(r *spec.Reader, n *spec.Node, path string, into *string) {
		f.Read(r, n, path, into)
		if *into != "" && !spec.HexDigest.MatchString(*into) {
			r.Fail(n.Offset, path, spec.Shorten(*into)+" is not a sha256", `write the 64 hex digits that printf %s "$TOKEN" | sha256sum prints`)
		}
		*into = strings.ToLower(strings.TrimPrefix(*into, "sha256:"))
	}, Shape: f.Shape}
}

// IsTokens reports whether a file is a token file, valid or not.
func IsTokens(path string) bool { return spec.IsFile(path, &spec.TokenFiles) }

// Path returns the name of the file.
func (t *Tokens) Path() string { return t.path }

// LoadTokens reads a token file of at most 1 MiB. If the file was read but is invalid, the error is
// of type Errors.
func LoadTokens(path string) (*Tokens, error) {
	data, err := spec.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the token file: %w", err)
	}
	t, err := parseTokens(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	for i := range t.Tokens {
		spec.Beside(path, &t.Tokens[i].SecretFile)
	}
	return t, nil
}

func parseTokens(filename string, data []byte, lookup spec.Lookup) (*Tokens, error) {
	t := &Tokens{path: filename}
	r, root, err := spec.ReadOne(&spec.TokenFiles, filename, data, lookup, tokenFileFields, t)
	if err != nil {
		return nil, err
	}
	if len(t.Tokens) > tokensMax {
		r.Fail(root.Offset, "tokens", fmt.Sprintf("there are %d tokens, and at most %s are read", len(t.Tokens), spec.Thousands(tokensMax)), "share a token between clients, or divide clients over several processes")
	}
	t.source, t.places = r.Source, r.Places
	return t, r.Errors.Sorted()
}

// Open reads the secrets of the tokens. files lists all files that the set depends on, even if
// there is an error. If a file that the token file names is invalid, the errors have positions in
// the token file.
func (t *Tokens) Open() (set *access.Set, files []string, err error) {
	set, files = &access.Set{}, []string{t.path}
	r := &spec.Reader{Source: t.source, Places: t.places}
	for i := range t.Tokens {
		token := &t.Tokens[i]
		if token.SecretFile != "" {
			files = append(files, token.SecretFile)
		}
		here := fmt.Sprintf("tokens[%d]", i)
		fail := func(word, message, hint string) {
			at, ok := t.places[spec.Join(here, word)]
			if !ok {
				at = t.places[here]
			}
			r.Fail(at.Offset, spec.Join(here, word), message, hint)
		}
		digest, err := tokenDigestOf(token)
		if err != nil {
			fail("secret_file", err.Error(), "write the token into it, 32 bytes or more: openssl rand -hex 32")
			continue
		}
		if err := set.Add(token.Name, digest, token.Roles); err != nil {
			fail("name", err.Error(), "give each token a separate name and secret")
		}
	}
	return set, files, r.Errors.Sorted()
}

// tokenDigestOf returns the sha256 of a token.
func tokenDigestOf(t *access.Token) (digest [sha256.Size]byte, err error) {
	if t.SecretFile == "" {
		_, err := hex.Decode(digest[:], []byte(t.SHA256))
		return digest, err
	}
	file, err := os.Open(t.SecretFile)
	if err != nil {
		var access *fs.PathError
		if errors.As(err, &access) {
			err = access.Err
		}
		return digest, fmt.Errorf("cannot read %s: %w", t.SecretFile, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, tokenSecretBytes+1))
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return digest, fmt.Errorf("cannot read %s: %w", t.SecretFile, err)
	case len(secret) < access.SecretBytesMin || len(text) > tokenSecretBytes:
		return digest, fmt.Errorf("%s holds a token of %d bytes: it needs %d to %s", t.SecretFile, len(secret), access.SecretBytesMin, spec.Thousands(tokenSecretBytes))
	case strings.ContainsAny(secret, " \t\r\n"):
		return digest, fmt.Errorf("%s holds a token with white space in it", t.SecretFile)
	}
	return sha256.Sum256([]byte(secret)), nil
}
