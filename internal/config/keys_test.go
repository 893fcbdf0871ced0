package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/spec"
)

const goodKeys = `# of the gateway
keys:
  - id: 2026-11
    secret: ${KEY}
    audience: gateway
  - {id: idp, alg: RS256, public_file: idp.pem, audience: gateway, tenant: acme}
jwks:
  url: https://idp.example/keys
  issuer: https://idp.example
  audience: gateway
legacy:
  secret_file: /run/secrets/legacy
  tenant: acme
lifetime: 15m
skew: 5s
`

const keySecret = "0123456789abcdef0123456789abcdef"

// write writes a file of its own folder.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeysAreReadAsTheyAreWritten(t *testing.T) {
	t.Setenv("KEY", keySecret)
	path := write(t, "keys.yaml", goodKeys)
	k, err := LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Keys{
		Keys: []auth.Key{
			{ID: "2026-11", Secret: keySecret, Audience: "gateway"},
			{ID: "idp", Algorithm: auth.RS256, PublicFile: filepath.Join(filepath.Dir(path), "idp.pem"), Audience: "gateway", Tenant: "acme"},
		},
		JWKS:     &auth.JWKS{URL: "https://idp.example/keys", Issuer: "https://idp.example", Audience: "gateway"},
		Legacy:   &auth.Legacy{SecretFile: "/run/secrets/legacy", Tenant: "acme"},
		Lifetime: 15 * time.Minute, Skew: 5 * time.Second,
	}
	if diff := cmp.Diff(want, k.Keys); diff != "" {
		t.Error(diff)
	}
}

func TestWrongKeysAreRefusedWithPlaceAndNextStep(t *testing.T) {
	t.Setenv("KEY", keySecret)
	for _, c := range [][3]string{
		{"secret: ${KEY}", "secret: " + keySecret, "keys.yaml:4:13: keys[0].secret: a secret has no place in the file: write ${NAME} and export NAME=..., or use `secret_file`"},
		{"secret: ${KEY}", "secret: ${ABSENT}", "keys.yaml:4:13: keys[0].secret: the environment variable ABSENT is not set: export ABSENT=..., or use `secret_file`"},
		{"secret: ${KEY}", "secret: ${KEY}\n    secret_file: x", "keys.yaml:5:5: keys[0].secret_file: `secret` and `secret_file` exclude each other"},
		{"    audience: gateway\n", "", "keys.yaml:3:5: keys[0]: `audience` is missing: add `audience: ...`"},
		{"alg: RS256", "alg: none", `keys.yaml:6:20: keys[1].alg: "none" is not one of`},
		{"issuer:", "isuer:", `keys.yaml:9:3: jwks.isuer: unknown word "isuer": did you mean`},
		{"  tenant: acme\nlifetime", "lifetime", "keys.yaml:11:1: legacy: `tenant` is missing"},
		{"lifetime: 15m", "lifetime: 48h", `keys.yaml:14:11: lifetime: "48h" is out of range`},
		{"skew: 5s", "skew: 5s\n---\nkeys: []", "keys.yaml:17:1: one of 2 documents, but the file must have one: write all keys into one"},
		{goodKeys, "", "keys.yaml:1:1: the file holds no key: start with `keys:`"},
		{goodKeys, "keys: []\n", "keys.yaml:1:7: keys: is empty"},
	} {
		if !strings.Contains(goodKeys, c[0]) {
			t.Fatalf("%s is not there", c[0])
		}
		_, err := LoadKeys(write(t, "keys.yaml", strings.Replace(goodKeys, c[0], c[1], 1)))
		if err == nil || !strings.Contains(err.Error(), c[2]) || strings.Contains(err.Error(), keySecret) {
			t.Errorf("%s: %v, want %s", c[1], err, c[2])
		}
	}
	if _, err := LoadKeys("nowhere.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestWhatKeysNameWronglyIsExplainedWhereItStands opens files that are right as they
// are written.
func TestWhatKeysNameWronglyIsExplainedWhereItStands(t *testing.T) {
	t.Setenv("KEY", keySecret)
	t.Setenv("SHORT", "guess me")
	for text, want := range map[string]string{
		"keys:\n  - {id: a b, secret: '${KEY}', audience: x}\n":                                           "keys.yaml:2:10: keys[0].id: is not an id of a key",
		"keys:\n  - {id: a, secret: '${SHORT}', audience: x}\n":                                           "keys.yaml:2:21: keys[0].secret: the secret has 8 bytes",
		"keys:\n  - {id: a, audience: x}\n":                                                               "keys.yaml:2:5: keys[0].secret: the secret has 0 bytes",
		"keys:\n  - {id: a, secret_file: none, audience: x}\n":                                            "keys.yaml:2:26: keys[0].secret_file: open ",
		"keys:\n  - {id: a, alg: EdDSA, public_file: keys.yaml, audience: x}\n":                           "keys.yaml:2:38: keys[0].public_file: the file holds no public key",
		"keys:\n  - {id: a, secret: '${KEY}', audience: x}\n  - {id: a, secret: '${KEY}', audience: x}\n": "keys.yaml:3:10: keys[1].id: two keys have this id",
		"jwks: {url: 'http://idp.example/keys', audience: x}\n":                                           "keys.yaml:1:13: jwks.url: without encryption, an attacker on the network can change keys",
	} {
		k, err := LoadKeys(write(t, "keys.yaml", text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Open(auth.Options{})
		var found spec.Errors
		if !errors.As(err, &found) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "guess me") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	k, err := LoadKeys(write(t, "keys.yaml", "keys:\n  - {id: a, secret: '${KEY}', audience: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if ring, err := k.Open(auth.Options{}); err != nil || ring == nil {
		t.Error(err)
	}
}

// Every word of a file of keys says what it means and has an example that is valid,
// and every field has a word.
func TestEveryWordOfKeysIsExplained(t *testing.T) {
	said, set := readComments(t, keysStructs), make(map[string]bool)
	said.sections(spec.MappingOf(keysFields).Shape, func(s spec.Section) {
		for _, w := range s.Words {
			if w.Shape.Get != nil {
				structure, field := fieldOf(w.Shape.Get)
				set[structure+"."+field.Name] = true
			}
			if w.Help == "" || w.Example == "" || !w.Required && w.Or == "" && w.Absent == "" {
				t.Errorf("%s: %s lacks its meaning, example or what holds without it: %+v", s.Path, w.Name, w)
			}
			n, r := exampleNode(t, w)
			if w.Try(r, n, w.Name); len(r.Errors) > 0 {
				t.Errorf("%s: the example of %s is refused: %v", s.Path, w.Name, r.Errors)
			}
		}
	})
	for name := range said {
		if strings.Count(name, ".") == 2 && !strings.Contains(name, ".KeysError") && !set[name] {
			t.Errorf("no word sets %s", name)
		}
	}
}

// TestHowToShowsFilesThatAreRight opens the files of docs/howto/tokens.md.
func TestHowToShowsFilesThatAreRight(t *testing.T) {
	t.Setenv("GATEWAY_KEY", keySecret)
	t.Setenv("LEGACY_KEY", keySecret)
	page, err := os.ReadFile("../../docs/howto/tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```|`(legacy: .*?)`").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d files", len(blocks))
	}
	for _, block := range blocks {
		k, err := LoadKeys(write(t, "keys.yaml", block[1]+block[2]))
		if err == nil {
			_, err = k.Open(auth.Options{})
		}
		if err != nil {
			t.Errorf("%s: %v", block[0], err)
		}
	}
}
