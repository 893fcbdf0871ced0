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
)

// Tokens is a token file: which tokens the servers of a process accept, each with its
// roles.
type Tokens struct {
	Tokens []access.Token // at most 1,000; the paths of their files are joined with the folder of the token file

	source *source
	places map[string]place
	path   string
}

const (
	tokensMax        = 1000
	tokenSecretBytes = 4 << 10 // of a secret file
)

var tokenFileWords = []word[Tokens]{
	{name: "tokens", required: true, form: field(func(t *Tokens) *[]access.Token { return &t.Tokens }, listOf(words(tokenWords))),
		example: "[{name: shop, secret_file: /run/secrets/shop, roles: {produce: [payments]}}]", means: "the tokens that are accepted; at most 1,000"},
}

var tokenWords = []word[access.Token]{
	{name: "name", required: true, form: field(func(t *access.Token) *string { return &t.Name }, readName), example: "shop"},
	{name: "sha256", required: true, or: "secret_file", form: field(func(t *access.Token) *string { return &t.SHA256 }, tokenDigest()),
		example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
	{name: "secret_file", form: field(func(t *access.Token) *string { return &t.SecretFile }, readPath), example: "/run/secrets/shop", absent: "`sha256`"},
	{name: "roles", required: true, form: field(func(t *access.Token) *access.Roles { return &t.Roles }, words(roleWords)),
		example: "{produce: [payments], read: [decisions], metrics: true}", means: "what the token allows"},
}

var (
	topicNames = listOf(textOf("a topic"))
	roleWords  = []word[access.Roles]{
		{name: "produce", form: field(func(r *access.Roles) *[]string { return &r.Produce }, topicNames), example: "[payments, 'clicks.*']", absent: "none"},
		{name: "read", form: field(func(r *access.Roles) *[]string { return &r.Read }, topicNames), example: "[decisions]", absent: "none"},
		{name: "infer", form: field(func(r *access.Roles) *[]string { return &r.Infer }, listOf(textOf("a model"))), example: "[fraud]", absent: "none"},
		{name: "work", form: field(func(r *access.Roles) *[]string { return &r.Work }, listOf(textOf("a pool"))), example: "[gpu]", absent: "none"},
		{name: "metrics", form: field(func(r *access.Roles) *bool { return &r.Metrics }, onlyTrueOrBare()), example: "true", absent: "it may not"},
		{name: "admin", form: field(func(r *access.Roles) *bool { return &r.Admin }, onlyTrueOrBare()), example: "true", absent: "it may not"},
	}
)

// onlyTrueOrBare is onlyTrue, and a word without a value is true too: {metrics}.
func onlyTrueOrBare() form[bool] {
	f := onlyTrue()
	return form[bool]{func(r *reader, n *node, path string, into *bool) {
		if n.kind == nothing {
			*into = true
			return
		}
		f.read(r, n, path, into)
	}, f.shape}
}

// tokenDigest reads the sha256 of a token.
func tokenDigest() form[string] {
	f := textOf("the sha256 of the token, 64 hex digits")
	return form[string]{func(r *reader, n *node, path string, into *string) {
		f.read(r, n, path, into)
		if *into != "" && !hexDigest.MatchString(*into) {
			r.fail(n.offset, path, shorten(*into)+" is not a sha256", `write the 64 hex digits that printf %s "$TOKEN" | sha256sum prints`)
		}
		*into = strings.ToLower(strings.TrimPrefix(*into, "sha256:"))
	}, f.shape}
}

// IsTokens reports whether a file is a token file, be it right or not.
func IsTokens(path string) bool { return isFile(path, &tokenFiles) }

// Path returns the name of the file.
func (t *Tokens) Path() string { return t.path }

// LoadTokens reads a token file of at most 1 MiB. An error is Errors where the file
// was read but is not valid.
func LoadTokens(path string) (*Tokens, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the token file: %w", err)
	}
	t, err := parseTokens(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	for i := range t.Tokens {
		beside(path, &t.Tokens[i].SecretFile)
	}
	return t, nil
}

func parseTokens(filename string, data []byte, lookup Lookup) (*Tokens, error) {
	t := &Tokens{path: filename}
	r, root, err := readOne(&tokenFiles, filename, data, lookup, tokenFileWords, t)
	if err != nil {
		return nil, err
	}
	if len(t.Tokens) > tokensMax {
		r.fail(root.offset, "tokens", fmt.Sprintf("there are %d tokens, and at most %s are read", len(t.Tokens), thousands(tokensMax)), "give several clients one token, or split them over processes")
	}
	t.source, t.places = r.source, r.places
	return t, r.errors.sorted()
}

// Open reads the secrets of the tokens. files are all files that the set is made of,
// also if there is an error. Errors have positions in the file if a file that it names
// is not valid.
func (t *Tokens) Open() (set *access.Set, files []string, err error) {
	set, files = &access.Set{}, []string{t.path}
	r := &reader{source: t.source, places: t.places}
	for i := range t.Tokens {
		token := &t.Tokens[i]
		if token.SecretFile != "" {
			files = append(files, token.SecretFile)
		}
		here := fmt.Sprintf("tokens[%d]", i)
		fail := func(word, message, hint string) {
			at, ok := t.places[join(here, word)]
			if !ok {
				at = t.places[here]
			}
			r.fail(at.offset, join(here, word), message, hint)
		}
		digest, err := tokenDigestOf(token)
		if err != nil {
			fail("secret_file", err.Error(), "write the token into it, 32 bytes or more: openssl rand -hex 32")
			continue
		}
		if err := set.Add(token.Name, digest, token.Roles); err != nil {
			fail("name", err.Error(), "give each token a name and a secret of its own")
		}
	}
	return set, files, r.errors.sorted()
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
		return digest, fmt.Errorf("%s holds a token of %d bytes: it needs %d to %s", t.SecretFile, len(secret), access.SecretBytesMin, thousands(tokenSecretBytes))
	case strings.ContainsAny(secret, " \t\r\n"):
		return digest, fmt.Errorf("%s holds a token with white space in it", t.SecretFile)
	}
	return sha256.Sum256([]byte(secret)), nil
}
