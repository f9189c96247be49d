package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/hostport"
	"github.com/resource-tracker/rt/upload"
)

const (
	clockLimit       = time.Minute         // difference of the clocks that is reported
	certificateLimit = 14 * 24 * time.Hour // a certificate that ends within this time is reported
	requestLimit     = 10 * time.Second
	answerLimit      = 1 << 20 // bytes of an answer
)

// serviceChecks check the services that this machine sends runs to or reads them from.
type serviceChecks struct{ *Doctor }

// checkDelivery checks the receiver of the runs, and that it accepts the token.
func (d serviceChecks) checkDelivery(ctx context.Context) {
	s := d.Config.Sentinel
	if s.Endpoint == "" {
		d.add(warn("receiver.endpoint", "no receiver is configured", "runs stay on this node until the quota of the spool thins them", "endpoint in section [sentinel] of rt.toml"))
		return
	}
	isClear := hostport.CrossesNetwork(s.Endpoint) || hostport.CrossesNetwork(s.S3Endpoint)
	if isClear && !s.AllowHTTP {
		d.add(warn("receiver.tls", "an endpoint of [sentinel] has http://: the connection is not encrypted", "the token and the names of users and jobs can be read on the network", "endpoint and s3_endpoint with https://, or allow_http = true in [sentinel]"))
	}
	d.add(d.checkStore(ctx))
	token, ok := d.checkTokenFile("receiver.token_file", s.TokenFile)
	if !ok {
		return
	}
	// A request about a run that does not exist changes nothing.
	d.checkService(ctx, service{"receiver", http.MethodPost, strings.TrimRight(s.Endpoint, "/") + "/runs/rt-spool-doctor/refresh-credentials", bearer(token), s.CAFile, "[sentinel]"})
}

