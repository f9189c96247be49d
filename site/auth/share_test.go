package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

func TestShares(t *testing.T) {
	e := newEntrance(t, SessionConfig{ShareLife: 7 * 24 * time.Hour})
	alice, page := site.Reader{By: "session", User: "alice"}, "job?cluster=c&generation=1&id=7"
	secret, expires, err := e.sessions.NewShare(visit(), alice, page)
	if err != nil || !expires.Equal(e.now.Add(7*24*time.Hour)) {
		t.Fatalf("%v, %v", expires, err)
	}
	reader, shown, err := e.readers.Shared(visit(), secret)
	if err != nil || shown != page || reader.By != "share" || reader.User != "alice" || reader.Operator || strings.Contains(reader.Name, secret) {
		t.Errorf("%+v, %q, %v", reader, shown, err)
	}
	random, rest, _ := strings.Cut(secret, ".")
	end, signature, _ := strings.Cut(rest, ".")
	for name, wrong := range map[string]string{
		"empty": "", "of another id": "0123456789abcdef." + rest, "with a later end": random + ".9999999999." + signature, "without a signature": random + "." + end + ".",
		"without parts": random, "with another signature": random + "." + end + "." + seal([]byte("other"), "share|"+random+"."+end), "longer": secret + ".x", "of a link": e.link(t, "alice"),
	} {
		if reader, shown, err := e.readers.Shared(visit(), wrong); !errors.Is(err, ErrRefused) || shown != "" || reader.User != "" {
			t.Errorf("%s: %+v, %q, %v", name, reader, shown, err)
		}
	}
	// The secret of a share is no cookie and no link, and a share makes no further one.
	if _, set, err := e.enter(secret); !errors.Is(err, ErrRefused) || set != nil {
		t.Errorf("as a link: %v, %v", set, err)
	}
	for _, other := range []site.Reader{reader, {By: "token", Operator: true}} {
		if _, _, err := e.sessions.NewShare(visit(), other, page); !errors.Is(err, ErrRefused) {
			t.Errorf("a share of %+v: %v", other, err)
		}
	}
	e.now = expires
	if _, _, err := e.readers.Shared(visit(), secret); !errors.Is(err, ErrRefused) {
		t.Errorf("after its end: %v", err)
	}
}

func TestRevokedShares(t *testing.T) {
	e := newEntrance(t, SessionConfig{ShareLife: time.Hour})
	secret, _, err := e.sessions.NewShare(visit(), site.Reader{By: "munge", User: "alice"}, "job?id=7")
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.sessions.SharesOf(visit(), "alice")
	other, failed := e.sessions.SharesOf(visit(), "bob")
	if errors.Join(err, failed) != nil || len(list) != 1 || len(other) != 0 {
		t.Fatalf("%+v, %+v, %v, %v", list, other, err, failed)
	}
	// The database has the id and the end of a share, and the key. Its secret cannot be made of them.
	if strings.Contains(secret, list[0].ID) {
		t.Errorf("the secret %s is made of the id %s", secret, list[0].ID)
	}
	if err := e.sessions.Revoke(visit(), "bob", list[0].ID); err != nil {
		t.Error(err)
	}
	if _, _, err := e.readers.Shared(visit(), secret); err != nil {
		t.Errorf("bob has revoked the share of alice: %v", err)
	}
	if err := e.sessions.Revoke(visit(), "alice", list[0].ID); err != nil {
		t.Error(err)
	}
	if _, _, err := e.readers.Shared(visit(), secret); !errors.Is(err, ErrRefused) {
		t.Errorf("after the revocation: %v", err)
	}
	none := newEntrance(t, SessionConfig{})
	if _, _, err := none.sessions.NewShare(visit(), site.Reader{By: "munge", User: "alice"}, "job?id=7"); !errors.Is(err, ErrRefused) {
		t.Errorf("without serve.share_life: %v", err)
	}
}
