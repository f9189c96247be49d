package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	clockLimit       = time.Minute         // difference of the clocks that is reported
	certificateLimit = 14 * 24 * time.Hour // a certificate that ends within this time is reported
	requestLimit     = 10 * time.Second
)

// checkDelivery checks the receiver of the runs, and that it accepts the token.
func (d *Doctor) checkDelivery(ctx context.Context) {
	s := d.Config.Sentinel
	if s.Endpoint == "" {
		d.warn("receiver.endpoint", "no receiver is configured", "runs stay on this node until the quota of the spool thins them", "endpoint in section [sentinel] of rt.toml")
		return
	}
	isClear := strings.HasPrefix(s.Endpoint, "http://") && !s.AllowHTTP
	if isClear {
		d.warn("receiver.tls", "the endpoint of [sentinel] has http://: the connection is not encrypted", "the token and the names of users and jobs can be read on the network", "an endpoint with https://, or allow_http = true in [sentinel]")
	}
	token, ok := d.checkTokenFile("receiver.token_file", s.TokenFile)
	if !ok {
		return
	}
	// A request about a run that does not exist changes nothing.
	d.checkService(ctx, service{"receiver", http.MethodPost, strings.TrimRight(s.Endpoint, "/") + "/runs/rt-spool-doctor/refresh-credentials", token, s.CAFile, "[sentinel]"})
}

// checkSite checks the site service that users of this machine ask for runs.
func (d *Doctor) checkSite(ctx context.Context) {
	s := d.Config.Site
	if s.URL == "" {
		d.warn("site.url", "no site service is configured", "users see only the runs in spools of this machine", "url in section [site] of rt.toml")
		return
	}
	token := ""
	if s.TokenFile != "" {
		found, ok := d.checkTokenFile("site.token_file", s.TokenFile)
		if !ok {
			return
		}
		token = found
	}
	d.checkService(ctx, service{"site", http.MethodGet, strings.TrimRight(s.URL, "/") + "/v1/whoami", token, s.CAFile, "[site]"})
}

// checkTokenFile returns the token; ok is false without one.
func (d *Doctor) checkTokenFile(name, file string) (token string, ok bool) {
	st, err := os.Stat(d.path(file))
	if err == nil && st.Mode().Perm()&0o007 != 0 && name == "receiver.token_file" {
		d.fail(name, fmt.Sprintf("%s can be read or written by all users (mode %04o)", file, st.Mode().Perm()), "each user of this machine can send runs with the token", "chmod o-rwx "+file)
	}
	text, err := d.read(file)
	isInEnvironment := errors.Is(err, fs.ErrNotExist) && name == "receiver.token_file" && d.EnvToken != ""
	if isInEnvironment {
		d.ok(name, "%s does not exist; SENTINEL_API_TOKEN is set", file)
		return d.EnvToken, true
	}
	token, _, _ = strings.Cut(text, "\n")
	token = strings.TrimSpace(token)
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.unknown(name, err)
		return "", false
	case err != nil:
		d.fail(name, err.Error(), "nothing is exchanged with the service", "put the token into the first line of "+file)
		return "", false
	case token == "":
		d.fail(name, "the first line of "+file+" is empty", "nothing is exchanged with the service", "put the token there")
		return "", false
	}
	d.okUnless(0, name, "%s has a token", file)
	return token, true
}

// service is a service that is asked, and where its settings are.
type service struct{ name, method, url, token, caFile, section string }

// checkService asks a service whether it accepts the token, and compares its clock and certificate.
func (d *Doctor) checkService(ctx context.Context, s service) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	client, err := d.HTTP(s.caFile)
	if err != nil {
		d.fail(s.name+".answer", err.Error(), "the service cannot be asked", "correct ca_file in "+s.section+" of rt.toml")
		return
	}
	req, err := http.NewRequestWithContext(ctx, s.method, s.url, nil)
	if err != nil {
		d.fail(s.name+".answer", err.Error(), "the service cannot be asked", "correct the URL in "+s.section+" of rt.toml")
		return
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		d.unreachable(s, err)
		return
	}
	resp.Body.Close()
	d.ok(s.name+".answer", "%s answers", req.URL.Host)
	d.checkStatus(s, resp.StatusCode)
	d.checkClock(s, resp.Header.Get("Date"))
	d.checkPeer(s, resp.TLS)
}

func (d *Doctor) unreachable(s service, err error) {
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	if isCertificate {
		d.fail(s.name+".tls", err.Error(), "no connection is made", "renew the certificate, or set ca_file in "+s.section+" of rt.toml")
		return
	}
	d.fail(s.name+".answer", err.Error(), "the service gives no answer to this machine; runs wait in the spool", "check the URL in "+s.section+" of rt.toml, the network and the service")
}

func (d *Doctor) checkStatus(s service, status int) {
	name := s.name + ".token"
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if s.token == "" {
			d.unknown(name, errors.New("the service asks for MUNGE or a token"))
			return
		}
		d.fail(name, fmt.Sprintf("the service refuses the token: status %d", status), "nothing is exchanged with the service", "a valid token in token_file of "+s.section)
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		d.fail(name, fmt.Sprintf("the service redirects: status %d", status), "rt follows no redirect, because the token is for one address", "the final URL in "+s.section+" of rt.toml")
	case status >= http.StatusInternalServerError:
		d.fail(name, fmt.Sprintf("the service failed: status %d", status), "runs wait in the spool until it works again", "see the log of the service")
	default:
		d.ok(name, "accepted")
	}
}

