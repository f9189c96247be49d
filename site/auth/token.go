package auth

import (
	"bytes"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/resource-tracker/rt/site"
)

// Token is a read token and what its holder sees: the jobs of a user or of accounts, without either all
// runs.
type Token struct {
	hash     site.TokenHash
	user     string
	accounts []string
}

// ParseTokens parses a file of read tokens, one a line: a token, or sha256: and 64 hexadecimal digits, and
// after a blank user=NAME or account=A,B. It skips empty lines and lines that begin with #. A file
// without a token is valid. Errors have the number of the line and never quote it.
func ParseTokens(file []byte) (tokens []Token, err error) {
	n, lines := 0, map[site.TokenHash]int{}
	for line := range bytes.Lines(file) {
		n++
		fields := strings.Fields(string(line))
		isComment := len(fields) == 0 || fields[0][0] == '#'
		if isComment {
			continue
		}
		var t Token
		t.hash, err = site.ParseToken(fields[0])
		if err == nil {
			err = t.limit(fields[1:])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first, isThere := lines[t.hash]; isThere {
			return nil, fmt.Errorf("line %d: the token of line %d is there again: remove one of the lines", n, first)
		}
		lines[t.hash] = n
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// limit parses what follows a token.
func (t *Token) limit(fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	key, value, _ := strings.Cut(fields[0], "=")
	isOne := len(fields) == 1
	switch {
	case isOne && key == "user" && isName(value):
		t.user = value
		return nil
	case isOne && key == "account":
		t.accounts = strings.Split(value, ",")
		for _, account := range t.accounts {
			if !isName(account) {
				return fmt.Errorf("account= has an empty name or one that is not valid")
			}
		}
		return nil
	}
	return fmt.Errorf("after a token comes nothing, user=NAME or account=A,B")
}

// readerOf compares a token with all hashes, in constant time.
func readerOf(known []Token, token string) (site.Reader, error) {
	got := site.HashToken(token)
	match := -1
	for i := range known {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(got[:], known[i].hash[:]), i, match)
	}
	if match < 0 {
		return site.Reader{}, fmt.Errorf("%w: the token is not known here", site.ErrUnknownReader)
	}
	t := known[match]
	isAll := t.user == "" && len(t.accounts) == 0
	name := "token:" + hex.EncodeToString(t.hash[:8])
	return site.Reader{By: "token", Name: name, User: t.user, Accounts: t.accounts, Operator: isAll}, nil
}
