package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdAdvice starts a site that answers questions for advice: advice FILE answers with a file, advice silent never
// answers. It writes check.toml, and a line to the file asked for each question.
func cmdAdvice(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: advice FILE|silent")
	}
	answer := ""
	if args[0] != "silent" {
		answer = strings.ReplaceAll(ts.ReadFile(args[0]), "WORK", ts.Getenv("WORK"))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.OpenFile(ts.MkAbs("asked"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			fmt.Fprintln(f, r.URL)
			_ = f.Close()
		}
		if answer == "" {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, answer)
	}))
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(ts.MkAbs("read-token"), []byte(siteToken+"\n"), 0o600))
	text := fmt.Sprintf("[site]\nurl = %q\ntoken_file = %q\n[hooks]\ndisable_file = %q\n", server.URL, ts.MkAbs("read-token"), ts.MkAbs("disabled"))
	ts.Check(os.WriteFile(ts.MkAbs("check.toml"), []byte(text), 0o644))
}
