package auth

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// attack is a token that must be refused.
type attack struct {
	name, token string
	want        Reason
}

// refused sees that a token is refused for a reason, and that what is logged holds
// nothing of it.
func refused(t *testing.T, k *Keyring, a attack) {
	t.Helper()
	before := k.Stats()
	who, err := k.Verify(t.Context(), a.token)
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Reason != a.want || who != (Identity{}) {
		t.Errorf("%s: %+v, %v, want %q", a.name, who, err, a.want)
		return
	}
	after := k.Stats()
	if after.Refused[a.want] != before.Refused[a.want]+1 || after.Accepted != before.Accepted {
		t.Errorf("%s is not counted: %+v", a.name, after)
	}
	said := err.Error()
	for part := range strings.FieldsFuncSeq(a.token, func(c rune) bool { return c == '.' || c == ':' }) {
		if len(part) > 12 && strings.Contains(said, part) || strings.Contains(said, secret) || strings.Contains(said, other) {
			t.Errorf("%s: the log would show a part of it: %s", a.name, said)
		}
	}
	if !strings.HasPrefix(said, "token refused: "+string(a.want)) || !strings.HasSuffix(said, hints[a.want]) || hints[a.want] == "" {
		t.Errorf("%s: %s", a.name, said)
	}
}

func hsWith(t *testing.T, header string) string {
	t.Helper()
	return signedJWT(t, jwt.SigningMethodHS256, []byte(secret), header, claims(t, nil))
}

// attacksOnForm are on what a token looks like, and on the key it names.
func attacksOnForm(t *testing.T) []attack {
	v2, legacy, right := peer(t, "v2"), peer(t, "legacy"), claims(t, nil)
	return []attack{
		{"nothing", "", Malformed},
		{"a word", "hello", Malformed},
		{"points", "...", Malformed},
		{"points alone", "v2" + strings.Repeat(".", BytesMax-2), Malformed},
		{"too few parts", v2[:strings.LastIndexByte(v2, '.')], Malformed},
		{"a part more", v2 + ".AAAA", Malformed},
		{"huge", v2 + strings.Repeat("A", BytesMax), TooLarge},
		{"huge and legacy", strings.Repeat("c", BytesMax) + legacy, TooLarge},
		{"white space around it", " " + v2, Malformed},
		{"a line end behind it", v2 + "\n", Malformed},
		{"padding", v2 + "=", Malformed},
		{"characters of standard base64", strings.Replace(signed("k1", secret, `{"sub":"???>>>"}`), "_", "/", 1), Malformed},

		{"key of nobody", signed("k9", secret, right), UnknownKey},
		{"no key", signed("", secret, right), UnknownKey},
		{"key that is a path", signed("../../etc/passwd", secret, right), Malformed},
		{"key that is a path, in a JWT", hsWith(t, `{"alg":"HS256","kid":"../../dev/null"}`), UnknownKey},
		{"key that is a query, in a JWT", hsWith(t, `{"alg":"HS256","kid":"hs' OR 1=1"}`), UnknownKey},
		{"key with a control character", hsWith(t, `{"alg":"HS256","kid":"hs\u0000"}`), Malformed},
		{"key that is a list", hsWith(t, `{"alg":"HS256","kid":["hs"]}`), Malformed},
		{"JWT without a key", hsWith(t, `{"alg":"HS256"}`), Malformed},
		{"JWT that brings its key", hsWith(t, `{"alg":"HS256","jwk":{"kty":"oct","k":"`+base64.RawURLEncoding.EncodeToString([]byte(secret))+`"}}`), Malformed},
		{"JWT with an extension", hsWith(t, `{"alg":"HS256","kid":"hs","crit":["b64"],"b64":false}`), Malformed},
		{"header that is null", signedJWT(t, jwt.SigningMethodHS256, []byte(secret), `null`, right), WrongAlgorithm},
	}
}

