package config

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/token"
)

// Keys is a file of keys: whose tokens a gateway accepts.
type Keys struct {
	token.Keys // with the paths of files joined with the folder of the file

	source *source
	places map[string]place
}

var keysWords = []word[token.Keys]{
	{name: "keys", form: field(func(k *token.Keys) *[]token.Key { return &k.Keys }, listOf(words(keyWords))),
		example: "[{id: 2026-11, secret: '${GATEWAY_KEY}', audience: gateway}]", means: "the keys that tokens are signed with; two of an issuer while one takes over from the other", absent: "only those of `jwks`"},
	{name: "jwks", form: optional(func(k *token.Keys) **token.JWKS { return &k.JWKS }, words(jwksWords)),
		example: "{url: 'https://idp.example/.well-known/jwks.json', audience: gateway}", absent: "only those of `keys`"},
	{name: "legacy", form: optional(func(k *token.Keys) **token.Legacy { return &k.Legacy }, words(legacyWords)),
		example: "{secret: '${LEGACY_KEY}', tenant: acme}", absent: "such tokens are refused"},
	{name: "lifetime", form: field(func(k *token.Keys) *time.Duration { return &k.Lifetime }, span(time.Second, 24*time.Hour)), example: "15m"},
	{name: "skew", form: field(func(k *token.Keys) *time.Duration { return &k.Skew }, span(time.Second, 5*time.Minute)), example: "5s"},
}

var (
	readAudience = textOf("whom tokens must be for")
	readTenant   = textOf("a tenant")
)

var keyWords = []word[token.Key]{
	{name: "id", required: true, form: field(func(k *token.Key) *string { return &k.ID }, readName), example: "2026-11"},
	{name: "alg", form: field(func(k *token.Key) *string { return &k.Algorithm }, choice[string](token.V2, token.HS256, token.RS256, token.EdDSA)), example: "RS256"},
	{name: "secret", or: "secret_file", form: field(func(k *token.Key) *string { return &k.Secret }, secret("secret_file")), example: "${GATEWAY_KEY}", absent: "required with v2 and HS256, or `secret_file`"},
	{name: "secret_file", form: field(func(k *token.Key) *string { return &k.SecretFile }, readPath), example: "/run/secrets/gateway", absent: "`secret`"},
	{name: "public_file", form: field(func(k *token.Key) *string { return &k.PublicFile }, readPath), example: "idp.pem", absent: "required with RS256 and EdDSA"},
	{name: "audience", required: true, form: field(func(k *token.Key) *string { return &k.Audience }, readAudience), example: "gateway"},
	{name: "tenant", form: field(func(k *token.Key) *string { return &k.Tenant }, readTenant), example: "acme"},
}

var jwksWords = []word[token.JWKS]{
	{name: "url", required: true, or: "file", form: field(func(j *token.JWKS) *string { return &j.URL }, readURL), example: "https://idp.example/.well-known/jwks.json"},
	{name: "file", form: field(func(j *token.JWKS) *string { return &j.File }, readPath), example: "jwks.json", absent: "`url`"},
	{name: "issuer", form: field(func(j *token.JWKS) *string { return &j.Issuer }, textOf("the iss of tokens")), example: "https://idp.example"},
	{name: "audience", required: true, form: field(func(j *token.JWKS) *string { return &j.Audience }, readAudience), example: "gateway"},
	{name: "tenant", form: field(func(j *token.JWKS) *string { return &j.Tenant }, readTenant), example: "acme"},
}

var legacyWords = []word[token.Legacy]{
	{name: "secret", required: true, or: "secret_file", form: field(func(l *token.Legacy) *string { return &l.Secret }, secret("secret_file")), example: "${LEGACY_KEY}"},
	{name: "secret_file", form: field(func(l *token.Legacy) *string { return &l.SecretFile }, readPath), example: "/run/secrets/legacy", absent: "`secret`"},
	{name: "tenant", required: true, form: field(func(l *token.Legacy) *string { return &l.Tenant }, readTenant), example: "acme"},
}

// LoadKeys reads a file of keys, of at most 1 MiB, and the environment variables that
// its values name. The paths in it are relative to its folder: in the result they are
// joined with it. An error is Errors where the file was read but is not valid.
func LoadKeys(path string) (*Keys, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	k, err := parseKeys(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	var files []*string
	for i := range k.Keys.Keys {
		files = append(files, &k.Keys.Keys[i].SecretFile, &k.Keys.Keys[i].PublicFile)
	}
	if k.JWKS != nil {
		files = append(files, &k.JWKS.File)
	}
	if k.Legacy != nil {
		files = append(files, &k.Legacy.SecretFile)
	}
	beside(path, files...)
	return k, nil
}

func parseKeys(filename string, data []byte, lookup Lookup) (*Keys, error) {
	k := &Keys{}
	r, _, err := readOne(&keysFiles, filename, data, lookup, keysWords, &k.Keys)
	if err != nil {
		return nil, err
	}
	k.source, k.places = r.source, r.places
	return k, r.errors.sorted()
}

// Open makes the keys ready. An error is Errors, with positions in the file, where
// what it names is not valid.
func (k *Keys) Open(o token.Options) (*token.Keyring, error) {
	ring, err := token.New(k.Keys, o)
	var found token.KeysErrors
	if !errors.As(err, &found) {
		return ring, err
	}
	var explained Errors
	for _, e := range found {
		explained = append(explained, k.source.explain(k.places, &afterbay.Error{Path: e.Path, Message: e.Message, Hint: e.Hint, Err: e.Err}))
	}
	return nil, explained.sorted()
}
