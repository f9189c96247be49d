package main

import (
	"flag"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/e2e/chromium"
)

var update = flag.Bool("update", false, "write the screenshots of docs/")

// browse shows a page of a new service as the holder of a read token. It returns the address of the service, with
// the token.
func browse(t *testing.T, token, path string) (c *chromium.Browser, base string) {
	t.Helper()
	c = chromium.Start(t)
	base = strings.Replace(newPageSite(t)+"/", "http://", "http://any:"+token+"@", 1)
	c.Open(base + path)
	return c, base
}

func noFaults(t *testing.T, c *chromium.Browser, base string) {
	t.Helper()
	for _, fault := range c.Faults(base) {
		t.Error(fault)
	}
}

const (
	labels     = `[...document.querySelectorAll(".rows tbody th a")].map(a => a.textContent).join(" ")`
	firstPlot  = `document.querySelector("#plot-cpu .plot")`
	plotRange  = `JSON.stringify([` + firstPlot + `.plot.u.scales.x.min, ` + firstPlot + `.plot.u.scales.x.max])`
	isFocusJob = `String(document.activeElement.closest("tbody") !== null)`
)

// An operator filters and sorts the jobs, opens one, and zooms its plot.
func TestBrowserJobs(t *testing.T) {
	c, base := browse(t, "page-all", "jobs")
	c.Eval(`document.querySelector("#filter").open = true`, nil)
	c.Eval(`document.querySelector("[name=user]").focus()`, nil)
	c.Write("bob")
	c.Key("Enter")
	c.Loaded()
	if got := c.Text(labels); got != "6 4 2" {
		t.Errorf("the jobs of bob are %s", got)
	}
	if got := c.Text(`document.querySelector("[name=user]").value + location.search.replace(/&cols=.*/, "")`); got != "bob?user=bob" {
		t.Errorf("after the search the form and the address have the user %q", got)
	}
	c.Eval(`[...document.querySelectorAll(".rows thead a")].find(a => a.textContent.trim() === "Waste").click()`, nil)
	c.Loaded()
	if got := c.Text(`document.querySelector("[aria-sort]").textContent.trim() + " " + ` + labels); got != "Waste 6 4 2" {
		t.Errorf("sorted by waste the jobs of bob are %s", got)
	}
	if address := c.Text(`location.search`); !strings.Contains(address, "user=bob") || !strings.Contains(address, "sort=waste") {
		t.Errorf("the link %s does not keep the filter", address)
	}
	c.Eval(`document.querySelector(".rows tbody th a").click()`, nil)
	c.Loaded()
	c.Eval(firstPlot+`.scrollIntoView({block: "center"})`, nil)
	c.Until(firstPlot + `.plot.u`)
	all := c.Text(plotRange)
	var box struct{ X, Y, Width, Height float64 }
	c.Eval(`(b => ({X: b.x, Y: b.y, Width: b.width, Height: b.height}))(`+firstPlot+`.querySelector(".u-over").getBoundingClientRect())`, &box)
	y := box.Y + box.Height/2
	c.Mouse("mouseMoved", box.X+box.Width*0.25, y, 0)
	c.Mouse("mousePressed", box.X+box.Width*0.25, y, 1)
	c.Mouse("mouseMoved", box.X+box.Width*0.5, y, 1)
	c.Mouse("mouseReleased", box.X+box.Width*0.5, y, 1)
	if c.Text(plotRange) == all {
		t.Error("dragging does not zoom the plot")
	}
	zoomed := c.Text(plotRange)
	if address := c.Text(`location.search`); !strings.Contains(address, "zoom=") {
		t.Errorf("the address of a zoomed plot is %s", address)
	}
	c.Open(base + strings.TrimPrefix(c.Text(`location.pathname + location.search`), "/"))
	c.Eval(firstPlot+`.scrollIntoView({block: "center"})`, nil)
	c.Until(firstPlot + `.plot.u`)
	if got := c.Text(`[` + plotRange + `, ` + `JSON.stringify(` + zoomed + `)].map(text => JSON.parse(text).map(Math.round).join(" ")).join(", ")`); len(got) == 0 || got[:len(got)/2-1] != got[len(got)/2+1:] {
		t.Errorf("the link to a zoomed plot shows %s", got)
	}
	noFaults(t, c, base)
}

