package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
)

// serveChecks check the files of rt-site serve on this machine. rt-site verify checks the data.
type serveChecks struct{ *Doctor }

func (d serveChecks) run(ctx context.Context) {
	s := d.Config.Serve
	isSafe := d.checkFile(fileRule{"serve.dir", s.Dir, "rt-site serve does not start", "install -d -o rt -g rt -m 750 " + s.Dir,
		0o022, "another user can replace the runs of the site", "chmod go-w " + s.Dir})
	if isSafe {
		d.add(ok("serve.dir", "%s", s.Dir))
		d.add(d.checkServeSpace())
	}
	d.add(d.checkServeFiles())
	d.add(d.checkPassword())
	token := d.checkServeTokens(tokenFile{"serve.token_file", s.TokenFile, "no node can deliver", "each user of this machine can send runs as any node", oneTokenPerLine})
	d.checkReaders(ctx)
	d.add(d.checkLake())
	d.checkServeTLS()
	d.add(d.checkServing(ctx, token))
	d.checkStores(ctx)
	socket := s.Munge
	if socket == "on" {
		socket = "/run/munge/munge.socket.2"
	}
	switch {
	case socket == "off":
		d.add(ok("serve.munge", "off"))
	case d.exists(socket):
		d.add(ok("serve.munge", "%s", socket))
	default:
		d.add(fail("serve.munge", socket+" does not exist", "users cannot prove who they are", "systemctl start munge, or serve.munge in rt.toml"))
	}
}

func (d serveChecks) checkServeSpace() Check {
	space, err := d.Space(d.path(d.Config.Serve.Dir))
	const least = 1 << 30
	switch {
	case err != nil:
		return unknown("serve.room", err)
	case space.Free < least:
		return fail("serve.room", mebibytes(int64(space.Free))+" are free", "the service refuses runs when the disk is full", "serve.retain_runs in rt.toml, or make room on the file system")
	default:
		return ok("serve.room", "%s are free", mebibytes(int64(min(space.Free, 1<<62))))
	}
}

// tokenFile is a file with one token per line that rt-site serve accepts.
type tokenFile struct {
	setting, file    string
	without, exposed string // what follows if it has no token, and if all users can read it
	create           string // what to put into it
}

const oneTokenPerLine = "put one token per line into "

// checkServeTokens returns the first token of a file; empty if the file has only hashes of tokens.
func (d serveChecks) checkServeTokens(f tokenFile) (token string) {
	isSafe := d.checkFile(fileRule{f.setting, f.file, f.without, f.create + f.file,
		0o007, f.exposed, "chmod o-rwx " + f.file + ", and new tokens"})
	if !isSafe {
		return ""
	}
	text, err := d.read(f.file)
	lines := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		lines++
		if token == "" && !strings.HasPrefix(fields[0], "sha256:") {
			token = fields[0]
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.add(unknown(f.setting, err))
	case err != nil:
		d.add(fail(f.setting, err.Error(), f.without, f.create+f.file))
	case lines == 0:
		d.add(fail(f.setting, f.file+" is empty", f.without, f.create+f.file))
	default:
		d.add(ok(f.setting, "%s", f.file))
	}
	return token
}

// checkReaders checks who may read the runs of the site.
func (d serveChecks) checkReaders(ctx context.Context) {
	s := d.Config.Serve
	if s.ReadTokenFile != "" {
		d.checkServeTokens(tokenFile{"serve.read_token_file", s.ReadTokenFile, "no read token is valid", "each user of this machine can read the runs that a token in it may read", oneTokenPerLine})
	}
	if s.OIDCSecret != "" {
		d.checkServeTokens(tokenFile{"serve.oidc_secret_file", s.OIDCSecret, "rt-site serve does not start, or no one can log in by single sign-on", "each user of this machine can act as this site at the provider", "put what the provider has given to this site into "})
	}
	const name = "serve.coordinators"
	switch s.Coordinators {
	case "":
	case "sacctmgr":
		_, err := d.Command(ctx, "sacctmgr", "--version")
		if err != nil {
			d.add(fail(name, fmt.Sprintf("sacctmgr: %v", err), "rt-site serve does not start, or coordinators see only their own jobs", "install the client programs of Slurm, or name a file in serve.coordinators"))
			return
		}
		d.add(ok(name, "sacctmgr"))
	default:
		isSafe := d.checkFile(fileRule{name, s.Coordinators, "coordinators see only their own jobs", "create the file, or correct serve.coordinators in rt.toml",
			0o002, "another user can let users read the jobs of an account", "chmod o-w " + s.Coordinators})
		if isSafe {
			d.add(ok(name, "%s", s.Coordinators))
		}
	}
}

// checkLake checks the directory of the lake. rt-lake tries a store of objects itself.
func (d serveChecks) checkLake() Check {
	const name = "serve.lake"
	dir := d.Config.Serve.Lake
	isDirectory := strings.HasPrefix(dir, "/")
	if !isDirectory {
		return Check{}
	}
	st, err := os.Stat(d.path(dir))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unknown(name, err)
	case err != nil:
		return warn(name, err.Error(), "rt-lake.service cannot create it", "install -d -o rt -g rt -m 750 "+dir)
	case st.Mode().Perm()&0o022 != 0:
		return fail(name, fmt.Sprintf("%s can be written by other users (mode %04o)", dir, st.Mode().Perm()), "another user can replace the records of the site", "chmod go-w "+dir)
	default:
		return ok(name, "%s", dir)
	}
}

