package fetch_test

import (
	"crypto/sha256"
	"encoding/hex"
)

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}