// Without a mouse a user goes from the list to a job, and zooms its plot.
func TestBrowserKeyboard(t *testing.T) {
	c, base := browse(t, "page-alice", "jobs?name=train")
	c.Key("Tab")
	if got := c.Text(`document.activeElement.className`); got != "skip" {
		t.Errorf("the first stop of the keyboard is %q: want the link to the content", got)
	}
	stops := 1
	for ; c.Text(isFocusJob) != "true" && stops < 60; stops++ {
		c.Key("Tab")
	}
	if got := c.Text(`document.activeElement.textContent + " " + getComputedStyle(document.activeElement).outlineStyle`); got != "5 solid" {
		t.Fatalf("after %d stops the focus is on %q", stops, got)
	}
	c.Key("Enter")
	c.Loaded()
	c.Until(firstPlot)
	for i := 0; c.Text(`String(document.activeElement.classList.contains("plot"))`) != "true" && i < 80; i++ {
		c.Key("Tab")
	}
	c.Until(`document.activeElement.plot && document.activeElement.plot.u`)
	const itsRange = `JSON.stringify([document.activeElement.plot.u.scales.x.min, document.activeElement.plot.u.scales.x.max])`
	all := c.Text(itsRange)
	c.Key("Home")
	c.Key("+")
	if c.Text(itsRange) == all {
		t.Error("+ does not zoom the plot")
	}
	noFaults(t, c, base)
}

// All pages fit a small screen and a phone, in light and in dark mode. With -update the screenshots of docs/ are written.
func TestBrowserSizes(t *testing.T) {
	c, base := browse(t, "page-all", "jobs?name=train")
	if *update {
		screenshots(t, c)
		return
	}
	background := map[string]string{}
	for scheme, width := range map[string]int{"light": 1280, "dark": 390} {
		c.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
		for _, path := range []string{"", "jobs", "jobs?name=train", "users?since=2026-03-01&until=2026-12-31", "accounts?since=2026-03-01&until=2026-12-31", "nodes", "job?cluster=c&id=1", "job?cluster=none&id=1"} {
			c.Open(base + path)
			if wide := c.Number(`document.documentElement.scrollWidth`); int(wide) > width {
				t.Errorf("%s is %v pixels wide in a window of %d", path, wide, width)
			}
			const cut = `String([...document.querySelectorAll(".rows table")].filter(e => e.clientWidth > e.parentElement.clientWidth).length)`
			if got := c.Text(cut); path == "jobs?name=train" && got != "0" { // other lists have hostile texts
				t.Errorf("%s: %s tables are cut in a window of %d", path, got, width)
			}
			background[scheme] = c.Text(`getComputedStyle(document.body).backgroundColor`)
		}
	}
	if background["light"] == background["dark"] {
		t.Errorf("the background is %s in light and dark mode", background["light"])
	}
	for _, fault := range c.Faults(base) {
		if !strings.Contains(fault, "404") { // of the job that is not there
			t.Error(fault)
		}
	}
}

// The list of jobs comes first: the filter opens with the keyboard, and a link removes each of its values.
func TestBrowserFilter(t *testing.T) {
	c, base := browse(t, "page-all", "jobs")
	c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.Eval(`document.querySelector("#filter summary").focus()`, nil)
	c.Key("Enter")
	c.Until(`document.querySelector("#filter").open`)
	c.Eval(`document.querySelector("[name=name]").focus()`, nil)
	c.Write("train-alice")
	c.Key("Enter")
	c.Loaded()
	const rows = `String(document.querySelectorAll(".rows tbody tr").length)`
	if got := c.Text(rows); got != "3" {
		t.Errorf("with a filter there are %s jobs", got)
	}
	if got := c.Text(`location.search`); strings.Contains(got, "=&") || strings.Contains(got, "col=") {
		t.Errorf("the address is %s", got)
	}
	c.Eval(`document.querySelector(".chip a").click()`, nil)
	c.Loaded()
	if got := c.Text(rows); got == "3" {
		t.Errorf("without the filter there are %s jobs", got)
	}
	noFaults(t, c, base)
}