func (d serveChecks) checkServeTLS() {
	const name = "serve.tls"
	s := d.Config.Serve
	if s.TLSCert == "" {
		d.add(ok(name, "plain HTTP at %s: for a proxy on this machine", s.Listen))
		return
	}
	text, err := d.read(s.TLSCert)
	if err != nil {
		d.add(fail(name, err.Error(), "rt-site serve does not start", "correct serve.tls_cert in rt.toml"))
		return
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		d.add(fail(name, s.TLSCert+" has no PEM certificate", "rt-site serve does not start", "correct serve.tls_cert in rt.toml"))
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		d.add(fail(name, fmt.Sprintf("%s: %v", s.TLSCert, err), "rt-site serve does not start", "correct serve.tls_cert in rt.toml"))
		return
	}
	d.add(d.checkCertificate(name, c))
	const keyName = "serve.tls_key"
	isSafe := d.checkFile(fileRule{keyName, s.TLSKey, "rt-site serve does not start", "correct serve.tls_key in rt.toml",
		0o007, "each user of this machine can act as the service", "chmod o-rwx " + s.TLSKey})
	if !isSafe {
		return
	}
	key, err := d.read(s.TLSKey)
	if errors.Is(err, fs.ErrPermission) {
		d.add(unknown(keyName, err))
		return
	}
	_, pairErr := tls.X509KeyPair([]byte(text), []byte(key)) // the error does not quote the key
	err = errors.Join(err, pairErr)
	if err != nil {
		d.add(fail(keyName, fmt.Sprintf("%s and %s: %v", s.TLSCert, s.TLSKey, err), "rt-site serve does not start", "the key of this certificate in serve.tls_key"))
		return
	}
	d.add(ok(keyName, "%s is the key of the certificate", s.TLSKey))
}

// checkServeFiles checks that the files of the site belong to one user: those that root makes cannot be written by the service.
func (d serveChecks) checkServeFiles() Check {
	const name = "serve.owner"
	dir := d.Config.Serve.Dir
	st, err := os.Stat(d.path(dir))
	if err != nil {
		return Check{} // serve.dir reports it
	}
	for _, file := range []string{"registry.db", "registry.db-wal", "registry.db-shm", "objects"} {
		of, err := os.Stat(d.path(path.Join(dir, file)))
		if err == nil && ownerOf(of) != ownerOf(st) {
			return fail(name, fmt.Sprintf("%s belongs to the user id %d, %s to %d", path.Join(dir, file), ownerOf(of), dir, ownerOf(st)), "the service cannot write it, and refuses runs",
				fmt.Sprintf("chown -R --reference=%[1]s %[1]s", dir))
		}
	}
	return ok(name, "the files belong to the user id %d", ownerOf(st))
}

// checkPassword checks that a password in rt.toml is not for all users.
func (d serveChecks) checkPassword() Check {
	u, err := url.Parse(d.Config.Serve.Database)
	st, statErr := os.Stat(d.path(d.ConfigFile))
	if err != nil || statErr != nil {
		return Check{} // rt-site doctor reports a wrong address
	}
	_, isThere := u.User.Password()
	if isThere && st.Mode().Perm()&0o004 != 0 {
		return fail("serve.password", fmt.Sprintf("serve.database has a password, and all users can read %s (mode %04o)", d.ConfigFile, st.Mode().Perm()), "each user of this machine can read and change the records of the site",
			"PGPASSWORD in /etc/rt/site.env with mode 0600, and no password in serve.database; then change the password")
	}
	return Check{}
}

// localURL returns the address at which a program on this machine reaches the service.
func localURL(listen string, isTLS bool) string {
	if strings.HasPrefix(listen, "unix:") {
		return "http://rt-site"
	}
	host, port, _ := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	isAny := host == "" || (ip != nil && ip.IsUnspecified())
	if isAny {
		host = "127.0.0.1" // a minimal machine cannot look localhost up
	}
	isAnyOfIPv6 := isAny && ip != nil && ip.To4() == nil
	if isAnyOfIPv6 {
		host = "::1"
	}
	if isTLS {
		return "https://" + net.JoinHostPort(host, port)
	}
	return "http://" + net.JoinHostPort(host, port)
}

// checkServing asks the running service for a run, as a node that delivers does.
func (d serveChecks) checkServing(ctx context.Context, token string) Check {
	const name = "serve.answer"
	s := d.Config.Serve
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, localURL(s.Listen, s.TLSCert != "")+"/runs?limit=1", nil)
	if err != nil {
		return fail(name, err.Error(), "the service cannot be asked", "correct serve.listen in rt.toml")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := d.Local(s.Listen).Do(req)
	if err != nil {
		return fail(name, err.Error(), "the service does not run: no node can deliver", "systemctl enable --now rt-site; journalctl -u rt-site shows why it ended")
	}
	resp.Body.Close()
	switch {
	case token == "" && resp.StatusCode < http.StatusInternalServerError: // there is none, or only hashes
		return ok(name, "%s answers", s.Listen)
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fail(name, fmt.Sprintf("the service refuses the first token of %s: status %d", s.TokenFile, resp.StatusCode), "the service has read another file or has not read it again: nodes with this token cannot deliver", "systemctl reload rt-site; journalctl -u rt-site")
	case resp.StatusCode != http.StatusOK:
		return fail(name, fmt.Sprintf("the service failed: status %d", resp.StatusCode), "runs wait in the spools of the nodes", "journalctl -u rt-site")
	default:
		return ok(name, "%s answers and accepts the first token", s.Listen)
	}
}

// checkStores checks the database and the object store. rt-site does that, because rt-spool links no database client.
func (d serveChecks) checkStores(ctx context.Context) {
	checks, err := d.Stores(ctx)
	if err != nil {
		d.checks = append(d.checks, Check{"serve.database", Unknown, fmt.Sprintf("not checked: %v", err), "", "rt-site doctor as root"})
		return
	}
	d.checks = append(d.checks, checks...)
}
