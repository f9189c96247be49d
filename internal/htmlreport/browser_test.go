package htmlreport

import (
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

var update = flag.Bool("update", false, "write the screenshots of docs/")

// browse opens the page of a job in a real browser.
func browse(t *testing.T, runs ...Run) (c *chromium, path string) {
	t.Helper()
	c = startChromium(t)
	path = filepath.Join(t.TempDir(), "job.html")
	if err := os.WriteFile(path, pageOf(t, runs...), 0o600); err != nil {
		t.Fatal(err)
	}
	c.open(path)
	return c, path
}

func noFaults(t *testing.T, c *chromium, path string) {
	t.Helper()
	for _, fault := range c.faults(path) {
		t.Error(fault)
	}
}

const (
	firstPlot = `document.querySelector("#plot-cpu .plot")`
	itsRange  = `JSON.stringify([` + firstPlot + `.plot.u.scales.x.min, ` + firstPlot + `.plot.u.scales.x.max])`
)

// exampleDay has all plots, a kill, a gap and values that were not read.
func exampleDay(t *testing.T) Run {
	t.Helper()
	o := dayOf("n1")
	o.gpus, o.killAt = 2, 8000
	return o.asRun(t)
}

// A job of 24 hours: the browser requests the file alone, reports no error, and draws all plots.
func TestBrowserDay(t *testing.T) {
	c, path := browse(t, exampleDay(t))
	t.Logf("first plot after %s ms", c.text(`document.documentElement.dataset.firstPlot`))
	order := `performance.getEntriesByName("first-plot")[0].startTime <= performance.getEntriesByType("navigation")[0].loadEventStart`
	if c.text("String("+order+")") != "true" {
		t.Error("the first plot is drawn after the page is loaded: the data delays it")
	}
	const plots = 11
	if n := c.number(`document.querySelectorAll(".plot").length`); n != plots {
		t.Fatalf("%v plots: want %d", n, plots)
	}
	for i := range plots {
		plot := fmt.Sprintf(`document.querySelectorAll(".plot")[%d]`, i)
		c.eval(plot+`.scrollIntoView()`, nil)
		c.until(plot + `.querySelector("canvas")`)
	}
	noFaults(t, c, path)
}

// The script decodes the same values as the readings have, and null for values that were not read.
func TestBrowserValues(t *testing.T) {
	o := simulated{node: "n1", readings: 60, every: 10 * time.Second, unread: [2]int{10, 15}}
	run := o.asRun(t)
	c, path := browse(t, run)
	var got [][]*float64
	c.eval(`document.querySelector("#plot-memory .plot").scrollIntoView()`, nil)
	c.until(`document.querySelector("#plot-memory .plot").plot.u`)
	c.eval(`document.querySelector("#plot-memory .plot").plot.u.data`, &got)
	l := lineNamed(t, run.Series, memoryFigure, "total")
	for i, v := range l.values {
		have := got[1][i]
		if v == absent {
			if have != nil {
				t.Errorf("point %d is %v: want null", i, *have)
			}
			continue
		}
		if have == nil || *have != float64(v)*kib {
			t.Errorf("point %d is %v: want %d", i, have, v*kib)
		}
	}
	if at := *got[0][7]; at != float64(start.Add(70*time.Second).Unix()) {
		t.Errorf("the time of point 7 is %v", at)
	}
	noFaults(t, c, path)
}

// Dragging with the mouse zooms all plots of the job, and a double click reverts that. A click in
// the legend hides a line.
func TestBrowserZoomAndLegend(t *testing.T) {
	c, path := browse(t, exampleDay(t))
	c.eval(firstPlot+`.scrollIntoView({block: "center"})`, nil)
	all := c.text(itsRange)
	var box struct{ X, Y, Width, Height float64 }
	c.eval(`(b => ({X: b.x, Y: b.y, Width: b.width, Height: b.height}))(`+firstPlot+`.querySelector(".u-over").getBoundingClientRect())`, &box)
	y := box.Y + box.Height/2
	c.mouse("mouseMoved", box.X+box.Width*0.25, y, 0)
	c.mouse("mousePressed", box.X+box.Width*0.25, y, 1)
	c.mouse("mouseMoved", box.X+box.Width*0.4, y, 1)
	c.mouse("mouseMoved", box.X+box.Width*0.5, y, 1)
	c.mouse("mouseReleased", box.X+box.Width*0.5, y, 1)
	zoomed := c.text(itsRange)
	if zoomed == all {
		t.Fatalf("dragging does not zoom: the range is %s", all)
	}
	c.until(`document.querySelector("#plot-memory .plot").plot.u`)
	other := strings.ReplaceAll(itsRange, "#plot-cpu", "#plot-memory")
	if got := c.text(other); got != zoomed {
		t.Errorf("the plot of the memory shows %s, the one of the CPU %s", got, zoomed)
	}
	c.mouse("mouseMoved", box.X+box.Width*0.3, y, 0)
	for clicks := 1; clicks <= 2; clicks++ {
		c.mouse("mousePressed", box.X+box.Width*0.3, y, clicks)
		c.mouse("mouseReleased", box.X+box.Width*0.3, y, clicks)
	}
	if got := c.text(itsRange); got != all {
		t.Errorf("after a double click the range is %s: want %s", got, all)
	}

	const button = `[...document.querySelectorAll("#plot-cpu .legend button")].find(b => b.textContent === "in use")`
	c.eval(button+`.click()`, nil)
	shown := firstPlot + `.plot.u.series.find(s => s.label === "in use").show`
	if c.text("String("+shown+")") != "false" || c.text(button+`.getAttribute("aria-pressed")`) != "false" {
		t.Error("the legend does not hide its line")
	}
	c.eval(button+`.click()`, nil)
	if c.text("String("+shown+")") != "true" {
		t.Error("the legend does not show its line again")
	}
	noFaults(t, c, path)
}

// The keyboard reaches a plot, moves its cursor by readings, and zooms; the table has the values.
func TestBrowserKeyboard(t *testing.T) {
	c, path := browse(t, exampleDay(t))
	c.eval(firstPlot+`.focus()`, nil)
	if c.text(`document.activeElement.getAttribute("role")`) != "application" {
		t.Fatal("the plot cannot have the focus")
	}
	index := `String(` + firstPlot + `.plot.u.cursor.idx)`
	for _, step := range []struct{ key, want string }{{"Home", "0"}, {"ArrowRight", "1"}, {"ArrowRight", "2"}, {"ArrowLeft", "1"}} {
		c.key(step.key)
		if got := c.text(index); got != step.want {
			t.Errorf("after %s the cursor is at %s: want %s", step.key, got, step.want)
		}
	}
	const output = `document.querySelector("#plot-cpu output").value`
	if got := c.text(output); !strings.HasPrefix(got, "2026-03-01 12:00:10 · in use ") || !strings.Contains(got, "allocated 8.00") {
		t.Errorf("the cursor shows %q", got)
	}
	if c.text(`document.querySelector("#plot-cpu output").getAttribute("aria-live")`) != "polite" {
		t.Error("the values at the cursor are not announced")
	}
	all := c.text(itsRange)
	c.key("+")
	if c.text(itsRange) == all {
		t.Error("+ does not zoom")
	}
	c.key("End")
	if got := c.text(output); !strings.HasPrefix(got, "2026-03-02 11:59:50") {
		t.Errorf("End shows %q", got)
	}
	c.key("Escape")
	if got := c.text(itsRange); got != all {
		t.Errorf("after Escape the range is %s: want %s", got, all)
	}
	c.eval(`document.querySelector("#plot-memory .values").open = true`, nil)
	rows := c.number(`document.querySelectorAll("#plot-memory .values tbody tr").length`)
	if rows < 60 || rows > 120 {
		t.Errorf("the table has %v rows", rows)
	}
	if n := c.number(`[...document.querySelectorAll("#plot-memory .values td")].filter(d => d.textContent === "not read").length`); n == 0 {
		t.Error("the table shows values that were not read")
	}
	noFaults(t, c, path)
}

// With 64 nodes there is a plot per node and figure, drawn when it comes into view.
func TestBrowserManyNodes(t *testing.T) {
	c, path := browse(t, manyNodes(t, 64)...)
	t.Logf("first plot after %s ms", c.text(`document.documentElement.dataset.firstPlot`))
	if n := c.number(`document.querySelectorAll("#plot-cpu .plot").length`); n != 64 {
		t.Errorf("%v plots of CPU cores: want 64", n)
	}
	if n := c.number(`document.querySelectorAll("canvas").length`); n > 200 {
		t.Errorf("%v plots are drawn before they are in view", n)
	}
	c.eval(`document.querySelector("#plot-memory figure:last-child .plot").scrollIntoView()`, nil)
	c.until(`document.querySelector("#plot-memory figure:last-child canvas")`)
	if note := c.text(`document.querySelector("#plot-cpu figure .note").textContent`); !strings.Contains(note, "of 8440 readings") {
		t.Errorf("the page does not say that it leaves out readings: %q", note)
	}
	noFaults(t, c, path)
}

// Dark mode and paper: the plots are drawn again in other colours. With -update the
// screenshots of docs/ are written.
func TestBrowserDarkAndPrint(t *testing.T) {
	c, path := browse(t, exampleDay(t))
	line := firstPlot + `.plot.u.series[1]._stroke`
	light := c.text(line)
	background := `getComputedStyle(document.body).backgroundColor`
	white := c.text(background)
	c.screenshot("../../docs/report-light.png")
	scheme := []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}
	c.call("Emulation.setEmulatedMedia", map[string]any{"features": scheme}, nil)
	c.until(line + ` !== "` + light + `"`)
	if c.text(background) == white {
		t.Error("dark mode does not change the background")
	}
	c.screenshot("../../docs/report-dark.png")
	var pdf struct{ Data string }
	c.call("Page.printToPDF", map[string]any{"printBackground": false}, &pdf)
	if raw, err := base64.StdEncoding.DecodeString(pdf.Data); err != nil || len(raw) < 50_000 {
		t.Errorf("the page prints as %d bytes, %v", len(raw), err)
	}
	if n, all := c.number(`document.querySelectorAll(".plot canvas").length`), c.number(`document.querySelectorAll(".plot").length`); n != all {
		t.Errorf("%v of %v plots are on paper", n, all)
	}
	noFaults(t, c, path)
}