// attacksOnSignatures are on algorithms and keys.
func attacksOnSignatures(t *testing.T) []attack {
	rsaKey, right := private(t, "rsa.pem"), claims(t, nil)
	rsaDER, _ := x509.MarshalPKIXPublicKey(rsaKey.Public())
	rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: rsaDER})
	v2, hs, eddsa := peer(t, "v2"), peer(t, "hs256"), peer(t, "eddsa")
	foreign := signed("k1", secret, right)
	return []attack{
		{"alg none", signedJWT(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, `{"alg":"none","kid":"hs"}`, right), WrongAlgorithm},
		{"alg None", signedJWT(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, `{"alg":"None","kid":"hs"}`, right), WrongAlgorithm},
		{"alg of another size", signedJWT(t, jwt.SigningMethodHS512, []byte(secret), `{"alg":"HS512","kid":"hs"}`, right), WrongAlgorithm},
		{"no alg", hsWith(t, `{"kid":"hs"}`), WrongAlgorithm},
		{"public key in PEM as secret", signedJWT(t, jwt.SigningMethodHS256, rsaPEM, `{"alg":"HS256","kid":"rs"}`, right), WrongAlgorithm},
		{"public key in DER as secret", signedJWT(t, jwt.SigningMethodHS256, rsaDER, `{"alg":"HS256","kid":"rs"}`, right), WrongAlgorithm},
		{"RSA for the key of a secret", signedJWT(t, jwt.SigningMethodRS256, rsaKey, `{"alg":"RS256","kid":"hs"}`, right), WrongAlgorithm},
		{"RSA-PSS for the key of RS256", signedJWT(t, jwt.SigningMethodPS256, rsaKey, `{"alg":"PS256","kid":"rs"}`, right), WrongAlgorithm},
		{"RSA for the key of EdDSA", signedJWT(t, jwt.SigningMethodRS256, rsaKey, `{"alg":"RS256","kid":"ed"}`, right), WrongAlgorithm},
		{"JWT with the key of v2", hsWith(t, `{"alg":"HS256","kid":"k1"}`), WrongAlgorithm},
		{"JWT of alg v2", hsWith(t, `{"alg":"v2","kid":"k1"}`), WrongAlgorithm},
		{"v2 with the key of a JWT", signed("hs", secret, right), WrongAlgorithm},
		{"v2 with a public key", signed("ed", secret, right), WrongAlgorithm},

		{"secret of another key", signed("k1", other, right), BadSignature},
		{"another key's token", strings.Replace(signed("k2", other, right), "v2.k2", "v2.k1", 1), BadSignature},
		{"no MAC", v2[:strings.LastIndexByte(v2, '.')+1], BadSignature},
		{"MAC without its last byte", v2[:len(v2)-2], BadSignature},
		{"claims of one, MAC of another", v2[:strings.LastIndexByte(v2, '.')] + foreign[strings.LastIndexByte(foreign, '.'):], BadSignature},
		{"JWT without signature", hs[:strings.LastIndexByte(hs, '.')+1], BadSignature},
		{"EdDSA without its last byte", eddsa[:len(eddsa)-2], BadSignature},
		{"bits behind the last byte of the MAC", v2[:len(v2)-1] + string(v2[len(v2)-1]+1), BadSignature},
	}
}

// attacksOnClaims are by tokens whose signature holds, and by those of the legacy form.
func attacksOnClaims(t *testing.T) []attack {
	v2With := func(changes map[string]any) string { return signed("k1", secret, claims(t, changes)) }
	right, legacy, unix := claims(t, nil), peer(t, "legacy"), issuedAt.Unix()
	return []attack{
		{"expired", v2With(map[string]any{"iat": unix - 1000, "exp": unix - 31}), Expired},
		{"expired before it began", v2With(map[string]any{"exp": unix - 31}), Expired},
		{"issued tomorrow", v2With(map[string]any{"iat": unix + 86_400, "exp": unix + 87_000}), NotYetValid},
		{"nbf to come", v2With(map[string]any{"nbf": unix + 31}), NotYetValid},
		{"for ever", v2With(map[string]any{"exp": unix + 3601}), TooLong},
		{"until the end of numbers", v2With(map[string]any{"exp": 1e300}), ""},
		{"since ever", v2With(map[string]any{"iat": -1e17}), TooLong},
		{"without exp", v2With(map[string]any{"exp": nil}), Incomplete},
		{"without iat", v2With(map[string]any{"iat": nil}), Incomplete},
		{"exp that is text", v2With(map[string]any{"exp": "1790000900"}), Incomplete},
		{"exp of another case", v2With(map[string]any{"exp": nil, "EXP": unix + 900}), Incomplete},
		{"nbf that is text", v2With(map[string]any{"nbf": "now"}), Incomplete},

		{"foreign audience", v2With(map[string]any{"aud": "billing"}), WrongAudience},
		{"foreign audiences", v2With(map[string]any{"aud": []string{"billing", "Gateway"}}), WrongAudience},
		{"audience that is a number", v2With(map[string]any{"aud": 1}), WrongAudience},
		{"no audience", v2With(map[string]any{"aud": nil}), WrongAudience},
		{"foreign tenant", signed("k2", other, claims(t, map[string]any{"tid": "rival"})), WrongTenant},
		{"no tenant", v2With(map[string]any{"tid": nil}), Incomplete},
		{"empty tenant", signed("k2", other, claims(t, map[string]any{"tid": ""})), Incomplete},
		{"tenant of another case", v2With(map[string]any{"tid": nil, "TID": "acme"}), Incomplete},
		{"tenant that is a list", v2With(map[string]any{"tid": []string{"acme"}}), Incomplete},
		{"tenant with a line end", v2With(map[string]any{"tid": "acme\nrival"}), Incomplete},
		{"no client", v2With(map[string]any{"sub": nil}), Incomplete},
		{"client that is too long", v2With(map[string]any{"sub": strings.Repeat("c", 256)}), Incomplete},
		{"scope that is a list", v2With(map[string]any{"scope": []string{"read"}}), Incomplete},
		{"empty scope", v2With(map[string]any{"scope": ""}), Incomplete},
		{"claims that are a list", signed("k1", secret, `[]`), Malformed},
		{"claims that are null", signed("k1", secret, `null`), Incomplete},
		{"claims with more behind them", signed("k1", secret, right+"{}"), Malformed},
		{"claims that nest", signed("k1", secret, strings.Repeat("[", 4000)), Malformed},

		{"legacy of another secret", "c42:" + strings.Repeat("a1", 32), BadSignature},
		{"legacy of another client", "c43" + legacy[3:], BadSignature},
		{"legacy with a point more", "c42:" + legacy, BadSignature},
		{"legacy in capitals", "c42:" + strings.ToUpper(legacy[4:]), BadSignature},
		{"legacy truncated", legacy[:len(legacy)-2], BadSignature},
		{"legacy without a client", legacy[3:], BadSignature},
		{"legacy of a client that is two lines", signedLegacy("c4\n2"), Incomplete},
	}
}

