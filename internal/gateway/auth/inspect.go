package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Contents is the content of an unverified token: anyone can write one.
type Contents struct {
	Form      string         // "v2", "JWT" or "legacy"
	Algorithm string         // algorithm of a JWT
	Key       string         // id of the key that verifies it; "" in the legacy form
	Claims    map[string]any // as in the JSON; only sub in the legacy form
}

// Inspect decodes a token of at most BytesMax without verifying it.
func Inspect(token string) (Contents, error) {
	if len(token) > BytesMax {
		return Contents{}, fmt.Errorf("the token has %d bytes, at most %d: %s", len(token), BytesMax, hints[TooLarge])
	}
	if client, _, legacy := strings.Cut(token, ":"); legacy {
		return Contents{Form: "legacy", Claims: map[string]any{"sub": client}}, nil
	}
	parts := strings.Split(token, ".")
	switch {
	case !wellFormed(token):
		return Contents{}, errors.New("the token is not base64url and points alone: " + hints[Malformed])
	case len(parts) == 4 && parts[0] == V2:
		c := Contents{Form: V2, Key: parts[1]}
		return c, decode(parts[2], "claims", &c.Claims)
	case len(parts) != 3:
		return Contents{}, fmt.Errorf("the token has %d parts with points between them, where v2 has 4 and a JWT 3: %s", len(parts), hints[Malformed])
	}
	var header map[string]any
	if err := decode(parts[0], "header", &header); err != nil {
		return Contents{}, err
	}
	c := Contents{Form: "JWT"}
	c.Algorithm, _ = header["alg"].(string)
	c.Key, _ = header["kid"].(string)
	return c, decode(parts[1], "claims", &c.Claims)
}

func decode(part, name string, into *map[string]any) error {
	text, err := encoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("the %s of the token cannot be read as JSON in base64url: %s", name, hints[Malformed])
	}
	return nil
}
