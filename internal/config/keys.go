package config

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/spec"
)

// Keys is a key file: it defines the tokens that a gateway accepts.
type Keys struct {
	auth.Keys // with the paths of files joined with the folder of the file

	source *spec.Source
	places map[string]spec.Place
}

var keysFields = []spec.Field[auth.Keys]{
	{Name: "keys", Form: spec.Into(func(k *auth.Keys) *[]auth.Key { return &k.Keys }, spec.ListOf(spec.MappingOf(keyFields))),
		Example: "[{id: 2026-11, secret: '${GATEWAY_KEY}', audience: gateway}]", Help: "the keys that tokens are signed with; two of an issuer while one takes over from the other", Absent: "only those of `jwks`"},
	{Name: "jwks", Form: spec.Optional(func(k *auth.Keys) **auth.JWKS { return &k.JWKS }, spec.MappingOf(jwksFields)),
		Example: "{url: 'https://idp.example/.well-known/jwks.json', audience: gateway}", Absent: "only those of `keys`"},
	{Name: "legacy", Form: spec.Optional(func(k *auth.Keys) **auth.Legacy { return &k.Legacy }, spec.MappingOf(legacyFields)),
		Example: "{secret: '${LEGACY_KEY}', tenant: acme}", Absent: "such tokens are refused"},
	{Name: "lifetime", Form: spec.Into(func(k *auth.Keys) *time.Duration { return &k.Lifetime }, spec.Span(time.Second, 24*time.Hour)), Example: "15m"},
	{Name: "skew", Form: spec.Into(func(k *auth.Keys) *time.Duration { return &k.Skew }, spec.Span(time.Second, 5*time.Minute)), Example: "5s"},
}

var (
	readAudience = spec.TextOf("the audience that tokens must name")
	readTenant   = spec.TextOf("a tenant")
)

var keyFields = []spec.Field[auth.Key]{
	{Name: "id", Required: true, Form: spec.Into(func(k *auth.Key) *string { return &k.ID }, spec.ReadName), Example: "2026-11"},
	{Name: "alg", Form: spec.Into(func(k *auth.Key) *string { return &k.Algorithm }, spec.Choice[string](auth.V2, auth.HS256, auth.RS256, auth.EdDSA)), Example: "RS256"},
	{Name: "secret", Or: "secret_file", Form: spec.Into(func(k *auth.Key) *string { return &k.Secret }, spec.Secret("secret_file")), Example: "${GATEWAY_KEY}", Absent: "required with v2 and HS256, or `secret_file`"},
	{Name: "secret_file", Form: spec.Into(func(k *auth.Key) *string { return &k.SecretFile }, spec.ReadPath), Example: "/run/secrets/gateway", Absent: "`secret`"},
	{Name: "public_file", Form: spec.Into(func(k *auth.Key) *string { return &k.PublicFile }, spec.ReadPath), Example: "idp.pem", Absent: "required with RS256 and EdDSA"},
	{Name: "audience", Required: true, Form: spec.Into(func(k *auth.Key) *string { return &k.Audience }, readAudience), Example: "gateway"},
	{Name: "tenant", Form: spec.Into(func(k *auth.Key) *string { return &k.Tenant }, readTenant), Example: "acme"},
}

var jwksFields = []spec.Field[auth.JWKS]{
	{Name: "url", Required: true, Or: "file", Form: spec.Into(func(j *auth.JWKS) *string { return &j.URL }, spec.ReadURL), Example: "https://idp.example/.well-known/jwks.json"},
	{Name: "file", Form: spec.Into(func(j *auth.JWKS) *string { return &j.File }, spec.ReadPath), Example: "jwks.json", Absent: "`url`"},
	{Name: "issuer", Form: spec.Into(func(j *auth.JWKS) *string { return &j.Issuer }, spec.TextOf("the iss of tokens")), Example: "https://idp.example"},
	{Name: "audience", Required: true, Form: spec.Into(func(j *auth.JWKS) *string { return &j.Audience }, readAudience), Example: "gateway"},
	{Name: "tenant", Form: spec.Into(func(j *auth.JWKS) *string { return &j.Tenant }, readTenant), Example: "acme"},
}

var legacyFields = []spec.Field[auth.Legacy]{
	{Name: "secret", Required: true, Or: "secret_file", Form: spec.Into(func(l *auth.Legacy) *string { return &l.Secret }, spec.Secret("secret_file")), Example: "${LEGACY_KEY}"},
	{Name: "secret_file", Form: spec.Into(func(l *auth.Legacy) *string { return &l.SecretFile }, spec.ReadPath), Example: "/run/secrets/legacy", Absent: "`secret`"},
	{Name: "tenant", Required: true, Form: spec.Into(func(l *auth.Legacy) *string { return &l.Tenant }, readTenant), Example: "acme"},
}

// LoadKeys reads a key file of at most 1 MiB, and the environment variables that its values name.
// Paths in the file are relative to its folder; in the result they are joined with it. If the file
// was read but is invalid, the error is of type Errors.
func LoadKeys(path string) (*Keys, error) {
	data, err := spec.ReadFile(path)
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
	spec.Beside(path, files...)
	return k, nil
}

func parseKeys(filename string, data []byte, lookup spec.Lookup) (*Keys, error) {
	k := &Keys{}
	r, _, err := spec.ReadOne(&spec.KeysFiles, filename, data, lookup, keysFields, &k.Keys)
	if err != nil {
		return nil, err
	}
	k.source, k.places = r.Source, r.Places
	return k, r.Errors.Sorted()
}

// Open reads the keys and makes them ready for use. If a file that they name is invalid, the error
// is Errors with positions in the key file.
func (k *Keys) Open(o auth.Options) (*auth.Keyring, error) {
	ring, err := auth.New(k.Keys, o)
	var found auth.KeysErrors
	if !errors.As(err, &found) {
		return ring, err
	}
	var explained spec.Errors
	for _, e := range found {
		explained = append(explained, k.source.Explain(k.places, &spec.Problem{Path: e.Path, Message: e.Message, Hint: e.Hint, Err: e.Err}))
	}
	return nil, explained.Sorted()
}
