package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/e2e/chromium"
)

// axe finds no fault on any page, on a screen and on a phone, in light and in dark mode.
func TestBrowserAxe(t *testing.T) {
	c := chromium.Start(t)
	axe, err := os.ReadFile("../../build/oidc/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("there is no axe-core: make check installs it")
	}
	c.Call("Page.setBypassCSP", map[string]any{"enabled": true}, nil)
	base := strings.Replace(newShownSite(t)+"/", "http://", "http://any:page-all@", 1)
	for _, path := range []string{"", "jobs?account=physics", "users", "nodes", "find?q=900_1", "job?cluster=c&id=900", "job?cluster=c&id=5000", "compare?cluster=c&id=990", "jobs?sort=owner"} {
		for scheme, width := range map[string]int{"light": 1280, "dark": 390} {
			c.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
			c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
			c.Open(base + path)
			c.Eval("(() => {"+string(axe)+"\n})()", nil)
			const faults = `axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" | ")).join("\\n"))`
			if got := c.Text(faults); got != "" {
				t.Error(fmt.Sprintf("/%s, %s, %d px: ", path, scheme, width), got)
			}
		}
	}
}