// checkStore checks that the object store of the uploads answers. Without credentials it refuses the request.
func (d serviceChecks) checkStore(ctx context.Context) Check {
	const name = "receiver.store"
	const meaning = "runs wait in the spool"
	s := d.Config.Sentinel
	if s.S3Endpoint == "" { // Amazon's, with an address that the receiver gives for each run
		return Check{}
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	client, err := d.HTTP(s.CAFile)
	if err != nil {
		return Check{} // receiver.answer reports it
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.S3Endpoint, nil)
	if err != nil {
		return fail(name, err.Error(), meaning, "correct s3_endpoint in [sentinel] of rt.toml")
	}
	resp, err := client.Do(req)
	if err != nil {
		err = upload.NoAnswer("GET "+s.S3Endpoint, err)
		return fail(name, err.Error(), "the object store gives no answer to this machine; "+meaning, "check s3_endpoint in [sentinel] of rt.toml, the network and the store")
	}
	defer resp.Body.Close()                                       // it is read
	body, _ := io.ReadAll(io.LimitReader(resp.Body, answerLimit)) // of an answer that breaks off, a part is enough
	if problem := upload.BadStatus("GET "+s.S3Endpoint, resp, upload.Excerpt(body)); problem.Kind == upload.Misdirected {
		return fail(name, problem.Error(), meaning, "correct s3_endpoint in [sentinel] of rt.toml")
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return fail(name, fmt.Sprintf("the object store failed: status %d", resp.StatusCode), meaning, "see the log of the store")
	}
	return ok(name, "%s answers", req.URL.Host)
}

// checkSite checks the site service that users of this machine ask for runs.
func (d serviceChecks) checkSite(ctx context.Context) {
	s := d.Config.Site
	if s.URL == "" {
		d.add(warn("site.url", "no site service is configured", "users see only the runs in spools of this machine", "url in section [site] of rt.toml"))
		return
	}
	authorize := d.Munge(s.MungeSocket)
	if s.TokenFile != "" {
		token, ok := d.checkTokenFile("site.token_file", s.TokenFile)
		if !ok {
			return
		}
		if hostport.CrossesNetwork(s.URL) && !s.AllowHTTP {
			d.add(warn("site.tls", "the URL of [site] has http://: the connection is not encrypted", "the token can be read on the network", "a URL with https://, or allow_http = true in [site]"))
		}
		authorize = bearer(token)
	}
	d.checkService(ctx, service{"site", http.MethodGet, strings.TrimRight(s.URL, "/") + "/v1/whoami", authorize, s.CAFile, "[site]"})
}

// bearer returns a function that sets a token.
func bearer(token string) func(*http.Request) error {
	return func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

// checkDrainMayRead checks that the drain of cron and of systemd, which runs as spool.user, can read the token.
func (d serviceChecks) checkDrainMayRead(file string) Check {
	st, err := os.Stat(d.path(file))
	user, userErr := d.user()
	if err != nil || userErr != nil || user.uid == "" { // other checks report these
		return Check{}
	}
	name := d.Config.Spool.User
	if closed := d.closedTo(user, file); closed != "" {
		return warn("receiver.token_file", fmt.Sprintf("%s may not search %s, which is above %s", name, closed, file), "a drain that runs as "+name+" delivers nothing", "chmod o+x "+closed)
	} else if !user.may(mayRead, st) {
		return warn("receiver.token_file", fmt.Sprintf("%s may not read %s", name, file), "a drain that runs as "+name+" delivers nothing", fmt.Sprintf("chown %s: %s", name, file))
	}
	return Check{}
}

// checkTokenFile returns the token; ok is false without one.
func (d serviceChecks) checkTokenFile(name, file string) (token string, isThere bool) {
	before := len(d.checks)
	st, err := os.Stat(d.path(file))
	if err == nil && st.Mode().Perm()&0o007 != 0 && name == "receiver.token_file" {
		d.add(fail(name, fmt.Sprintf("%s can be read or written by all users (mode %04o)", file, st.Mode().Perm()), "each user of this machine can send runs with the token", "chmod o-rwx "+file))
	}
	if name == "receiver.token_file" {
		d.add(d.checkDrainMayRead(file))
	}
	text, err := d.read(file)
	isInEnvironment := errors.Is(err, fs.ErrNotExist) && name == "receiver.token_file" && d.EnvToken != ""
	if isInEnvironment {
		d.add(ok(name, "%s does not exist; SENTINEL_API_TOKEN is set", file))
		return d.EnvToken, true
	}
	token, _, _ = strings.Cut(text, "\n")
	token = strings.TrimSpace(token)
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.add(unknown(name, err))
		return "", false
	case err != nil:
		d.add(fail(name, err.Error(), "nothing is exchanged with the service", "put the token into the first line of "+file))
		return "", false
	case token == "":
		d.add(fail(name, "the first line of "+file+" is empty", "nothing is exchanged with the service", "put the token there"))
		return "", false
	}
	d.okUnless(before, name, "%s has a token", file)
	return token, true
}

// service is a service that is asked, and where its settings are.
type service struct {
	name, method, url string
	authorize         func(*http.Request) error
	caFile, section   string
}

// checkService asks a service whether it accepts the token, and compares its clock and certificate.
func (d serviceChecks) checkService(ctx context.Context, s service) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	client, err := d.HTTP(s.caFile)
	if err != nil {
		d.add(fail(s.name+".answer", err.Error(), "the service cannot be asked", "correct ca_file in "+s.section+" of rt.toml"))
		return
	}
	req, err := http.NewRequestWithContext(ctx, s.method, s.url, nil)
	if err != nil {
		d.add(fail(s.name+".answer", err.Error(), "the service cannot be asked", "correct the URL in "+s.section+" of rt.toml"))
		return
	}
	err = s.authorize(req)
	if err != nil {
		d.add(fail(s.name+".munge", err.Error(), "users of this machine cannot prove who they are, and see no runs of the site", "systemctl enable --now munge, or munge_socket in "+s.section+" of rt.toml"))
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		d.add(d.unreachable(s, err))
		return
	}
	defer resp.Body.Close() // it is read
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		d.add(d.unreachable(s, err))
		return
	}
	if d.isMisdirected(client, s, resp, body) {
		return
	}
	d.checkStatus(s, resp, body)
	d.add(d.checkClock(s, resp.Header.Get("Date")))
	d.checkPeer(s, resp.TLS)
}

func (d serviceChecks) unreachable(s service, err error) Check {
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	if isCertificate {
		return fail(s.name+".tls", err.Error(), "no connection is made", "renew the certificate, or set ca_file in "+s.section+" of rt.toml")
	}
	problem := upload.NoAnswer(s.method+" "+s.url, err)
	if problem.Kind == upload.Misdirected {
		return d.failAddress(s, problem.Error())
	}
	return fail(s.name+".answer", problem.Error(), "the service gives no answer to this machine; runs wait in the spool", "check the URL in "+s.section+" of rt.toml, the network and the service")
}

