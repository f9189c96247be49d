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

// ownerOfUser begins the name of the owner of a user's tokens. No other owner has a colon.
const ownerOfUser = "user:"

// OwnerOfUser returns the owner of the tokens of a user, whom mark stands for. The runs of such an owner are of steps
// of this user, or outside a scheduler.
func OwnerOfUser(mark string) string { return ownerOfUser + mark }

// IsOwnerOfUser reports whether an owner of runs is a user, and not the nodes of a site.
func IsOwnerOfUser(owner string) bool { return strings.HasPrefix(owner, ownerOfUser) }

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
