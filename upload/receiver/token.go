package receiver

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// TokenHash is the SHA-256 of a token. Tokens themselves are not kept.
type TokenHash [sha256.Size]byte

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// ParseTokens parses a file of tokens, one a line: "sha256:" and 64 hexadecimal digits, or a
// token itself. It skips empty lines and lines that begin with #. Errors have the number of
// the line and never quote it.
func ParseTokens(file []byte) ([]TokenHash, error) {
	var hashes []TokenHash
	for n, line := range bytes.Split(file, []byte("\n")) {
		text := string(bytes.TrimSpace(line))
		if text == "" || text[0] == '#' {
			continue
		}
		digits, hashed := strings.CutPrefix(text, "sha256:")
		if !hashed {
			if strings.ContainsAny(text, " \t") {
				return nil, fmt.Errorf("line %d: a token has no blanks", n+1)
			}
			hashes = append(hashes, HashToken(text))
			continue
		}
		var h TokenHash
		if b, err := hex.DecodeString(digits); err != nil || copy(h[:], b) != len(h) || len(b) != len(h) {
			return nil, fmt.Errorf("line %d: after sha256: come 64 hexadecimal digits", n+1)
		}
		hashes = append(hashes, h)
	}
	if len(hashes) == 0 {
		return nil, errors.New("the file has no token")
	}
	return hashes, nil
}

// authorised compares the request's bearer token with every hash, in constant time.
func authorised(r *http.Request, known []TokenHash) bool {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	got := HashToken(strings.TrimSpace(token))
	match := 0
	for i := range known {
		match |= subtle.ConstantTimeCompare(got[:], known[i][:])
	}
	return match == 1
}
