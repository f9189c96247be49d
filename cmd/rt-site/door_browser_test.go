package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/e2e/chromium"
)

// outside serves a site at an address that is not loopback. There browsers do without TLS what they do on a network.
func outside(t *testing.T, base string) string {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		network, isNetwork := a.(*net.IPNet)
		isOutside := isNetwork && network.IP.To4() != nil && network.IP.IsGlobalUnicast()
		if !isOutside {
			continue
		}
		ln, err := net.Listen("tcp", net.JoinHostPort(network.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: ln, Config: &http.Server{Handler: httputil.NewSingleHostReverseProxy(to)}}
		server.Start()
		t.Cleanup(server.Close)
		return server.URL + "/"
	}
	t.Skip("needs an address that is not loopback")
	return ""
}

// Without TLS a browser enters by the button of a link, shares a job and logs out.
func TestBrowserDoorWithoutTLS(t *testing.T) {
	c := chromium.Start(t)
	base, _ := newDoor(t)
	at := outside(t, base)
	_, link, _ := ask(t, base, "daemon", "for=web")
	press := func() string {
		c.Eval(`document.querySelector("main form button").click()`, nil)
		c.Loaded()
		return c.Text(`location.href + " " + document.body.innerText`)
	}
	c.Open(at + link)
	if page := press(); !strings.HasPrefix(page, at+" ") || !strings.Contains(page, "daemon") {
		t.Errorf("after the login the browser shows %s", page)
	}
	c.Open(at + "share?cluster=c&id=1")
	if page := press(); !strings.Contains(page, "The new link") {
		t.Errorf("after a share the browser shows %s", page)
	}
	c.Open(at + "logout")
	if page := press(); !strings.Contains(page, "rt-job web") {
		t.Errorf("after the logout the browser shows %s", page)
	}
}