// On paper no plot is wider than the page, and folded tables are open.
func TestBrowserPaper(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		run := simulated{node: "n1", readings: 50, every: 10 * time.Second}.asRun(t)
		run.Summary.Sensors = map[string]report.SensorIs{"lustre": {Status: "absent"}}
		c, path := browse(t, copies(run, nodes)...)
		const paper = 718 // A4 without the margins, in pixels of 1/96 inch
		c.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
		c.eval(`dispatchEvent(new Event("beforeprint"))`, nil) // while the page has the width of the screen
		c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": paper, "height": 1000, "deviceScaleFactor": 1, "mobile": false}, nil)
		widest := c.number(`Math.max(...[...document.querySelectorAll("canvas")].map(e => e.getBoundingClientRect().right))`)
		if widest > paper || widest < paper/2 {
			t.Errorf("%d nodes: a plot ends at %v of %d pixels", nodes, widest, paper)
		}
		const unfolded = `document.querySelectorAll(".table details[open]").length`
		if n := c.number(unfolded); n != 1 {
			t.Errorf("%d nodes: %v folded tables are open on paper: want 1", nodes, n)
		}
		c.eval(`dispatchEvent(new Event("afterprint"))`, nil)
		if n := c.number(unfolded); n != 0 {
			t.Errorf("%d nodes: %v folded tables stay open", nodes, n)
		}
		noFaults(t, c, path)
	}
}

