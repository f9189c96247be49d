package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt/site"
)

func TestTokens(t *testing.T) {
	file := fmt.Sprintf("# readers\n\nall\n  ofuser user=alice\nofaccounts\taccount=physics,chemistry\nsha256:%x user=bob\n", sha256.Sum256([]byte("hashed")))
	tokens, err := ParseTokens([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	a := newReaders(t, Config{})
	if _, err := a.Reader(request("Bearer all")); !errors.Is(err, site.ErrUnknownReader) {
		t.Errorf("without tokens: %v", err)
	}
	a.SetTokens(tokens)
	for token, want := range map[string]site.Reader{
		"all": {Operator: true}, "ofuser": {User: "alice"}, "ofaccounts": {Accounts: []string{"physics", "chemistry"}}, "hashed": {User: "bob"},
	} {
		got, err := a.Reader(request("bearer " + token))
		if strings.Contains(got.Name, token) || !strings.HasPrefix(got.Name, "token:") {
			t.Errorf("%s: name %q", token, got.Name)
		}
		want.By, want.Name = "token", got.Name
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", token, err, diff)
		}
	}
	for _, token := range []string{"", "al", "alll", "#", "readers", "user=alice", "ofuser user=alice", strings.TrimPrefix(strings.Fields(file)[7], "x"), fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("hashed")))} {
		if _, err := a.Reader(request("Bearer " + token)); !errors.Is(err, site.ErrUnknownReader) {
			t.Errorf("forged %q: %v", token, err)
		}
	}
	a.SetTokens(nil)
	if _, err := a.Reader(request("Bearer all")); !errors.Is(err, site.ErrUnknownReader) {
		t.Errorf("revoked: %v", err)
	}
	for _, wrong := range []string{"secret x", "secret user=", "secret user=a user=b", "secret account=", "secret account=a,,b", "secret user=a account=b", "sha256:12", "secret user", "secret User=a"} {
		if _, err := ParseTokens([]byte("all\n" + wrong)); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := ParseTokens([]byte("# readers\nsecret user=anna\nsecret\n")); err == nil || !strings.HasPrefix(err.Error(), "line 3: the token of line 2 ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a token twice: %v", err)
	}
	if tokens, err := ParseTokens(nil); err != nil || len(tokens) > 0 {
		t.Errorf("an empty file: %v, %v", tokens, err)
	}
}