func (d *Doctor) checkClock(s service, date string) {
	name := s.name + ".clock"
	at, err := http.ParseTime(date)
	if err != nil {
		d.unknown(name, errors.New("the answer has no date"))
		return
	}
	difference := d.Now().Sub(at).Round(time.Second)
	if difference.Abs() > clockLimit {
		d.warn(name, fmt.Sprintf("the clock of this machine differs by %s", difference), "times of different nodes do not agree; object stores refuse signatures that differ by 15 minutes", "chronyc makestep, or timedatectl set-ntp true")
		return
	}
	d.ok(name, "differs by %s", difference)
}

func (d *Doctor) checkPeer(s service, state *tls.ConnectionState) {
	if state != nil && len(state.PeerCertificates) > 0 {
		d.checkCertificate(s.name+".tls", state.PeerCertificates[0])
	}
}

func (d *Doctor) checkCertificate(name string, c *x509.Certificate) {
	left := c.NotAfter.Sub(d.Now())
	end := c.NotAfter.Format(time.DateOnly)
	switch {
	case left <= 0:
		d.fail(name, "the certificate ended on "+end, "no node can deliver", "renew the certificate")
	case left < certificateLimit:
		d.warn(name, "the certificate ends on "+end, "then no node can deliver", "renew the certificate")
	default:
		d.ok(name, "the certificate ends on %s", end)
	}
}

// checkReceiver checks the files of rt-site serve on this machine. rt-site verify checks the data.
func (d *Doctor) checkReceiver(ctx context.Context) {
	s := d.Config.Serve
	dir, err := os.Stat(d.path(s.Dir))
	switch {
	case err != nil:
		d.fail("serve.dir", err.Error(), "rt-site serve does not start", "install -d -o rt -g rt -m 750 "+s.Dir)
	case dir.Mode().Perm()&0o022 != 0:
		d.fail("serve.dir", fmt.Sprintf("%s can be written by other users (mode %04o)", s.Dir, dir.Mode().Perm()), "another user can replace the runs of the site", "chmod go-w "+s.Dir)
	default:
		d.ok("serve.dir", "%s", s.Dir)
		d.checkServeSpace()
	}
	d.checkServeTokens()
	d.checkServeTLS()
	socket := s.Munge
	if socket == "on" {
		socket = "/run/munge/munge.socket.2"
	}
	switch {
	case socket == "off":
		d.ok("serve.munge", "off")
	case d.exists(socket):
		d.ok("serve.munge", "%s", socket)
	default:
		d.fail("serve.munge", socket+" does not exist", "users cannot prove who they are", "systemctl start munge, or serve.munge in rt.toml")
	}
}

func (d *Doctor) checkServeSpace() {
	space, err := d.Space(d.path(d.Config.Serve.Dir))
	const least = 1 << 30
	switch {
	case err != nil:
		d.unknown("serve.room", err)
	case space.Free < least:
		d.fail("serve.room", mebibytes(int64(space.Free))+" are free", "the service refuses runs when the disk is full", "serve.retain_runs in rt.toml, or make room on the file system")
	default:
		d.ok("serve.room", "%s are free", mebibytes(int64(min(space.Free, 1<<62))))
	}
}

func (d *Doctor) checkServeTokens() {
	const name = "serve.token_file"
	file := d.Config.Serve.TokenFile
	st, err := os.Stat(d.path(file))
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.unknown(name, err)
		return
	case err != nil:
		d.fail(name, err.Error(), "no node can deliver", "put one token per line into "+file)
		return
	case st.Mode().Perm()&0o007 != 0:
		d.fail(name, fmt.Sprintf("%s can be read or written by all users (mode %04o)", file, st.Mode().Perm()), "each user of this machine can send runs as any node", "chmod o-rwx "+file)
		return
	}
	text, err := d.read(file)
	switch {
	case err != nil:
		d.unknown(name, err)
	case text == "":
		d.fail(name, file+" is empty", "no node can deliver", "put one token per line into "+file)
	default:
		d.ok(name, "%s", file)
	}
}

func (d *Doctor) checkServeTLS() {
	const name = "serve.tls"
	s := d.Config.Serve
	if s.TLSCert == "" {
		d.ok(name, "plain HTTP at %s: for a proxy on this machine", s.Listen)
		return
	}
	text, err := d.read(s.TLSCert)
	if err != nil {
		d.fail(name, err.Error(), "rt-site serve does not start", "correct serve.tls_cert in rt.toml")
		return
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		d.fail(name, s.TLSCert+" has no PEM certificate", "rt-site serve does not start", "correct serve.tls_cert in rt.toml")
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		d.fail(name, fmt.Sprintf("%s: %v", s.TLSCert, err), "rt-site serve does not start", "correct serve.tls_cert in rt.toml")
		return
	}
	d.checkCertificate(name, c)
	if st, err := os.Stat(d.path(s.TLSKey)); err == nil && st.Mode().Perm()&0o007 != 0 {
		d.fail("serve.tls_key", fmt.Sprintf("%s can be read by all users (mode %04o)", s.TLSKey, st.Mode().Perm()), "each user of this machine can act as the service", "chmod o-rwx "+s.TLSKey)
	}
}