// The search leads to a job. The theme and the zone that a reader chooses stay, also for plots.
func TestBrowserChoices(t *testing.T) {
	c, base := browse(t, "page-alice", "")
	const background = `getComputedStyle(document.body).backgroundColor`
	light := c.Text(background)
	c.Eval(`document.querySelector("#theme").click()`, nil)
	if got := c.Text(background); got == light {
		t.Errorf("the switch leaves the background %s", got)
	}
	c.Eval(`document.querySelector("#find").focus()`, nil)
	c.Write("3")
	c.Key("Enter")
	c.Loaded()
	if got := c.Text(`document.title`); !strings.HasPrefix(got, "Job 3 ") {
		t.Errorf("the search leads to %s", got)
	}
	const started, zone = `document.querySelector(".facts time").textContent`, `document.querySelector("#zone").textContent`
	if got := c.Text(background + ` + document.querySelector(".facts time").title`); strings.HasPrefix(got, light) || !strings.HasSuffix(got, " UTC") {
		t.Errorf("on the next page the background and the title of a time are %s", got)
	}
	local, place := c.Text(started), c.Text(zone)
	c.Eval(`document.querySelector(".zone-switch").click()`, nil)
	if got := c.Text(started); got == local || !strings.HasSuffix(got, " UTC") || place != "America/New_York" || c.Text(zone) != "UTC" {
		t.Errorf("the start is %s in %s, and %s", local, place, got)
	}
	noFaults(t, c, base)
}

// The list of running jobs loads itself again, but not while the reader types or has the filter open.
func TestBrowserRefresh(t *testing.T) {
	c := chromium.Start(t)
	c.Call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `window.due = []; const later = setTimeout; window.setTimeout = (f, ms, ...rest) => ms >= 1000 ? due.push(f) : later(f, ms, ...rest)`}, nil)
	base := strings.Replace(newPageSite(t)+"/", "http://", "http://any:page-alice@", 1)
	c.Open(base + "jobs?state=running")
	for _, busy := range []string{`document.querySelector("#find").focus()`, `document.activeElement.blur(), document.querySelector("#filter").open = true`} {
		if got := c.Text(`(` + busy + `, due.shift()(), String(due.length))`); got != "1" {
			t.Errorf("after %s %s timers run: want the one that tries again", busy, got)
		}
	}
	c.Eval(`(document.querySelector("#filter").open = false, later(due.shift()), 0)`, nil)
	c.Loaded()
	c.Open(base + "jobs")
	if got := c.Text(`String(due.length)`); got != "0" {
		t.Errorf("the list of all jobs has %s timers", got)
	}
	noFaults(t, c, base)
}

// No text of a user runs a script in a browser.
func TestBrowserHostileTexts(t *testing.T) {
	c, base := browse(t, "page-all", "jobs")
	paths := []string{"", "jobs", "nodes", "users?since=2026-03-01&until=2026-12-31", "accounts?since=2026-03-01&until=2026-12-31"}
	for i, text := range payloads {
		paths = append(paths, fmt.Sprintf("job?cluster=%s&id=%d", url.QueryEscape(text), 100+i))
	}
	for _, path := range paths {
		c.Open(base + path)
		if got := c.Text(`String(window.hit) + document.querySelectorAll("[onerror], [onload], [onfocus], iframe, a[href^='javascript:']").length`); got != "undefined0" {
			t.Errorf("%s: a script of a user ran, or has a place: %s", path, got)
		}
	}
	noFaults(t, c, base)
}
