package auth

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// key verifies signatures; a key with a secret also signs.
type key struct {
	id        string
	algorithm string
	material  any // []byte, *rsa.PublicKey or ed25519.PublicKey, depending on the algorithm
	issuer    string
	audience  string
	tenant    string // "" uses the token's tenant
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// named reports whether text is a valid name of a client, tenant or audience. Such names appear in
// keys, headers and log lines.
func named(text string) bool {
	return text != "" && len(text) <= nameBytes && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

const nameRule = "1 to 255 bytes without control characters"

func readKey(from *Key, path string, found *KeysErrors) *key {
	k := &key{id: from.ID, algorithm: cmp.Or(from.Algorithm, V2), audience: from.Audience, tenant: from.Tenant}
	if !keyID.MatchString(from.ID) {
		found.add(path+".id", "is not an id of a key", "write "+keyIDRule)
	}
	if !named(from.Audience) {
		found.add(path+".audience", "is not a name", "write the audience of its tokens: "+nameRule)
	}
	if from.Tenant != "" && !named(from.Tenant) {
		found.add(path+".tenant", "is not a name", "write "+nameRule)
	}
	secret, public := from.Secret != "" || from.SecretFile != "", from.PublicFile != ""
	switch k.algorithm {
	case V2, HS256:
		if public {
			found.add(path+".public_file", k.algorithm+" has no public key", "remove it, or write `alg: RS256` or `alg: EdDSA`")
		}
		k.material = readSecret(from.Secret, from.SecretFile, path, found)
	case RS256, EdDSA:
		if secret {
			found.add(path+".secret", k.algorithm+" has no secret here", "remove it: the issuer of tokens has the private key")
		}
		if k.material = readPublic(from.PublicFile, path, found); k.material != nil && algorithmOf(k.material) != k.algorithm {
			found.add(path+".public_file", "the file holds a key of another algorithm", "correct `alg`")
		}
	default:
		found.add(path+".alg", "is no algorithm", "write v2, HS256, RS256 or EdDSA")
	}
	return k
}

// readSecret returns the secret, or the content of file.
func readSecret(secret, file, path string, found *KeysErrors) []byte {
	path += ".secret"
	if file != "" {
		path += "_file"
		text, err := readFile(file, fileBytes)
		if err != nil {
			*found = append(*found, &KeysError{path, err.Error(), "name a file of the secret alone", err})
			return nil
		}
		secret = strings.TrimSpace(string(text))
	}
	if len(secret) < secretMin {
		found.add(path, fmt.Sprintf("the secret has %d bytes, and can be guessed with fewer than %d", len(secret), secretMin), "make one by `openssl rand -hex 32`")
	}
	return []byte(secret)
}

// readPublic returns the public key in a PEM file; nil if there is an error.
func readPublic(file, path string, found *KeysErrors) crypto.PublicKey {
	path += ".public_file"
	const hint = "name a file that starts with -----BEGIN PUBLIC KEY-----"
	if file == "" {
		found.add(path, "is missing", hint)
		return nil
	}
	text, err := readFile(file, fileBytes)
	if err != nil {
		*found = append(*found, &KeysError{path, err.Error(), hint, err})
		return nil
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		found.add(path, "the file holds no public key in PEM", hint)
		return nil
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil || algorithmOf(public) == "" {
		found.add(path, fmt.Sprintf("the file holds no Ed25519 key and no RSA key of %d to %d bits", rsaBitsMin, rsaBitsMax), hint)
		return nil
	}
	return public
}

// algorithmOf returns the algorithm of a public key. It returns "" if the key's type is not
// supported, or if the key is too weak or too expensive.
func algorithmOf(public crypto.PublicKey) string {
	switch public := public.(type) {
	case ed25519.PublicKey:
		if len(public) == ed25519.PublicKeySize {
			return EdDSA
		}
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits >= rsaBitsMin && bits <= rsaBitsMax && public.E >= 3 && public.E <= math.MaxInt32 && public.E%2 == 1 {
			return RS256
		}
	}
	return ""
}

// readFile reads a file. A file larger than most bytes is an error.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

func readAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("larger than %d bytes", most)
	}
	return data, err
}