func TestAttacksAreRefused(t *testing.T) {
	k := open(t, allKeys(t), at(issuedAt))
	seen := make(map[Reason]bool)
	for _, a := range slices.Concat(attacksOnForm(t), attacksOnSignatures(t), attacksOnClaims(t)) {
		if a.want == "" { // which reason is up to how the machine rounds
			if _, err := k.Verify(t.Context(), a.token); err == nil {
				t.Errorf("%s is accepted", a.name)
			}
			continue
		}
		refused(t, k, a)
		seen[a.want] = true
	}
	for reason := range hints {
		if !seen[reason] && !slices.Contains([]Reason{LegacyOff, KeysUnavailable, WrongIssuer}, reason) { // which have tests of their own
			t.Errorf("no attack is refused as %q", reason)
		}
	}
}

func TestLegacyFormIsOffUnlessAskedFor(t *testing.T) {
	keys := allKeys(t)
	keys.Legacy = nil
	refused(t, open(t, keys, at(issuedAt)), attack{"legacy", peer(t, "legacy"), LegacyOff})
}

// TestTokenThatIsChangedAnywhereIsRefused flips every bit, cuts at every place and
// puts in what decoders of base64 pass over.
func TestTokenThatIsChangedAnywhereIsRefused(t *testing.T) {
	k := open(t, allKeys(t), at(issuedAt))
	for _, form := range forms {
		token := peer(t, form)
		if _, err := k.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		must := func(changed, how string, i int) {
			if _, err := k.Verify(t.Context(), changed); err == nil {
				t.Errorf("%s is accepted with byte %d %s", form, i, how)
			}
		}
		for i := range token {
			must(token[:i], "cut, and all behind it,", i)
			must(token[:i]+token[i+1:], "left out", i)
			for bit := range 8 {
				must(token[:i]+string([]byte{token[i] ^ 1<<bit})+token[i+1:], "flipped", i)
			}
			for _, more := range []string{"\n", "\r", "=", " ", ".", "\x00", "A"} {
				must(token[:i]+more+token[i:], "behind "+more, i)
			}
		}
	}
}

func TestIssuerOfAKeySetIsCompared(t *testing.T) {
	k := open(t, Keys{JWKS: &JWKS{File: keySetFile(t), Issuer: "https://idp.example", Audience: "gateway", Tenant: "acme"}}, at(issuedAt))
	key := private(t, "ed25519.pem")
	for issuer, want := range map[any]Reason{"https://idp.example": "", "https://idp.example.evil": WrongIssuer, nil: WrongIssuer, 1: WrongIssuer} {
		token := signedJWT(t, jwt.SigningMethodEdDSA, key, `{"alg":"EdDSA","kid":"ed"}`, claims(t, map[string]any{"iss": issuer}))
		if want != "" {
			refused(t, k, attack{"issuer", token, want})
		} else if _, err := k.Verify(t.Context(), token); err != nil {
			t.Error(err)
		}
	}
}

// TestHugeTokenCostsNothing sees that its length is looked at first.
func TestHugeTokenCostsNothing(t *testing.T) {
	k := open(t, allKeys(t), at(issuedAt))
	huge := "v2.k1." + strings.Repeat("A", 64<<20)
	begun := time.Now()
	for range 20_000 {
		if _, err := k.Verify(t.Context(), huge); err == nil {
			t.Fatal("it is accepted")
		}
	}
	if took := time.Since(begun); took > 30*time.Second { // reading all of it takes minutes
		t.Errorf("%v", took)
	}
}
