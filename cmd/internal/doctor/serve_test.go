package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// newReceiver returns a machine that runs rt-site serve.
func newReceiver(t *testing.T) *machine {
	m := newMachine(t)
	m.mkdir("/var/lib/rt/receiver", 0o750)
	m.write("/etc/rt/serve-tokens", "hunter2", 0o600)
	der, key := certificateOf(t, 365*24*time.Hour)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	m.write("/etc/rt/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	m.write("/etc/rt/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})), 0o600)
	for _, name := range []string{"registry.db", "objects/key"} {
		m.write("/var/lib/rt/receiver/"+name, "", 0o600)
	}
	m.status = http.StatusOK
	m.encrypt()
	m.Config.Serve.Listen = "0.0.0.0:" + m.server.URL[strings.LastIndex(m.server.URL, ":")+1:]
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	m.Local = func(string) *http.Client { return client }
	m.Stores = storesOf(nil, Check{Name: "serve.database", Status: OK, Finding: "ok"}, Check{Name: "serve.objects", Status: OK, Finding: "ok"})
	m.Config.Serve.TLSCert, m.Config.Serve.TLSKey = "/etc/rt/cert.pem", "/etc/rt/key.pem"
	return m
}

var receiverConditions = []condition{
	{"serve.dir", Failure, "no such file", func(m *machine) { m.remove("/var/lib/rt/receiver") }},
	{"serve.dir", Failure, "other users", func(m *machine) { m.chmod("/var/lib/rt/receiver", 0o777) }},
	{"serve.room", Failure, "1 MiB", func(m *machine) { m.Space = spaceOf(Space{Free: 1 << 20}) }},
	{"serve.token_file", Failure, "no such file", func(m *machine) { m.remove("/etc/rt/serve-tokens") }},
	{"serve.token_file", Failure, "all users", func(m *machine) { m.chmod("/etc/rt/serve-tokens", 0o644) }},
	{"serve.token_file", Failure, "is empty", func(m *machine) { m.write("/etc/rt/serve-tokens", "\n", 0o600) }},
	{"serve.password", Failure, "has a password", func(m *machine) { m.Config.Serve.Database = "postgres://rt:secret@db/rt" }},
	{"serve.answer", Failure, "refused", func(m *machine) { m.server.Close() }},
	{"serve.answer", Failure, "refuses the first token", func(m *machine) { m.status = http.StatusUnauthorized }},
	{"serve.answer", Failure, "status 503", func(m *machine) { m.status = http.StatusServiceUnavailable }},
	{"serve.database", Failure, "no connection", func(m *machine) {
		m.Stores = storesOf(nil, Check{"serve.database", Failure, "no connection", "the service does not start", "systemctl status postgresql"})
	}},
	{"serve.objects", Failure, "no space left", func(m *machine) {
		m.Stores = storesOf(nil, Check{"serve.objects", Failure, "no space left", "the service refuses runs", "make room"})
	}},
	{"serve.database", Unknown, "not installed", func(m *machine) { m.Stores = storesOf(errors.New("rt-site is not installed")) }},
	{"serve.token_file", OK, "serve-tokens", func(m *machine) {
		m.write("/etc/rt/serve-tokens", "# nodes\nsha256:0123 nodes\n", 0o600)
	}},
	{"serve.read_token_file", Failure, "all users", func(m *machine) { m.readTokens("hunter2 user=alice\n", 0o644) }},
	{"serve.read_token_file", Failure, "is empty", func(m *machine) { m.readTokens("# none\n", 0o640) }},
	{"serve.read_token_file", Failure, "no such file", func(m *machine) { m.Config.Serve.ReadTokenFile = "/etc/rt/read-tokens" }},
	{"serve.oidc_secret_file", Failure, "all users", func(m *machine) { m.oidcSecret("hunter2\n", 0o644) }},
	{"serve.oidc_secret_file", Failure, "is empty", func(m *machine) { m.oidcSecret("\n", 0o640) }},
	{"serve.oidc_secret_file", Failure, "no such file", func(m *machine) { m.Config.Serve.OIDCSecret = "/etc/rt/oidc-client" }},
	{"serve.coordinators", Failure, "sacctmgr", func(m *machine) { m.Config.Serve.Coordinators = "sacctmgr" }},
	{"serve.coordinators", Failure, "no such file", func(m *machine) { m.Config.Serve.Coordinators = "/etc/rt/coordinators" }},
	{"serve.coordinators", Failure, "all users", func(m *machine) {
		m.Config.Serve.Coordinators = "/etc/rt/coordinators"
		m.write("/etc/rt/coordinators", "alice physics\n", 0o666)
	}},
	{"serve.lake", Warning, "no such file", func(m *machine) { m.Config.Serve.Lake = "/srv/lake" }},
	{"serve.lake", Failure, "other users", func(m *machine) {
		m.Config.Serve.Lake = "/srv/lake"
		m.mkdir("/srv/lake", 0o777)
		m.chmod("/srv/lake", 0o777)
	}},
	{"serve.munge", Failure, "munge.socket", func(m *machine) { m.Config.Serve.Munge = "on" }},
	{"serve.tls", Failure, "no such file", func(m *machine) { m.remove("/etc/rt/cert.pem") }},
	{"serve.tls", Failure, "no PEM", func(m *machine) { m.write("/etc/rt/cert.pem", "text", 0o644) }},
	{"serve.tls", Warning, "expires on", func(m *machine) {
		der, _ := certificateOf(m.t, 24*time.Hour)
		m.write("/etc/rt/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	}},
	{"serve.tls", Failure, "expired", func(m *machine) {
		der, _ := certificateOf(m.t, -time.Hour)
		m.write("/etc/rt/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	}},
	{"serve.tls", Failure, "not valid before", func(m *machine) {
		m.Now = func() time.Time { return time.Now().Add(-90 * 24 * time.Hour) }
	}},
	{"serve.tls_key", Failure, "no such file", func(m *machine) { m.remove("/etc/rt/key.pem") }},
	{"serve.tls_key", Failure, "does not match", func(m *machine) {
		der, _ := certificateOf(m.t, 365*24*time.Hour)
		m.write("/etc/rt/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	}},
	{"serve.tls_key", Failure, "all users", func(m *machine) { m.chmod("/etc/rt/key.pem", 0o644) }},
}

var ownerCondition = condition{"serve.owner", Failure, "/registry.db belongs to the user id", func(m *machine) {
	if err := os.Chown(m.path("/var/lib/rt/receiver/registry.db"), 4711, -1); err != nil {
		m.t.Error(err)
	}
}}

// readTokens sets a file of read tokens.
func (m *machine) readTokens(text string, mode os.FileMode) {
	m.Config.Serve.ReadTokenFile = "/etc/rt/read-tokens"
	m.write("/etc/rt/read-tokens", text, mode)
}

// oidcSecret sets the file with the secret of the client at the provider of single sign-on.
func (m *machine) oidcSecret(text string, mode os.FileMode) {
	m.Config.Serve.OIDCSecret = "/etc/rt/oidc-client"
	m.write("/etc/rt/oidc-client", text, mode)
}

// readable lets readers, coordinators and a lake be configured and sound.
func (m *machine) readable() {
	m.readTokens("hunter2\n", 0o640)
	m.oidcSecret("hunter2\n", 0o640)
	m.Config.Serve.Coordinators, m.Config.Serve.Lake = "sacctmgr", "/srv/lake"
	m.commands["sacctmgr"] = "slurm-wlm 24.11.5\n"
	m.mkdir("/srv/lake", 0o750)
}

func storesOf(err error, checks ...Check) func(context.Context) ([]Check, error) {
	return func(context.Context) ([]Check, error) { return checks, err }
}

func TestReceiverConditions(t *testing.T) {
	m := newReceiver(t)
	m.remove("/usr/sbin/slurmd")
	if roles := m.FindRoles(); !slices.Equal(roles, []Role{Receiver}) {
		t.Errorf("roles %s, want receiver", roles)
	}
	if checks := m.Run(t.Context(), Receiver); Worst(checks) != OK {
		t.Errorf("problems of a sound receiver:\n%s", printed(t, checks))
	}
	m.readable()
	checks := m.Run(t.Context(), Receiver)
	for _, name := range []string{"serve.read_token_file", "serve.oidc_secret_file", "serve.coordinators", "serve.lake"} {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name && c.Status == OK }) {
			t.Errorf("%s is not ok:\n%s", name, printed(t, checks))
		}
	}
	check(t, Receiver, newReceiver, slices.Concat(receiverConditions, configConditions))
	if os.Getuid() == 0 { // who alone can give a file away
		check(t, Receiver, newReceiver, []condition{ownerCondition})
	}
}

// TestReceiverIsNode: a receiver that runs jobs has the checks of both roles, each once.
func TestReceiverIsNode(t *testing.T) {
	m := newReceiver(t)
	roles := m.FindRoles()
	if !slices.Equal(roles, []Role{Node, Receiver}) || Title(roles) != "compute node and receiver" {
		t.Fatalf("roles %s, %q", roles, Title(roles))
	}
	m.status = http.StatusOK
	checks := m.Run(t.Context(), roles...)
	if Worst(checks) != OK {
		t.Errorf("problems of a sound machine:\n%s", printed(t, checks))
	}
	count := map[string]int{}
	for _, c := range checks {
		count[c.Name]++
	}
	for _, name := range []string{"rt.config", "slurm.prolog", "kernel.cgroup", "spool.dir", "serve.dir", "serve.answer"} {
		if count[name] != 1 {
			t.Errorf("%d checks %s", count[name], name)
		}
	}
}
