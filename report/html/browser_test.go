package html

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
	"github.com/resource-tracker/rt/e2e/chromium"
	"github.com/resource-tracker/rt/report"
)

var update = flag.Bool("update", false, "write the screenshots of docs/")

// show opens the page of a job in a real browser.
func show(t *testing.T, c *chromium.Browser, runs ...PageRun) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "job.html")
	if err := os.WriteFile(path, pageOf(t, runs...), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Open("file://" + path)
	return path
}

func noFaults(t *testing.T, c *chromium.Browser, path string) {
	t.Helper()
	for _, fault := range c.Faults("file://" + path) {
		t.Error(fault)
	}
}

const (
	firstPlot = `document.querySelector("#plot-cpu .plot")`
	itsRange  = `JSON.stringify([` + firstPlot + `.plot.u.scales.x.min, ` + firstPlot + `.plot.u.scales.x.max])`
)

// exampleDay has all plots, a kill, a gap and values that were not read.
func exampleDay(t *testing.T) PageRun {
	t.Helper()
	o := dayOf("n1")
	o.gpus, o.killAt = 2, 8000
	return o.asRun(t)
}

// A job of 24 hours: the browser requests the file alone, reports no error, and draws all plots.
func TestBrowserDay(t *testing.T) {
	c := chromium.Start(t)
	path := show(t, c, exampleDay(t))
	t.Logf("first plot after %s ms", c.Text(`document.documentElement.dataset.firstPlot`))
	order := `performance.getEntriesByName("first-plot")[0].startTime <= performance.getEntriesByType("navigation")[0].loadEventStart`
	if c.Text("String("+order+")") != "true" {
		t.Error("the first plot is drawn after the page is loaded: the data delays it")
	}
	const plots = 11
	if n := c.Number(`document.querySelectorAll(".plot").length`); n != plots {
		t.Fatalf("%v plots: want %d", n, plots)
	}
	for i := range plots {
		plot := fmt.Sprintf(`document.querySelectorAll(".plot")[%d]`, i)
		c.Eval(plot+`.scrollIntoView()`, nil)
		c.Until(plot + `.querySelector("canvas")`)
	}
	noFaults(t, c, path)
}

// The script decodes the same values as the readings have, and null for values that were not read.
func TestBrowserValues(t *testing.T) {
	o := simulated{node: "n1", readings: 60, every: 10 * time.Second, unread: [2]int{10, 15}}
	run := o.asRun(t)
	c := chromium.Start(t)
	path := show(t, c, run)
	var got [][]*float64
	c.Eval(`document.querySelector("#plot-memory .plot").scrollIntoView()`, nil)
	c.Until(`document.querySelector("#plot-memory .plot").plot.u`)
	c.Eval(`document.querySelector("#plot-memory .plot").plot.u.data`, &got)
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
	c := chromium.Start(t)
	path := show(t, c, exampleDay(t))
	c.Eval(firstPlot+`.scrollIntoView({block: "center"})`, nil)
	all := c.Text(itsRange)
	var box struct{ X, Y, Width, Height float64 }
	c.Eval(`(b => ({X: b.x, Y: b.y, Width: b.width, Height: b.height}))(`+firstPlot+`.querySelector(".u-over").getBoundingClientRect())`, &box)
	y := box.Y + box.Height/2
	c.Mouse("mouseMoved", box.X+box.Width*0.25, y, 0)
	c.Mouse("mousePressed", box.X+box.Width*0.25, y, 1)
	c.Mouse("mouseMoved", box.X+box.Width*0.4, y, 1)
	c.Mouse("mouseMoved", box.X+box.Width*0.5, y, 1)
	c.Mouse("mouseReleased", box.X+box.Width*0.5, y, 1)
	zoomed := c.Text(itsRange)
	if zoomed == all {
		t.Fatalf("dragging does not zoom: the range is %s", all)
	}
	c.Until(`document.querySelector("#plot-memory .plot").plot.u`)
	other := strings.ReplaceAll(itsRange, "#plot-cpu", "#plot-memory")
	if got := c.Text(other); got != zoomed {
		t.Errorf("the plot of the memory shows %s, the one of the CPU %s", got, zoomed)
	}
	c.Mouse("mouseMoved", box.X+box.Width*0.3, y, 0)
	for clicks := 1; clicks <= 2; clicks++ {
		c.Mouse("mousePressed", box.X+box.Width*0.3, y, clicks)
		c.Mouse("mouseReleased", box.X+box.Width*0.3, y, clicks)
	}
	if got := c.Text(itsRange); got != all {
		t.Errorf("after a double click the range is %s: want %s", got, all)
	}

	const button = `[...document.querySelectorAll("#plot-cpu .legend button")].find(b => b.textContent === "in use")`
	c.Eval(button+`.click()`, nil)
	shown := firstPlot + `.plot.u.series.find(s => s.label === "in use").show`
	if c.Text("String("+shown+")") != "false" || c.Text(button+`.getAttribute("aria-pressed")`) != "false" {
		t.Error("the legend does not hide its line")
	}
	c.Eval(button+`.click()`, nil)
	if c.Text("String("+shown+")") != "true" {
		t.Error("the legend does not show its line again")
	}
	noFaults(t, c, path)
}

