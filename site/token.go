package site

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// TokenHash is the SHA-256 of a token. Tokens themselves are not kept.
type TokenHash [sha256.Size]byte

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// ParseToken parses a token of a file: "sha256:" and 64 hexadecimal digits, or the token itself. Errors
// do not quote it.
func ParseToken(text string) (h TokenHash, err error) {
	digits, isHash := strings.CutPrefix(text, "sha256:")
	if !isHash {
		return HashToken(text), nil
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(h) {
		return h, errors.New("after sha256: come 64 hexadecimal digits")
	}
	copy(h[:], b)
	return h, nil
}