// from is a request of a proxy at an address.
func from(remote string, users ...string) *http.Request {
	r := request("Basic of-the-proxy")
	r.RemoteAddr = remote
	for _, user := range users {
		r.Header.Add("X-Remote-User", user)
	}
	local := net.Addr(&net.TCPAddr{})
	if remote == "@" {
		local = &net.UnixAddr{Net: "unix"}
	}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

func TestProxy(t *testing.T) {
	tcp := Config{ProxyHeader: "x-remote-user", ProxyFrom: []string{"10.1.2.3", "10.9.0.0/16", "2001:db8::/32"}}
	unix := Config{ProxyHeader: "X-Remote-User", ProxyFrom: []string{"unix"}}
	for _, c := range []struct {
		conf Config
		r    *http.Request
		want error
	}{
		{tcp, from("10.1.2.3:99", "alice"), nil}, {tcp, from("10.9.255.1:99", "alice"), nil}, {tcp, from("[2001:db8::7]:99", "alice"), nil},
		{tcp, from("[::ffff:10.1.2.3]:99", "alice"), nil},
		{tcp, from("10.1.2.4:99", "alice"), site.ErrNoReader}, {tcp, from("127.0.0.1:99", "alice"), site.ErrNoReader},
		{tcp, from("[::1]:99", "alice"), site.ErrNoReader}, {tcp, from("@", "alice"), site.ErrNoReader}, {tcp, from("", "alice"), site.ErrNoReader},
		{tcp, from("10.1.2.4:99", ""), site.ErrNoReader}, {tcp, from("10.1.2.3:99", "alice", "root"), site.ErrNoReader},
		{tcp, from("10.1.2.3:99", ""), site.ErrNoReader}, {tcp, from("10.1.2.3:99", "a b"), site.ErrNoReader},
		{tcp, from("10.1.2.3:99", "alice,bob"), site.ErrNoReader}, {tcp, from("10.1.2.3:99", "a\x00"), site.ErrNoReader},
		{tcp, from("10.1.2.3:99", "a\xff"), site.ErrNoReader}, {tcp, from("10.1.2.3:99", strings.Repeat("a", 201)), site.ErrNoReader},
		{tcp, from("10.1.2.3:99"), site.ErrUnknownReader},
		{unix, from("@", "alice"), nil}, {unix, from("10.1.2.3:99", "alice"), site.ErrNoReader}, {unix, from("127.0.0.1:99", "alice"), site.ErrNoReader},
		{Config{}, from("10.1.2.3:99", "alice"), site.ErrUnknownReader}, {Config{}, from("@", "alice"), site.ErrUnknownReader},
	} {
		reader, err := newReaders(t, c.conf).Reader(c.r)
		if !errors.Is(err, c.want) || (c.want == nil && (reader.User != "alice" || reader.By != "proxy" || reader.Operator)) {
			t.Errorf("%v from %s with %q: %+v, %v", c.conf.ProxyFrom, c.r.RemoteAddr, c.r.Header.Values("X-Remote-User"), reader, err)
		}
	}
	for _, wrong := range []Config{
		{ProxyFrom: []string{"unix"}}, {ProxyHeader: "X-Remote-User"}, {ProxyHeader: "Authorization", ProxyFrom: []string{"unix"}},
		{ProxyHeader: "X User", ProxyFrom: []string{"unix"}}, {ProxyHeader: "X-User", ProxyFrom: []string{"proxy.example"}},
		{ProxyHeader: "X-User", ProxyFrom: []string{"10.0.0.0/33"}}, {ProxyHeader: "X-User", ProxyFrom: []string{"0.0.0.0/0"}}, {ProxyHeader: "X-User", ProxyFrom: []string{"::/0"}},
		{ProxyHeader: "X-User", ProxyFrom: []string{""}}, {Operators: []string{"@"}},
	} {
		if _, err := New(wrong); err == nil || !strings.Contains(err.Error(), "serve.") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestOperators(t *testing.T) {
	for _, c := range []struct {
		operators []string
		user      string
		want      bool
	}{
		{nil, "root", false}, {[]string{"root"}, "root", true}, {[]string{"roo"}, "root", false}, {[]string{"@root"}, "root", true},
		{[]string{"@daemon"}, "root", false}, {[]string{"@daemon", "@root"}, "root", true}, {[]string{"@root"}, "no-such-user", false},
		{[]string{"@root"}, "@root", false}, {[]string{"no-such-user"}, "no-such-user", true},
	} {
		a := newReaders(t, Config{ProxyHeader: "X-Remote-User", ProxyFrom: []string{"unix"}, Operators: c.operators})
		reader, err := a.Reader(from("@", c.user))
		if err != nil || reader.Operator != c.want || (reader.Access() == nil) != c.want {
			t.Errorf("%v: %+v, %v", c, reader, err)
		}
	}
}

// script writes a program.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sacctmgr")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCoordinators(t *testing.T) {
	file := &File{}
	if accounts, err := file.AccountsOf(t.Context(), "alice"); accounts != nil || err != nil {
		t.Error(accounts, err)
	}
	if err := file.Set([]byte("# of accounts\n\nphysics: alice,bob\n chemistry :bob\nphysics:bob\n")); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"physics", "physics:", "physics: a,,b", ": alice", "phy sics: alice"} {
		if err := file.Set([]byte("biology: eve\n" + wrong)); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for user, want := range map[string][]string{"alice": {"physics"}, "bob": {"physics", "chemistry"}, "eve": nil, "physics": nil, "": nil} {
		reader, err := newReaders(t, Config{ProxyHeader: "X-Remote-User", ProxyFrom: []string{"unix"}, Coordinators: file}).Reader(from("@", user))
		if user != "" && (err != nil || !slices.Equal(reader.Accounts, want)) {
			t.Errorf("%s: %+v, %v", user, reader, err)
		}
	}
}

func TestSacctmgr(t *testing.T) {
	dir := t.TempDir()
	text := `#!/bin/sh
echo "$*" >>` + dir + `/calls
echo 'physics|alice,bob'
echo 'chemistry|bob'
echo 'biology|'
`
	s := NewSacctmgr(script(t, text))
	for user, want := range map[string][]string{"alice": {"physics"}, "bob": {"chemistry", "physics"}, "eve": nil} {
		accounts, err := s.AccountsOf(t.Context(), user)
		if err != nil || !slices.Equal(accounts, want) {
			t.Errorf("%s: %v, %v", user, accounts, err)
		}
	}
	if calls, _ := os.ReadFile(dir + "/calls"); string(calls) != "-nP show account withcoord format=account,coordinators\n" {
		t.Errorf("calls %q", calls)
	}
}

// A coordinator can make an account whose name looks like lines of other accounts.
func TestNameOfAnAccountMakesNoCoordinator(t *testing.T) {
	const others = "biology|bob\nphysics|alice\n"
	for _, name := range []string{
		"x\nphysics|mallory", "x\nphysics|mallory\n", "x|y\nphysics|mallory\nz", "x\nphysics|mallory,", "\nphysics|mallory\n\n", "phy\rsics", "\xff\u2028", "|", "",
	} {
		for _, output := range []string{name + "|mallory\n" + others, others + name + "|mallory\n"} {
			all := parseSacctmgr(output)
			if slices.Contains(all["mallory"], "physics") || slices.Contains(all["mallory"], "biology") || !slices.Equal(all["bob"], []string{"biology"}) {
				t.Errorf("%q: %v", output, all)
			}
			isHarmless := !strings.Contains(name, "\nphysics")
			if isHarmless && !slices.Equal(all["alice"], []string{"physics"}) {
				t.Errorf("%q: %v", output, all)
			}
		}
	}
}

// A reader is refused if the rights cannot be found out. The coordinators that sacctmgr printed stay valid
// for an hour.
func TestRightsThatAreNotKnown(t *testing.T) {
	dir := t.TempDir()
	s := NewSacctmgr(script(t, "#!/bin/sh\necho x >>"+dir+"/calls\necho 'physics|alice'\necho no connection >&2\nexit 1\n"))
	a := newReaders(t, Config{ProxyHeader: "X-Remote-User", ProxyFrom: []string{"unix"}, Coordinators: s})
	for range 3 {
		reader, err := a.Reader(from("@", "alice"))
		isRefused := err != nil && strings.Contains(err.Error(), "no connection")
		if !isRefused || reader.User != "" || errors.Is(err, site.ErrUnknownReader) || errors.Is(err, site.ErrNoReader) {
			t.Errorf("sacctmgr fails: %+v, %v", reader, err)
		}
	}
	if calls, _ := os.ReadFile(dir + "/calls"); string(calls) != "x\n" {
		t.Errorf("calls %q", calls)
	}
	for age, want := range map[time.Duration]bool{time.Minute: true, 2 * time.Hour: false} {
		s.all, s.err, s.read, s.until = accounts{"alice": {"physics"}}, nil, time.Now().Add(-age), time.Time{}
		reader, err := a.Reader(from("@", "alice"))
		if (err == nil) != want || (len(reader.Accounts) == 1) != want {
			t.Errorf("sacctmgr fails %s after an answer: %+v, %v", age, reader, err)
		}
	}
	a = newReaders(t, Config{ProxyHeader: "X-Remote-User", ProxyFrom: []string{"unix"}, Operators: []string{"@staff"}})
	a.operators.of = newLookup(func(string) ([]string, error) { return nil, errors.New("no directory service") })
	if reader, err := a.Reader(from("@", "alice")); err == nil || reader.User != "" {
		t.Errorf("the groups are not known: %+v, %v", reader, err)
	}
}
