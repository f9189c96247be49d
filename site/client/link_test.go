package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A link of the service can be relative to it; what is no page of the web is not a link.
func TestLinks(t *testing.T) {
	answer, status := "", 200
	var asked []string
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	})
	for url, want := range map[string]string{
		"enter?link=a": c.URL() + "/enter?link=a", "https://rt.example.org/x/enter?link=a": "https://rt.example.org/x/enter?link=a",
		"": "", "javascript:alert(1)": "", "file:///etc/passwd": "", "mailto:x": "", "http://": "",
	} {
		answer = fmt.Sprintf(`{"url":%q,"expires":"2026-03-01T12:00:00Z"}`, url)
		l, err := c.WebLink(t.Context(), "12_3")
		isRight := err == nil && l.URL == want && l.Expires.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		if want == "" {
			isRight = errors.Is(err, ErrAnswer) && l.URL == ""
		}
		if !isRight {
			t.Errorf("%q: %+v, %v", url, l, err)
		}
	}
	for _, wrong := range []string{"", "[]", `{"url":3}`, `{"url":"` + strings.Repeat("x", maxLink)} {
		answer = wrong
		if _, err := c.ShareLink(t.Context(), "12"); !errors.Is(err, ErrAnswer) {
			t.Errorf("%.20s: %v", wrong, err)
		}
	}
	if asked[0] != "POST /links?for=web&job=12_3" || asked[len(asked)-1] != "POST /links?for=share&job=12" {
		t.Errorf("%q", asked)
	}
	for code, isStranger := range map[int]bool{401: true, 403: true, 404: false, 500: false} {
		status, answer = code, `{"detail":"no"}`
		if _, err := c.WebLink(t.Context(), ""); err == nil || IsNotIdentified(err) != isStranger {
			t.Errorf("%d: %v", code, err)
		}
	}
}
