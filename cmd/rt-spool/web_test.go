package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt/e2e/await"
)

// cmdLinks starts a service that gives links to MUNGE credentials of testdata/script/web.txtar. In web.toml it does so, in
// no.toml it does not accept them, and in gone.toml nothing listens.
func cmdLinks(ts *testscript.TestScript, _ bool, _ []string) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		isMunge := r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Authorization"), "MUNGE MUNGE:") && strings.HasSuffix(r.URL.Path, "/links")
		switch {
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/rt/"):
			fmt.Fprint(w, `{"jobs":[],"next":""}`)
		case !isMunge, strings.HasPrefix(r.URL.Path, "/no/"):
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"detail":"this service does not accept MUNGE (serve.munge)"}`)
		case q.Get("job") == "99":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"There is nothing at this address that you may see."}`)
		case q.Get("job") == "98":
			fmt.Fprint(w, `{"url":"javascript:x","expires":"2026-03-01T12:00:00Z"}`)
		default:
			fmt.Fprintf(w, `{"url":"enter?link=SECRET-%s-%s","expires":"2026-03-01T12:00:00Z"}`, q.Get("for"), q.Get("job"))
		}
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	ts.Defer(server.Close)
	ts.Setenv("SITE", server.URL)
	for name, url := range map[string]string{"web.toml": server.URL + "/rt/", "no.toml": server.URL + "/no", "gone.toml": "http://127.0.0.1:1"} { // nothing listens on port 1
		text := fmt.Sprintf("[spool]\ndir = %q\n[site]\nsqueue = \"off\"\nurl = %q\n", ts.MkAbs("spool"), url)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// cmdTerminal runs a command on a terminal, and keeps the terminal until a file has a line: terminal FILE COMMAND...
func cmdTerminal(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	cmd := exec.Command("sh", "-c", strings.Join(args[1:], " ")+"; read -r line") // the end of the shell would end the browser
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "WORK", "HOME", "DISPLAY", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	screen, err := pty.Start(cmd)
	ts.Check(err)
	ts.Check(await.Changed(filepath.Dir(path), func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "\n")
	}))
	_, err = io.WriteString(screen, "\n")
	ts.Check(err)
	ts.Check(cmd.Wait())
	ts.Check(screen.Close())
}
