package streaming

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/resource-tracker/rt/internal/recovery"
)

// Tracker is the connection of rt-spool with resource-tracker.
type Tracker struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out io.Writer
}

// NewTracker reads commands from in and writes messages to out.
func NewTracker(in io.Reader, out io.Writer) *Tracker {
	return &Tracker{in: bufio.NewReader(in), out: out}
}

// Order reads the order: which run to send, and how. It refuses an order with an unknown field,
// because resource-tracker is then of another release.
func (t *Tracker) Order() (Order, error) {
	var o Order
	line, err := t.in.ReadBytes('\n')
	if err != nil {
		return o, fmt.Errorf("read the order on standard input: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		return o, fmt.Errorf("the order on standard input: %w", err)
	}
	if o.Path == "" || o.Every <= 0 {
		return o, errors.New("the order on standard input: it has no path or no interval")
	}
	return o, nil
}

// Warn sends a warning, which resource-tracker prints.
func (t *Tracker) Warn(err error) { t.sendMessage(message{Warning: err.Error()}) }

func (t *Tracker) sendMessage(m message) {
	text, err := json.Marshal(m)
	if err != nil {
		return // a struct of texts can always be encoded
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.out.Write(append(text, '\n')) // it fails if the tracker has died, which Serve notices
}

// Sender sends one run.
type Sender interface {
	Leave()                           // stops the uploads; Finish continues them
	Finish(ctx context.Context) error // delivers the rest of the run, which has ended
}

// Serve executes the commands of resource-tracker until Finish has returned or resource-tracker has
// died. Then the process must exit: Serve does not wait for a Finish that still runs.
func (t *Tracker) Serve(s Sender) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	commands := make(chan string)
	go t.readCommands(commands)
	finished := make(chan error, 1)
	for {
		select {
		case line, ok := <-commands:
			if !ok {
				return
			}
			switch word, cause, _ := strings.Cut(line, " "); word {
			case cmdLeave:
				s.Leave()
				t.sendMessage(message{Left: true})
			case cmdFinish:
				go func() {
					defer recovery.Handle(func(err error) { finished <- err })
					finished <- s.Finish(ctx)
				}()
			case cmdStop:
				cancel(errors.New(cause))
			}
		case err := <-finished:
			if err != nil {
				t.sendMessage(message{Kept: err.Error()})
			} else {
				t.sendMessage(message{Settled: true})
			}
			return
		}
	}
}

// readCommands sends the lines of the input until its end, and closes the channel.
func (t *Tracker) readCommands(commands chan<- string) {
	defer close(commands)
	defer recovery.Handle(t.Warn)
	for {
		line, err := t.in.ReadString('\n')
		if err != nil {
			return
		}
		commands <- strings.TrimSuffix(line, "\n")
	}
}
