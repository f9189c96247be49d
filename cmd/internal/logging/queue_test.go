package logging

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Callers do not wait for a log that hangs; when it continues, it gets the newest messages
// and the number of dropped ones.
func TestQueueDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		answer := make(chan struct{})
		q := newQueue(func(m message) {
			<-answer
			got = append(got, m.text)
		})
		q.putMessage(message{text: "stuck"})
		synctest.Wait() // until the writer has it
		for i := range maxQueued + 3 {
			q.putMessage(message{text: fmt.Sprint(i)})
		}
		if q.close(time.Second) {
			t.Error("closed in time, although the log hangs")
		}
		close(answer)
		if !q.close(time.Second) {
			t.Error("not closed, although the log continues")
		}
		if len(got) != maxQueued+2 || got[0] != "stuck" || !strings.Contains(got[1], "3 messages were dropped") || got[2] != "3" || got[len(got)-1] != fmt.Sprint(maxQueued+2) {
			t.Errorf("%d messages: %q", len(got), got)
		}
	})
}

func TestAsync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rt.log")
	l := New(Places{Program: "p", Target: path, Async: true})
	for i := range maxQueued {
		l.Info(fmt.Sprint("message ", i))
	}
	if !l.Close(time.Minute) {
		t.Fatal("not closed")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxQueued {
		if !strings.Contains(string(text), fmt.Sprintf("info: message %d\n", i)) {
			t.Errorf("message %d is missing", i)
		}
	}
	if !New(Places{}).Close(0) {
		t.Error("a logger without a queue waits in Close")
	}
}
