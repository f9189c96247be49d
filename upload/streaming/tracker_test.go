package streaming

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestOrder(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"path":"a.db","every_ns":1000000000,"scope":"node"}` + "\n": true,
		"":                             false,
		`{"path":"a.db","every_ns":1}`: false, // a line that is cut off
		"ls\n":                         false,
		`{"every_ns":1}` + "\n":        false,
		`{"path":"a.db"}` + "\n":       false,
		`{"path":"a.db","every_ns":1,"of_a_later_release":true}` + "\n": false,
	} {
		o, err := NewTracker(strings.NewReader(text), io.Discard).Order()
		isOrder := o.Path == "a.db" && o.Every == time.Second
		isWrong := ok && !isOrder
		if (err == nil) != ok || isWrong {
			t.Errorf("%q: %+v, %v", text, o, err)
		}
	}
}

// sender waits in Finish until its context is done, or returns at once.
type sender struct {
	left  int
	waits bool
	err   error
}

func (s *sender) Leave() { s.left++ }

func (s *sender) Finish(ctx context.Context) error {
	if s.waits {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if s.err == nil && s.left == 0 {
		panic("a hole in the map")
	}
	return s.err
}

func TestServe(t *testing.T) {
	for name, c := range map[string]struct {
		sender sender
		in     string
		eof    bool
		out    string
	}{
		"delivered":         {sender{}, "leave\nfinish\n", false, `{"left":true}` + "\n" + `{"settled":true}`},
		"not delivered":     {sender{err: errors.New("no\nnetwork")}, "finish\n", false, `{"kept":"no\nnetwork"}`},
		"stopped":           {sender{waits: true}, "leave\nfinish\nstop eight seconds are over\n", false, `{"left":true}` + "\n" + `{"kept":"eight seconds are over"}`},
		"panics":            {sender{}, "finish\n", false, `{"kept":"internal error, please report it: a hole in the map`},
		"the tracker dies":  {sender{waits: true}, "leave\n", true, `{"left":true}`},
		"it dies at finish": {sender{waits: true}, "leave\nfinish\n", true, `{"left":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			in, commands := io.Pipe()
			go func() {
				_, _ = io.WriteString(commands, c.in)
				if c.eof {
					commands.Close()
				}
			}()
			var out bytes.Buffer
			NewTracker(in, &out).Serve(&c.sender)
			got := strings.TrimSpace(out.String())
			hasMore := c.eof && got != c.out
			if !strings.HasPrefix(got, c.out) || hasMore {
				t.Errorf("%s, want %s", got, c.out)
			}
			if want := strings.Count(c.in, "leave"); c.sender.left != want {
				t.Errorf("Leave was called %d times, want %d", c.sender.left, want)
			}
		})
	}
}
