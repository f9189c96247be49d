package registry

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/resource-tracker/rt/e2e/postgres"
)

var (
	server    *postgres.Server // started by the first test that needs it
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimFile); path != "" {
		fmt.Fprintln(os.Stderr, victim(path))
		os.Exit(1)
	}
	code := m.Run()
	if server != nil {
		_ = server.Close() // a test removes what it can
	}
	os.Exit(code)
}

// newDatabase returns the URL of an empty database. Its server does not sync: these tests do not
// crash the machine.
func newDatabase(t testing.TB) string {
	t.Helper()
	if server == nil {
		var err error
		server, err = postgres.Start("fsync=off")
		if err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	if err := server.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}
