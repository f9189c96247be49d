//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/e2e/munged"
	"github.com/resource-tracker/rt/e2e/testsite"
)

// entrance is rt-site with the jobs of three users, which has its log in a file.
type entrance struct {
	*site
	url   string
	users [3]string // with the user ids 1, 2 and 3, which each Debian has
}

// openEntrance starts rt-site with more keys of the section serve.
func openEntrance(t *testing.T, more func(url string) string) *entrance {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: acts as several users")
	}
	e := &entrance{site: newSite(t, workDir(t))}
	for i := range e.users {
		u, err := user.LookupId(fmt.Sprint(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		e.users[i] = u.Username
	}
	if _, err := testsite.Fill(t.Context(), e.path("data"), e.users); err != nil {
		t.Fatal(err)
	}
	at := freeAddress(t)
	e.url = "http://" + at
	e.writeConfig(fmt.Sprintf("[serve]\nlisten = %q\ndir = %q\ntoken_file = %q\naccess_log = %q\n%s", at, e.path("data"), e.path("tokens"), e.path("access.log"), more(e.url)))
	log, err := os.Create(e.path("site.log"))
	if err == nil {
		err = os.WriteFile(e.path("tokens"), []byte("a-token\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	command(t, "ln", "-sf", "rt-spool", e.path("bin", "rt-job"))
	serve := exec.Command(e.path("bin", "rt-site"), "--config", e.config(), "serve")
	serve.Stderr = log
	started(t, serve, "listening on ")
	return e
}

// started starts a program, waits for a line of its output and returns it. At the end of the test it gets SIGTERM.
func started(t *testing.T, cmd *exec.Cmd, begin string) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, begin) {
		t.Fatalf("%s prints %q, %v", cmd.Path, line, err)
	}
	return strings.TrimSpace(line)
}

// rtJob runs rt-job as the user with an id, and returns the link that it prints.
func (e *entrance) rtJob(t *testing.T, uid int, args ...string) string {
	t.Helper()
	cmd := exec.Command(e.path("bin", "rt-job"), append([]string{"--config", e.path("user.toml")}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, "/"
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rt-job %q as %d: %v\n%s", args, uid, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// visitor is a browser with cookies that follows no redirect.
type visitor struct {
	t *testing.T
	*http.Client
}

func newVisitor(t *testing.T) visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return visitor{t, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// open opens an address as a person does, or sends a form. It returns where the answer leads.
func (v visitor) open(address string, form url.Values) (status int, body, next string) {
	v.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "none")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := v.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if to, err := resp.Location(); err == nil {
		next = to.String()
	}
	return resp.StatusCode, string(text), next
}

// want checks the status of an address and a text of its page.
func (v visitor) want(address string, status int, text string) {
	v.t.Helper()
	got, body, _ := v.open(address, nil)
	if got != status || !strings.Contains(body, text) {
		v.t.Errorf("%s: %d, want %d with %q: %.1500s", address, got, status, text, body)
	}
}

// wantLog checks that a text is in the log of the service, and that no secret is in it or in the access log.
func (e *entrance) wantLog(t *testing.T, text string, secrets ...string) {
	t.Helper()
	log, err := os.ReadFile(e.path("site.log"))
	if err != nil || !bytes.Contains(log, []byte(text)) {
		t.Errorf("the log lacks %q: %v\n%s", text, err, log)
	}
	lines, err := os.ReadFile(e.path("access.log"))
	if err != nil || len(lines) == 0 {
		t.Errorf("the access log: %q, %v", lines, err)
	}
	for _, secret := range secrets {
		if secret == "" || bytes.Contains(append(log, lines...), []byte(secret)) {
			t.Errorf("the logs have the secret %q", secret)
		}
	}
}

// parameter returns a parameter of an address.
func parameter(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}

// TestDoorMunge lets users in by rt-job web and a real munged. A link that was used, and one of another user in this
// browser, are refused.
func TestDoorMunge(t *testing.T) {
	socket := munged.Start(t)
	e := openEntrance(t, func(string) string { return fmt.Sprintf("munge = %q\n", socket) })
	conf := fmt.Sprintf("[site]\nurl = %q\nmunge_socket = %q\n", e.url, socket)
	if err := os.WriteFile(e.path("user.toml"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	link, foreign, share := e.rtJob(t, 1, "web", "1"), e.rtJob(t, 2, "web"), e.rtJob(t, 1, "share", "1")
	v := newVisitor(t)
	v.want(e.url+"/jobs", 401, "rt-job web")
	status, body, next := v.open(link, nil)
	if status != 303 || !strings.HasPrefix(next, e.url+"/job?") {
		t.Fatalf("%d, %s: %s", status, next, body)
	}
	v.want(next, 200, "train")
	v.want(e.url+"/v1/whoami", 200, `"user":"`+e.users[0]+`"`)
	v.want(e.url+"/job?id=3&cluster=alps", 404, "")
	v.want(link, 403, "is not valid any more")
	newVisitor(t).want(link, 403, "is not valid any more")
	v.want(foreign, 403, "In this browser you are "+e.users[0])
	newVisitor(t).want(foreign, 403, "is not valid any more")
	v.want(e.url+"/v1/whoami", 200, `"user":"`+e.users[0]+`"`)
	everyone := newVisitor(t)
	everyone.want(share, 200, "train")
	everyone.want(e.url+"/jobs?share="+parameter(t, share, "share"), 401, "")
	// A copy of the cookie is worth nothing after the logout.
	at, _ := url.Parse(e.url)
	stolen := newVisitor(t)
	stolen.Jar.SetCookies(at, v.Jar.Cookies(at))
	stolen.want(e.url+"/jobs", 200, "train")
	if status, body, _ := v.open(e.url+"/logout", url.Values{}); status != 303 {
		t.Errorf("logout: %d %s", status, body)
	}
	stolen.want(e.url+"/jobs", 401, "rt-job web")
	command(t, e.path("bin", "rt-site"), "--config", e.config(), "sessions", "--revoke-user", e.users[0])
	everyone.want(share, 403, "has expired or was revoked")
	e.wantLog(t, "403 This link is not valid any more", parameter(t, link, "link"), parameter(t, share, "share"))
}

// action is the address to which a form of the provider sends.
var action = regexp.MustCompile(`action="([^"]+)"`)

// atProvider logs in at the provider and returns the address to which it sends the browser back.
func (v visitor) atProvider(address, name, back string) string {
	v.t.Helper()
	for range 10 {
		if strings.HasPrefix(address, back) {
			return address
		}
		status, body, next := v.open(address, nil)
		form := action.FindStringSubmatch(body)
		switch {
		case next != "":
			address = next
		case form == nil:
			v.t.Fatalf("%s: %d %s", address, status, body)
		default:
			prompt := "consent"
			if strings.Contains(body, `name="login"`) {
				prompt = "login"
			}
			_, _, address = v.open(form[1], url.Values{"prompt": {prompt}, "login": {name}, "password": {"x"}})
		}
	}
	v.t.Fatalf("the provider does not lead back: %s", address)
	return ""
}

// TestDoorSSO lets users in by a real provider of OpenID Connect. What this one cannot be made to send is in
// TestLoginsThatAreRefused of site/auth.
func TestDoorSSO(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node: make check installs it")
	}
	modules, err := filepath.Abs("../build/oidc/node_modules")
	if err != nil || !exists(modules) {
		t.Skip("there is no oidc-provider: make check installs it in build/oidc")
	}
	e := openEntrance(t, func(at string) string {
		provider := exec.Command(node, "oidc/provider.mjs", at+"/callback", "client-secret", modules)
		if _, err := provider.StdinPipe(); err != nil { // the provider ends with this process
			t.Fatal(err)
		}
		issuer := started(t, provider, "http://")
		return fmt.Sprintf("url = %q\noidc_issuer = %q\noidc_client_id = \"rt\"\noidc_secret_file = %q\n", at, issuer, e2eSecret(t))
	})
	back := e.url + "/callback"
	begin := func(v visitor) string {
		status, body, next := v.open(e.url+"/login?to="+url.QueryEscape("job?id=1&cluster=alps"), nil)
		if status != 303 {
			t.Fatalf("%d %s", status, body)
		}
		return next
	}
	v := newVisitor(t)
	v.want(e.url+"/jobs", 401, `href="login?to=jobs"`)
	address := v.atProvider(begin(v), e.users[0], back)
	status, body, next := v.open(address, nil)
	if status != 303 || next != e.url+"/job?id=1&cluster=alps" {
		t.Fatalf("%d, %s: %s", status, next, body)
	}
	v.want(next, 200, "train")
	v.want(e.url+"/v1/whoami", 200, `"user":"`+e.users[0]+`"`)
	v.want(address, 403, "did not begin in this browser")
	code := parameter(t, address, "code")

	// set replaces a parameter of an address.
	set := func(address, name, value string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
		return u.String()
	}
	challenge := strings.Repeat("A", 43)
	for name, c := range map[string]struct {
		before, after func(string) string // change the address at the provider, or the one to which it leads back
		want          string
	}{
		"another state":     {nil, func(a string) string { return set(a, "state", "x") }, "(state)"},
		"another nonce":     {func(a string) string { return set(a, "nonce", "x") }, nil, "(nonce)"},
		"another audience":  {func(a string) string { return set(a, "client_id", "other") }, nil, "invalid_grant"},
		"another challenge": {func(a string) string { return set(a, "code_challenge", challenge) }, nil, "invalid_grant"},
		"a used code":       {nil, func(a string) string { return set(a, "code", code) }, "invalid_grant"},
		"a refusal":         {nil, func(a string) string { return set(a, "error", "access_denied") }, "access_denied"},
	} {
		v := newVisitor(t)
		address := begin(v)
		if c.before != nil {
			address = c.before(address)
		}
		address = v.atProvider(address, e.users[1], back)
		if c.after != nil {
			address = c.after(address)
		}
		status, body, next := v.open(address, nil)
		if status != 403 || next != "" || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d, %s, want %q: %s", name, status, next, c.want, body)
		}
		v.want(e.url+"/jobs", 401, "Log in")
	}
	// A login belongs to its browser, and replaces no session of another user.
	stolen := newVisitor(t)
	address = stolen.atProvider(begin(stolen), e.users[1], back)
	newVisitor(t).want(address, 403, "did not begin in this browser")
	other := newVisitor(t)
	begin(other)
	other.want(address, 403, "(state)")
	e.wantLog(t, "403 The answer of the login service is for another login (nonce)", code, "client-secret")
}

// e2eSecret returns a file with the secret of the client.
func e2eSecret(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client")
	if err := os.WriteFile(path, []byte("client-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
