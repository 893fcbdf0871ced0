package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/process"
)

const tokenKeys = `keys:
  - {id: k1, secret: '${GATEWAY_KEY}', audience: gateway}
  - {id: k2, alg: HS256, secret: '${GATEWAY_KEY}', audience: gateway, tenant: acme}
`

// TestTokensAreIssuedAndInspected goes from a file of keys to what is wrong with a
// token.
func TestTokensAreIssuedAndInspected(t *testing.T) {
	t.Chdir(t.TempDir())
	const secret = "0123456789abcdef0123456789abcdef"
	t.Setenv("GATEWAY_KEY", secret)
	write(t, "keys.yaml", tokenKeys)
	for key, tenant := range map[string]string{"k1": "--tenant acme", "k2": ""} {
		token := strings.TrimSpace(must(t, "", fields("token issue --keys keys.yaml --client c42 --duration 90s --scope chat_read --key "+key+" "+tenant)...))
		for _, args := range [][]string{{"token", "inspect", token, "--keys", "keys.yaml"}, {"token", "inspect", "-", "--keys", "keys.yaml"}} {
			got := strings.Join(strings.Fields(must(t, token+"\n", args...)), " ")
			mustHave(t, got, "key "+key, "aud gateway", "sub c42", "scope chat read", "exp 2", "in 1m", "signature holds, by key "+key, `accepted as client "c42" of tenant "acme"`)
		}
		mustHave(t, must(t, "", "token", "inspect", token), "not checked: name the file of keys by --keys")

		t.Setenv("GATEWAY_KEY", "another secret of thirty-two byte")
		r := command(t, "", "token", "inspect", token, "--keys", "keys.yaml")
		if mustHave(t, r.stdout+r.stderr, "does not hold", "token refused: bad signature (key "+key+"): check that issuer and gateway have the same key"); r.code != exitFailure || strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("exit %d: %s", r.code, r.stderr)
		}
		t.Setenv("GATEWAY_KEY", secret)
		write(t, "others.yaml", strings.ReplaceAll(tokenKeys, "gateway", "billing"))
		r = command(t, "", "token", "inspect", token, "--keys", "others.yaml")
		if mustHave(t, r.stdout+r.stderr, "signature  holds", "no: wrong audience", "issue it for the audience"); r.code != exitFailure {
			t.Errorf("exit %d: %s", r.code, r.stderr)
		}
	}
}

// TestTokenOfAClientThatNoGatewayTakesIsNotAccepted has one issued by a program that
// does not know of what gateways ask.
func TestTokenOfAClientThatNoGatewayTakesIsNotAccepted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GATEWAY_KEY", "0123456789abcdef0123456789abcdef")
	write(t, "keys.yaml", tokenKeys)
	keys, err := process.OpenKeys("keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.Issue("k2", auth.Identity{Client: "ada lovelace"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r := command(t, "", "token", "inspect", text, "--keys", "keys.yaml")
	if mustHave(t, r.stdout+r.stderr, "holds, by key k2", "no: its names", `the client "ada lovelace": use 1 to 128 of the characters`); r.code != exitFailure {
		t.Errorf("exit %d", r.code)
	}
}

func TestTokensThatCannotBeIssuedSayWhy(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GATEWAY_KEY", "0123456789abcdef0123456789abcdef")
	write(t, "keys.yaml", tokenKeys)
	write(t, "wrong.yaml", strings.Replace(tokenKeys, "audience", "audiense", 1))
	write(t, "short.yaml", strings.Replace(tokenKeys, "GATEWAY_KEY", "SHORT_KEY", 1))
	t.Setenv("SHORT_KEY", "short")
	for line, want := range map[string]string{
		"2 token issue --keys keys.yaml --key k9 --client c":                `there is no key "k9"`,
		"2 token issue --keys keys.yaml --key k1 --client c":                "the tenant is missing: name one",
		"2 token issue --keys keys.yaml --key k2 --client c --duration 25h": "a token cannot last 25h0m0s: 1s to 1h0m0s",
		"2 token issue --keys keys.yaml --key k2":                           "missing flags: --client",
		"2 token issue --keys keys.yaml --key k2 --client a/b":              `the client "a/b": use 1 to 128 of the characters A-Z a-z`,
		"2 token issue --keys keys.yaml --key k1 --client c --tenant ü":     `the tenant "ü": use 1 to 128`,
		"3 token issue --keys wrong.yaml --key k2 --client c":               `wrong.yaml:2:40: keys[0].audiense: unknown word`,
		"3 token issue --keys short.yaml --key k2 --client c":               "short.yaml:2:22: keys[0].secret: the secret has 5 bytes",
		"1 token issue --keys none.yaml --key k2 --client c":                "open none.yaml: no such file or directory: name one that can be read, written as",
		"1 token inspect v2.k1.AAAA.AAAA":                                   "cannot be read as JSON",
		"1 token inspect hello":                                             "the token has 1 parts",
		"1 token inspect --keys keys.yaml v2.k1.e30.AAAA":                   "bad signature (key k1)",
		"3 token inspect --keys wrong.yaml v2.k1.e30.AAAA":                  "unknown word",
	} {
		args := fields(line)
		if r := command(t, "", args[1:]...); string(rune('0'+r.code)) != args[0] || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s, want %s", line, r.code, r.stderr, want)
		}
	}
}

// TestInspectedTokenCannotDriveTheTerminal has one say what nobody should see.
func TestInspectedTokenCannotDriveTheTerminal(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"\u001b]0;owned\u0007","\u009b2J":["\u202e"],"exp":1e300,"iat":1790000000}`))
	got := must(t, "", "token", "inspect", "v2.k1."+claims+".AAAA")
	if strings.ContainsAny(got, "\x1b\x07\u009b\u202e") {
		t.Errorf("%q", got)
	}
	mustHave(t, got, `\u001b]0;owned\u0007`, "1e+300", "2026-09-21T")
}
