package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/format/ftdc"
)

// ftdcSample is ten minutes of four metrics; one metric starts halfway.
func ftdcSample(t interface{ Fatal(...any) }) []byte {
	var file bytes.Buffer
	enc := ftdc.NewEncoder(&file)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(600) {
		d := ftdc.FlatDatum{Time: start + i*1e9, Readings: []ftdc.Reading{
			{MetricName: "motor.powerPct", Value: float32(i%100) / 100}, {MetricName: "motor.pos", Value: float32(5000 + 2*i)},
			{MetricName: "motor.pos_rest", Value: 0.25},
		}}
		if i >= 300 {
			d.Readings = append(d.Readings, ftdc.Reading{MetricName: "gps.\x1b[31mred", Value: float32(math.Inf(1))}, ftdc.Reading{MetricName: "gps.sats", Value: float32(i % 7)})
		}
		if err := enc.EncodeDatum(&d); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

// cmdSample writes ftdcSample to a file of a script.
func cmdSample(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), ftdcSample(fatal{ts}), 0o644))
}

type fatal struct{ ts *testscript.TestScript }

func (f fatal) Fatal(args ...any) { f.ts.Fatalf("%s", fmt.Sprint(args...)) }

// console collects what a program prints on a terminal.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (c *console) read(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		c.mu.Lock()
		c.text.Write(buf[:n])
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// until waits for a text after an offset, and returns the end of the text.
func (c *console) until(t *testing.T, from int, want string) int {
	t.Helper()
	late := time.After(await.Limit)
	for {
		c.mu.Lock()
		text := c.text.String()
		c.mu.Unlock()
		if i := strings.Index(text[from:], want); i >= 0 {
			return from + i + len(want)
		}
		select {
		case <-c.more:
		case <-late:
			t.Fatalf("%q did not come; the terminal got %q", want, text[from:])
		}
	}
}

// The program on a real terminal: it switches to the alternate screen, draws, follows the
// size and the keys, and restores the screen.
func TestFTDCInteractive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.ftdc")
	if err := os.WriteFile(path, ftdcSample(t), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t), "--config", "/dev/null", "ftdc", "-i", path)
	cmd.Args[0] = "rt-spool"
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "TZ=UTC")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	c := &console{more: make(chan struct{}, 1)}
	go c.read(tty)
	send := func(keys string) {
		if _, err := tty.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	at := c.until(t, 0, "\x1b[?1049h") // the alternate screen
	at = c.until(t, at, "motor.powerPct")
	at = c.until(t, at, "gps.sats")
	at = c.until(t, at, "quit")
	send("/")
	at = c.until(t, at, "filter (enter")
	send("sats\r")
	at = c.until(t, at, "gps.sats") // the title of the only plot that is left
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	at = c.until(t, at, "match sats") // everything is drawn again
	send("q")
	c.until(t, at, "\x1b[?1049l")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