// isMisdirected reports whether an answer shows that the URL is wrong. The API asks for a token at each of its paths, and
// answers 404 before that at other paths.
func (d serviceChecks) isMisdirected(client *http.Client, s service, resp *http.Response, body []byte) bool {
	_, token, _ := strings.Cut(resp.Request.Header.Get("Authorization"), " ")
	problem := upload.BadStatus(s.method+" "+s.url, resp, upload.Excerpt(body, token))
	if problem.Kind == upload.Misdirected {
		d.add(d.failAddress(s, problem.Error()))
		return true
	}
	if resp.StatusCode != http.StatusNotFound || !isOfAPI(resp, body) {
		return false
	}
	req, err := http.NewRequestWithContext(resp.Request.Context(), s.method, s.url, nil)
	if err != nil {
		return false
	}
	again, err := client.Do(req)
	if err != nil {
		return false // the first answer counts
	}
	again.Body.Close()
	if again.StatusCode != http.StatusNotFound {
		return false
	}
	d.add(d.failAddress(s, s.url+": the server has no API at this path"))
	return true
}

func (d serviceChecks) failAddress(s service, finding string) Check {
	return fail(s.name+".answer", finding, "nothing is exchanged with the service", "correct the URL in "+s.section+" of rt.toml")
}

func (d serviceChecks) checkStatus(s service, resp *http.Response, body []byte) {
	name, status := s.name+".token", resp.StatusCode
	isRefused := status == http.StatusUnauthorized || status == http.StatusForbidden
	isRedirect := status >= http.StatusMultipleChoices && status < http.StatusBadRequest
	isFault := status >= http.StatusInternalServerError
	isOther := !isRefused && !isRedirect && !isFault && !isOfAPI(resp, body)
	if isOther {
		d.add(fail(s.name+".answer", fmt.Sprintf("%s answers, but not as this service does: status %d, type %q", resp.Request.URL.Host, status, resp.Header.Get("Content-Type")),
			"nothing is exchanged with the service", "correct the URL in "+s.section+" of rt.toml; a proxy or another web server answers there"))
		return
	}
	d.add(ok(s.name+".answer", "%s answers", resp.Request.URL.Host))
	switch {
	case isRefused:
		d.add(fail(name, fmt.Sprintf("the service refuses this machine: status %d", status), "nothing is exchanged with the service",
			"a valid token in token_file of "+s.section+", or with MUNGE the key of the service in /etc/munge/munge.key"))
	case isRedirect:
		d.add(fail(name, fmt.Sprintf("the service redirects: status %d", status), "rt follows no redirect, because the token is for one address", "the final URL in "+s.section+" of rt.toml"))
	case isFault:
		d.add(fail(name, fmt.Sprintf("the service failed: status %d", status), "runs wait in the spool until it works again", "see the log of the service"))
	default:
		d.add(ok(name, "accepted"))
	}
}

// isOfAPI reports whether an answer has the form of the API: a JSON object, in an error with the reason. Other web
// servers answer with text or HTML.
func isOfAPI(resp *http.Response, body []byte) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || kind == "application/problem+json"
	if err != nil || !isJSON {
		return false
	}
	var object map[string]any
	if json.Unmarshal(body, &object) != nil {
		return false
	}
	return resp.StatusCode < http.StatusMultipleChoices || object["detail"] != nil || object["error"] != nil
}

func (d serviceChecks) checkClock(s service, date string) Check {
	name := s.name + ".clock"
	at, err := http.ParseTime(date)
	if err != nil {
		return unknown(name, errors.New("the answer has no date"))
	}
	difference := d.Now().Sub(at).Round(time.Second)
	if difference.Abs() > clockLimit {
		return warn(name, fmt.Sprintf("the clock of this machine differs by %s", difference), "times of different nodes do not agree; object stores refuse signatures that differ by 15 minutes", "chronyc makestep, or timedatectl set-ntp true")
	}
	return ok(name, "differs by %s", difference)
}

func (d serviceChecks) checkPeer(s service, state *tls.ConnectionState) {
	if state != nil && len(state.PeerCertificates) > 0 {
		d.add(d.checkCertificate(s.name+".tls", state.PeerCertificates[0]))
	}
}

func (d *Doctor) checkCertificate(name string, c *x509.Certificate) Check {
	left := c.NotAfter.Sub(d.Now())
	end := c.NotAfter.Format(time.DateOnly)
	switch {
	case d.Now().Before(c.NotBefore):
		return fail(name, "the certificate is not valid before "+c.NotBefore.Format(time.RFC3339), "no node can deliver", "timedatectl, if the clock of this machine is wrong; else wait, or install the earlier certificate")
	case left <= 0:
		return fail(name, "the certificate expired on "+end, "no node can deliver", "renew the certificate")
	case left < certificateLimit:
		return warn(name, "the certificate expires on "+end, "then no node can deliver", "renew the certificate")
	default:
		return ok(name, "the certificate is valid until %s", end)
	}
}