// The keyboard reaches a plot, moves its cursor by readings, and zooms; the table has the values.
func TestBrowserKeyboard(t *testing.T) {
	c := chromium.Start(t)
	path := show(t, c, exampleDay(t))
	c.Eval(firstPlot+`.focus()`, nil)
	if c.Text(`document.activeElement.getAttribute("role")`) != "application" {
		t.Fatal("the plot cannot have the focus")
	}
	index := `String(` + firstPlot + `.plot.u.cursor.idx)`
	for _, step := range []struct{ key, want string }{{"Home", "0"}, {"ArrowRight", "1"}, {"ArrowRight", "2"}, {"ArrowLeft", "1"}} {
		c.Key(step.key)
		if got := c.Text(index); got != step.want {
			t.Errorf("after %s the cursor is at %s: want %s", step.key, got, step.want)
		}
	}
	const output = `document.querySelector("#plot-cpu output").value`
	if got := c.Text(output); !strings.HasPrefix(got, "2026-03-01 12:00:10 · in use ") || !strings.Contains(got, "allocated 8.00") {
		t.Errorf("the cursor shows %q", got)
	}
	if c.Text(`document.querySelector("#plot-cpu output").getAttribute("aria-live")`) != "polite" {
		t.Error("the values at the cursor are not announced")
	}
	all := c.Text(itsRange)
	c.Key("+")
	if c.Text(itsRange) == all {
		t.Error("+ does not zoom")
	}
	c.Key("End")
	if got := c.Text(output); !strings.HasPrefix(got, "2026-03-02 11:59:50") {
		t.Errorf("End shows %q", got)
	}
	c.Key("Escape")
	if got := c.Text(itsRange); got != all {
		t.Errorf("after Escape the range is %s: want %s", got, all)
	}
	c.Eval(`document.querySelector("#plot-memory .values").open = true`, nil)
	rows := c.Number(`document.querySelectorAll("#plot-memory .values tbody tr").length`)
	if rows < 60 || rows > 120 {
		t.Errorf("the table has %v rows", rows)
	}
	if n := c.Number(`[...document.querySelectorAll("#plot-memory .values td")].filter(d => d.textContent === "not read").length`); n == 0 {
		t.Error("the table shows values that were not read")
	}
	noFaults(t, c, path)
}

// With 64 nodes there is a plot per node and figure, drawn when it comes into view.
func TestBrowserManyNodes(t *testing.T) {
	c := chromium.Start(t)
	path := show(t, c, manyNodes(t, 64)...)
	t.Logf("first plot after %s ms", c.Text(`document.documentElement.dataset.firstPlot`))
	if n := c.Number(`document.querySelectorAll("#plot-cpu .plot").length`); n != 64 {
		t.Errorf("%v plots of CPU cores: want 64", n)
	}
	if n := c.Number(`document.querySelectorAll("canvas").length`); n > 200 {
		t.Errorf("%v plots are drawn before they are in view", n)
	}
	c.Eval(`document.querySelector("#plot-memory figure:last-child .plot").scrollIntoView()`, nil)
	c.Until(`document.querySelector("#plot-memory figure:last-child canvas")`)
	if note := c.Text(`document.querySelector("#plot-cpu figure .note").textContent`); !strings.Contains(note, "of 8440 readings") {
		t.Errorf("the page does not say that it leaves out readings: %q", note)
	}
	noFaults(t, c, path)
}

