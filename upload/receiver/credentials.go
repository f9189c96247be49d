package receiver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// keyring issues and recognises upload credentials. They are not stored: a session token
// contains its access key, its run and its expiration, and is sealed with the master key,
// from which the secret key is derived.
type keyring struct{ master []byte }

// credentials of one run.
type credentials struct {
	accessKey, secretKey, sessionToken string
	runID                              string
	expires                            time.Time // whole seconds
}

// issue returns credentials for a run. Run ids have no '|'.
func (k keyring) issue(runID string, expires time.Time) credentials {
	c := credentials{
		accessKey: "RT" + rand.Text()[:18],
		runID:     runID,
		expires:   expires.UTC().Truncate(time.Second),
	}
	claim := c.accessKey + "|" + runID + "|" + strconv.FormatInt(c.expires.Unix(), 10)
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
	if len(parts) != 3 {
		return credentials{}, false
	}
	until, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return credentials{}, false
	}
	return credentials{
		accessKey: parts[0], runID: parts[1], expires: time.Unix(until, 0),
		sessionToken: sessionToken, secretKey: k.seal("secret", claim),
	}, true
}

func (k keyring) seal(purpose, claim string) string {
	h := hmac.New(sha256.New, k.master)
	h.Write([]byte(purpose + "|" + claim))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