// The legend has the value of the kernel's peak. A figure with all values 0 says so instead of a plot.
func TestBrowserPeakAndEmpty(t *testing.T) {
	run := simulated{node: "n1", readings: 50, every: 10 * time.Second}.asRun(t)
	for _, name := range []string{"read", "written"} {
		clear(lineNamed(t, run.Series, ioFigure, name).values)
	}
	run.Summary.IO.ReadBytes, run.Summary.IO.WriteBytes = rt.Some[uint64](0), rt.Some[uint64](0)
	c, path := browse(t, run)
	want := "the kernel's peak " + size(run.Summary.Memory.PeakBytes)
	if legend := c.text(`document.querySelector("#plot-memory .legend").textContent`); !strings.Contains(legend, want) || !strings.Contains(legend, "limit 32.0 GiB") {
		t.Errorf("the legend is %q: want %q and the limit", legend, want)
	}
	if got := c.text(`document.querySelector("#plot-io").innerText`); !strings.Contains(got, "No I/O: nothing was read") {
		t.Errorf("the figure without I/O is %q", got)
	}
	if n := c.number(`document.querySelectorAll("#plot-io .plot, #plot-io button").length`); n != 0 {
		t.Errorf("the figure without I/O has %v plots and buttons", n)
	}
	first := firstPlot + `.plot.u.data[1][0]` // the mean of the first interval begins at the first reading
	if got := c.text(`String(` + first + ` !== null && ` + first + ` === ` + firstPlot + `.plot.u.data[1][1])`); got != "true" {
		t.Error("the first interval is not drawn")
	}
	noFaults(t, c, path)
}

func (c *chromium) screenshot(path string) {
	c.t.Helper()
	if !*update {
		return
	}
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1000, "height": 1620, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.eval(`scrollTo(0, 0)`, nil)
	c.eval(`new Promise(done => setTimeout(done, 300))`, nil) // the page waits 100 ms after a resize
	var shot struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	c.call("Emulation.clearDeviceMetricsOverride", nil, nil)
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		c.t.Fatal(err)
	}
}