// Dark mode and paper: the plots are drawn again in other colours. With -update the
// screenshots of docs/ are written.
func TestBrowserDarkAndPrint(t *testing.T) {
	c := chromium.Start(t)
	path := show(t, c, exampleDay(t))
	line := firstPlot + `.plot.u.series[1]._stroke`
	light := c.Text(line)
	background := `getComputedStyle(document.body).backgroundColor`
	white := c.Text(background)
	screenshot(c, "../../docs/report-light.png")
	scheme := []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}
	c.Call("Emulation.setEmulatedMedia", map[string]any{"features": scheme}, nil)
	c.Until(line + ` !== "` + light + `"`)
	if c.Text(background) == white {
		t.Error("dark mode does not change the background")
	}
	screenshot(c, "../../docs/report-dark.png")
	var pdf struct{ Data string }
	c.Call("Page.printToPDF", map[string]any{"printBackground": false}, &pdf)
	if raw, err := base64.StdEncoding.DecodeString(pdf.Data); err != nil || len(raw) < 50_000 {
		t.Errorf("the page prints as %d bytes, %v", len(raw), err)
	}
	if n, all := c.Number(`document.querySelectorAll(".plot canvas").length`), c.Number(`document.querySelectorAll(".plot").length`); n != all {
		t.Errorf("%v of %v plots are on paper", n, all)
	}
	noFaults(t, c, path)
}

// On paper no plot is wider than the page, and folded tables are open.
func TestBrowserPaper(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		run := simulated{node: "n1", readings: 50, every: 10 * time.Second}.asRun(t)
		run.Summary.Sensors = map[string]report.SensorIs{"lustre": {Status: "absent"}}
		c := chromium.Start(t)
		path := show(t, c, copies(run, nodes)...)
		const paper = 718 // A4 without the margins, in pixels of 1/96 inch
		c.Call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
		c.Eval(`dispatchEvent(new Event("beforeprint"))`, nil) // while the page has the width of the screen
		c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": paper, "height": 1000, "deviceScaleFactor": 1, "mobile": false}, nil)
		widest := c.Number(`Math.max(...[...document.querySelectorAll("canvas")].map(e => e.getBoundingClientRect().right))`)
		if widest > paper || widest < paper/2 {
			t.Errorf("%d nodes: a plot ends at %v of %d pixels", nodes, widest, paper)
		}
		const unfolded = `document.querySelectorAll(".table details[open]").length`
		if n := c.Number(unfolded); n != 1 {
			t.Errorf("%d nodes: %v folded tables are open on paper: want 1", nodes, n)
		}
		c.Eval(`dispatchEvent(new Event("afterprint"))`, nil)
		if n := c.Number(unfolded); n != 0 {
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
	c := chromium.Start(t)
	path := show(t, c, run)
	want := "the kernel's peak " + report.Size(run.Summary.Memory.PeakBytes)
	if legend := c.Text(`document.querySelector("#plot-memory .legend").textContent`); !strings.Contains(legend, want) || !strings.Contains(legend, "limit 32.0 GiB") {
		t.Errorf("the legend is %q: want %q and the limit", legend, want)
	}
	if got := c.Text(`document.querySelector("#plot-io").innerText`); !strings.Contains(got, "No I/O: nothing was read") {
		t.Errorf("the figure without I/O is %q", got)
	}
	if n := c.Number(`document.querySelectorAll("#plot-io .plot, #plot-io button").length`); n != 0 {
		t.Errorf("the figure without I/O has %v plots and buttons", n)
	}
	first := firstPlot + `.plot.u.data[1][0]` // the mean of the first interval begins at the first reading
	if got := c.Text(`String(` + first + ` !== null && ` + first + ` === ` + firstPlot + `.plot.u.data[1][1])`); got != "true" {
		t.Error("the first interval is not drawn")
	}
	noFaults(t, c, path)
}

func screenshot(c *chromium.Browser, path string) {
	if *update {
		c.Screenshot(path, 1000, 1620)
	}
}
