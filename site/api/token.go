package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// Token permits to register runs, and to read and finish the runs of its owner.
type Token struct {
	Hash site.TokenHash
	// Name is the owner of what is sent with the token, so that a run outlives the change of a
	// token. Tokens with the same name have the same owner. A token without a name is an owner of
	// its own.
	Name string
	// User limits the token to runs of this user, of steps or outside a scheduler. Then Name is empty: all tokens of a
	// user have the same owner. Empty for the tokens of nodes.
	User string
}

// nameOfOwner matches names of owners. They are a part of credentials, see issue.
var nameOfOwner = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// nameOfUser matches names of users.
var nameOfUser = regexp.MustCompile(`^[A-Za-z0-9._@+$-]{1,64}$`)

// ParseTokens parses a file of tokens, one a line: "sha256:" and 64 hexadecimal digits, or a
// token itself, and then a name, user=NAME or nothing. It skips empty lines and lines that begin with #. Errors have
// the number of the line and never quote it.
func ParseTokens(file []byte) ([]Token, error) {
	var tokens []Token
	lines := map[site.TokenHash]int{}
	for n, line := range strings.Split(string(file), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		t, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if first, isThere := lines[t.Hash]; isThere {
			return nil, fmt.Errorf("line %d: the token of line %d is there again: remove one of the lines", n+1, first)
		}
		lines[t.Hash] = n + 1
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, errors.New("the file has no token")
	}
	return tokens, nil
}

// parseToken parses the words of a line.
func parseToken(fields []string) (t Token, err error) {
	if len(fields) > 2 {
		return t, errors.New("a line has a token, and perhaps a name or user=NAME")
	}
	t.Hash, err = site.ParseToken(fields[0])
	if err != nil || len(fields) == 1 {
		return t, err
	}
	name, isUser := strings.CutPrefix(fields[1], "user=")
	switch {
	case isUser && nameOfUser.MatchString(name):
		t.User = name
	case isUser:
		return t, errors.New("user= is followed by the name of a user, of at most 64 letters, digits, \".\", \"_\", \"-\", \"@\", \"+\" and \"$\"")
	case nameOfOwner.MatchString(name):
		t.Name = name
	default:
		return t, errors.New("the name after the token has at most 64 letters, digits, \".\", \"_\" and \"-\"")
	}
	return t, nil
}

// knownToken is a token that is accepted, and the owner of what is sent with it.
type knownToken struct {
	hash  site.TokenHash
	owner string
	user  string // to whose runs the owner is limited; empty for nodes
}

// authorised compares the request's bearer token with every hash, in constant time, and returns
// its owner.
func authorised(r *http.Request, known []knownToken) (owner string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	got := site.HashToken(strings.TrimSpace(token))
	match := -1
	for i := range known {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(got[:], known[i].hash[:]), i, match)
	}
	if match < 0 {
		return "", false
	}
	return known[match].owner, true
}

// keyring issues and recognises upload credentials without storing any. A session token has its
// access key, run, owner and expiration. The master key seals the token, and the secret key derives
// from the master key.
type keyring struct{ master []byte }

// masterBytes is the length of the master key.
const masterBytes = 32

// credentials of one run.
type credentials struct {
	accessKey, secretKey, sessionToken string
	runID, owner                       string
	expires                            time.Time // whole seconds
}

// owner is the owner of what is sent with a token, in credentials and runs. It does not reveal the token.
func (k keyring) owner(t Token) string {
	switch {
	case t.User != "":
		return site.OwnerOfUser(k.seal("user", t.User)[:16])
	case t.Name != "":
		return t.Name
	}
	return k.seal("owner", string(t.Hash[:]))[:16]
}

// issue returns credentials for a run. Run ids and owners have no '|'.
func (k keyring) issue(runID, owner string, expires time.Time) credentials {
	c := credentials{
		accessKey: "RT" + rand.Text()[:18],
		runID:     runID,
		owner:     owner,
		expires:   expires.UTC().Truncate(time.Second),
	}
	claim := c.accessKey + "|" + runID + "|" + strconv.FormatInt(c.expires.Unix(), 10) + "|" + owner
	c.sessionToken = base64.RawURLEncoding.EncodeToString([]byte(claim)) + "." + k.seal("token", claim)
	c.secretKey = k.seal("secret", claim)
	return c
}

// recognise returns the credentials of a session token.
func (k keyring) recognise(sessionToken string) (credentials, bool) {
	encoded, seal, ok := strings.Cut(sessionToken, ".")
	if !ok || len(sessionToken) > 1024 {
		return credentials{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	claim := string(b)
	if err != nil || !hmac.Equal([]byte(seal), []byte(k.seal("token", claim))) {
		return credentials{}, false
	}
	parts := strings.Split(claim, "|")
	if len(parts) != 4 {
		return credentials{}, false
	}
	until, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return credentials{}, false
	}
	return credentials{
		accessKey: parts[0], runID: parts[1], owner: parts[3], expires: time.Unix(until, 0),
		sessionToken: sessionToken, secretKey: k.seal("secret", claim),
	}, true
}

func (k keyring) seal(purpose, claim string) string {
	h := hmac.New(sha256.New, k.master)
	h.Write([]byte(purpose + "|" + claim))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
