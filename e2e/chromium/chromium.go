// Package chromium drives a headless Chromium in tests.
package chromium

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Browser is a headless Chromium that shows one page. It speaks the DevTools protocol over a
// pair of pipes: JSON messages that end in a zero byte.
type Browser struct {
	t       *testing.T
	to      *os.File
	session string
	id      int

	mu      sync.Mutex
	replies map[int]chan reply
	events  []event
	loaded  chan struct{}
}

type event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	event
}

// Start starts the browser. The test is skipped with -short, and if there is none: make check installs it.
func Start(t *testing.T) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("in make check: a browser")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: make check installs it")
	}
	fromUs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--remote-debugging-pipe", "--window-size=1280,900", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{fromUs, fromIt} // its descriptors 3 and 4
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "TZ=America/New_York")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	fromIt.Close()
	c := &Browser{t: t, to: to, replies: map[int]chan reply{}, loaded: make(chan struct{}, 8)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.read(from)
	}()
	t.Cleanup(func() {
		c.send("Browser.close", nil)
		if err := cmd.Wait(); err != nil {
			t.Logf("chromium: %v", err)
		}
		to.Close()
		<-done
		from.Close()
	})
	var target struct{ TargetID string }
	c.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		c.Call(domain+".enable", map[string]any{}, nil)
	}
	return c
}

func (c *Browser) read(from *os.File) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		message, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m reply
		if err := json.Unmarshal(bytes.TrimSuffix(message, []byte{0}), &m); err != nil {
			c.t.Errorf("a message of chromium: %v", err)
			return
		}
		c.mu.Lock()
		if m.Method == "" {
			if wait := c.replies[m.ID]; wait != nil {
				wait <- m
			}
		} else {
			c.events = append(c.events, m.event)
		}
		c.mu.Unlock()
		if m.Method == "Page.loadEventFired" {
			c.loaded <- struct{}{}
		}
	}
}

// send sends a request and returns the channel of its reply.
func (c *Browser) send(method string, params any) chan reply {
	wait := make(chan reply, 1)
	c.mu.Lock()
	c.id++
	id := c.id
	c.replies[id] = wait
	c.mu.Unlock()
	request := map[string]any{"id": id, "method": method}
	if params != nil {
		request["params"] = params
	}
	if c.session != "" && !strings.HasPrefix(method, "Browser.") {
		request["sessionId"] = c.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.to.Write(append(text, 0)); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return wait
}

// Call calls a method of the protocol, and waits for its result.
func (c *Browser) Call(method string, params, result any) {
	c.t.Helper()
	select {
	case m := <-c.send(method, params):
		if m.Error != nil {
			c.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				c.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(time.Minute):
		c.t.Fatalf("%s: chromium does not answer", method)
	}
}

// Open shows a page and waits until it is loaded.
func (c *Browser) Open(url string) {
	c.t.Helper()
	c.Call("Page.navigate", map[string]any{"url": url}, nil)
	c.Loaded()
}

// Loaded waits until a page is loaded that a key or a click has opened.
func (c *Browser) Loaded() {
	c.t.Helper()
	select {
	case <-c.loaded:
	case <-time.After(time.Minute):
		c.t.Fatal("chromium loads no page")
	}
}

// Eval returns the value of an expression after the next frames.
func (c *Browser) Eval(expression string, result any) {
	c.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	const settled = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
	c.Call("Runtime.evaluate", map[string]any{"expression": settled + ".then(() => (" + expression + "))", "awaitPromise": true, "returnByValue": true}, &out)
	if e := out.ExceptionDetails; e != nil {
		c.t.Fatalf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result != nil {
		if err := json.Unmarshal(out.Result.Value, result); err != nil {
			c.t.Fatalf("%s: %v in %s", expression, err, out.Result.Value)
		}
	}
}

// Until waits for a condition.
func (c *Browser) Until(condition string) {
	c.t.Helper()
	var met bool
	c.Eval(`(async () => { for (const end = performance.now() + 30000; performance.now() < end; await new Promise(requestAnimationFrame)) if (`+condition+`) return true; return false; })()`, &met)
	if !met {
		c.t.Errorf("it never becomes true that %s", condition)
	}
}

// Text returns the value of an expression that is a text.
func (c *Browser) Text(expression string) string {
	c.t.Helper()
	var s string
	c.Eval(expression, &s)
	return s
}

// Number returns the value of an expression that is a number.
func (c *Browser) Number(expression string) float64 {
	c.t.Helper()
	var v float64
	c.Eval(expression, &v)
	return v
}

// Key presses a key on the focused element.
func (c *Browser) Key(name string) {
	c.t.Helper()
	params := map[string]any{"type": "rawKeyDown", "key": name, "code": name}
	switch name { // these have effects of their own
	case "Tab":
		params["windowsVirtualKeyCode"] = 9
	case "Enter":
		params["type"], params["text"], params["windowsVirtualKeyCode"] = "keyDown", "\r", 13
	}
	c.Call("Input.dispatchKeyEvent", params, nil)
	params["type"] = "keyUp"
	delete(params, "text")
	c.Call("Input.dispatchKeyEvent", params, nil)
}

// Write types a text into the focused element.
func (c *Browser) Write(text string) {
	c.t.Helper()
	c.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// Screenshot writes what a window of a size shows as PNG.
func (c *Browser) Screenshot(path string, width, height int) {
	c.t.Helper()
	c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.Eval(`scrollTo(0, 0)`, nil)
	c.Eval(`new Promise(done => setTimeout(done, 300))`, nil) // the page of a report waits 100 ms after a resize
	var shot struct{ Data string }
	c.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	c.Call("Emulation.clearDeviceMetricsOverride", nil, nil)
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, raw, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Mouse sends an event of the left button at a place of the window.
func (c *Browser) Mouse(kind string, x, y float64, clicks int) {
	c.t.Helper()
	params := map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": clicks, "buttons": 1}
	if kind == "mouseMoved" && clicks == 0 {
		params["button"], params["buttons"] = "none", 0
	}
	c.Call("Input.dispatchMouseEvent", params, nil)
}

// Faults returns the requests for addresses that do not begin with base, the errors of the console, and exceptions.
// The icons of form fields are data in the browser.
func (c *Browser) Faults(base string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, e := range c.events {
		var p struct {
			Request struct{ URL string }
			Type    string
			Entry   struct{ Level, Text string }
		}
		if err := json.Unmarshal(e.Params, &p); err != nil && slices.Contains([]string{"Network.requestWillBeSent", "Log.entryAdded"}, e.Method) {
			list = append(list, err.Error())
		}
		switch {
		case e.Method == "Network.requestWillBeSent" && !strings.HasPrefix(p.Request.URL, base) && !strings.HasPrefix(p.Request.URL, "data:"):
			list = append(list, "request for "+p.Request.URL)
		case e.Method == "Log.entryAdded" && p.Entry.Level == "error":
			list = append(list, "log: "+p.Entry.Text)
		case e.Method == "Runtime.exceptionThrown", e.Method == "Runtime.consoleAPICalled":
			list = append(list, fmt.Sprintf("%s: %s", e.Method, e.Params))
		}
	}
	return list
}
