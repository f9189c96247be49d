package spool

import (
	"fmt"
	"testing"

	"github.com/resource-tracker/rt"
)

// A file of version 2 has no place for the scope of a registration: below a tracker
// that still writes it all else is kept, and the scope from when it is migrated.
func TestTheScopeOfARegistration(t *testing.T) {
	path, _ := copyVersion1(t)
	c, err := openConn(path, map[string][]string{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.exec(migrations[1] + fmt.Sprintf("PRAGMA user_version = %d", 2)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := lockRun(path)
	if err != nil {
		t.Fatal(err)
	}
	want := rt.Registration{Endpoint: "http://r", Dialect: "spec", Scope: rt.ScopeNode, RemoteID: "r1", Attempts: 1}
	keeps := func(wantVersion int, wantScope rt.Scope) {
		t.Helper()
		r := mustOpen(t, path)
		if r.version != wantVersion {
			t.Errorf("version %d, want %d", r.version, wantVersion)
		}
		if err := r.SaveRegistration(want); err != nil {
			t.Fatal(err)
		}
		want.Scope = wantScope
		if got, known, err := r.Registration(); err != nil || !known || got != want {
			t.Errorf("%+v, %v, %v, want %+v", got, known, err, want)
		}
		want.Scope = rt.ScopeNode
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	keeps(2, "")
	if err := lock.release(true); err != nil {
		t.Fatal(err)
	}
	keeps(version, rt.ScopeNode)
}
