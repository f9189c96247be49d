package streaming

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/internal/recovery"
)

// Process is rt-spool, which sends a run while this program records it. Only Finish waits for the network.
type Process struct {
	order    Order
	endpoint string   // the value of EnvEndpoint
	lock     *os.File // of the run
	warn     func(error)
	patience time.Duration // how long a process that hangs may take to stop
	commands *os.File      // nil if there is no pipe
	kill     context.CancelFunc
	left     chan struct{} // gets a value when the process confirms Leave
	ended    chan struct{} // closed after the last message of the process, when it has exited
	settled  sync.Once     // the run is sent, or a warning says that it is kept
}

var errEarly = errors.New("it exited before the run was sent")

// leaveTimeout is how long Leave may wait for a process that is just starting or hangs.
const leaveTimeout = time.Second

// killTimeout is the patience with a process that hangs.
const killTimeout = time.Second

// Start starts rt-spool in the background. The process inherits lock, the lock of the run. So no
// drain takes the run before Leave, even if this program dies first. Start closes lock in this
// program. warn gets the warnings of the process, and one if the process cannot start or exits too
// early. start calls exec.Cmd.Start.
func Start(o Order, endpoint string, lock *os.File, start func(*exec.Cmd) error, warn func(error)) *Process {
	ctx, kill := context.WithCancel(context.Background())
	p := &Process{order: o, endpoint: endpoint, lock: lock, warn: warn, patience: killTimeout, kill: kill, left: make(chan struct{}, 1), ended: make(chan struct{})}
	text, err := json.Marshal(o)
	in, commands, pipeErr := os.Pipe()
	p.commands = commands
	p.sendCommand(string(text))
	err = errors.Join(err, pipeErr)
	go func() {
		defer close(p.ended)
		defer lock.Close()
		defer recovery.Handle(p.warnKept)
		if err == nil {
			err = p.run(ctx, in, start)
		}
		if err != nil {
			p.warnKept(err)
		}
	}()
	return p
}

// run starts the process, and returns when it has exited. It returns an error if the process has not
// settled the run.
func (p *Process) run(ctx context.Context, in *os.File, start func(*exec.Cmd) error) error {
	defer in.Close()
	path, err := find()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, Verb)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal from the terminal ends our command first
	cmd.WaitDelay = killTimeout
	var stderr head
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = in, &stderr, []*os.File{p.lock}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = start(cmd)
	}
	if err != nil {
		return fmt.Errorf("start %s, which sends it: %w", path, err)
	}
	_ = in.Close() // from here on a write fails if the process has died
	_ = p.lock.Close()
	settled, err := p.readMessages(out)
	if err != nil {
		p.kill()
	}
	exit := cmd.Wait()
	if settled {
		return nil
	}
	err = cmp.Or(err, exit, errEarly)
	if text := strings.TrimSpace(string(stderr)); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return fmt.Errorf("%s, which sends it: %w", path, err)
}

// readMessages handles the messages of the process until its last one or until it dies.
func (p *Process) readMessages(from io.Reader) (settled bool, err error) {
	decoder := json.NewDecoder(from)
	for {
		var m message
		err := decoder.Decode(&m)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("its output is not that of %s %s: %w", Program, Verb, err)
		case m.Warning != "":
			p.warn(errors.New(m.Warning))
		case m.Left:
			select {
			case p.left <- struct{}{}:
			default: // Leave no longer waits
			}
		case m.Kept != "":
			p.warnKept(errors.New(m.Kept))
			return true, nil
		case m.Settled:
			p.settled.Do(func() {})
			return true, nil
		}
	}
}

// warnKept warns that the run is not sent and how to send it, once.
func (p *Process) warnKept(cause error) {
	p.settled.Do(func() {
		p.warn(fmt.Errorf("the run is not delivered: %w; it is kept, and this sends it later: %s", cause, DrainCommand(p.endpoint, filepath.Dir(p.order.Path))))
	})
}

// sendCommand writes a line for the process. It does not wait: all lines together fit into the pipe.
func (p *Process) sendCommand(line string) {
	_, _ = p.commands.WriteString(line + "\n") // run reports a process that has died
}

// Leave ends the uploads before the run ends. The process locks the spool, where no other process has the
// lock, so that no drain takes the run before Finish. Leave waits for this, because the run ends without
// the lock of the run: at most leaveTimeout.
func (p *Process) Leave() {
	p.sendCommand(cmdLeave)
	select {
	case <-p.left:
	case <-p.ended:
	case <-time.After(leaveTimeout):
	}
}

// Finish delivers the rest of the ended run until ctx is done, or warns how to send it later.
func (p *Process) Finish(ctx context.Context) {
	p.sendCommand(cmdFinish)
	select {
	case <-p.ended:
		return
	case <-ctx.Done():
	}
	p.sendCommand(cmdStop + " " + context.Cause(ctx).Error())
	select {
	case <-p.ended:
	case <-time.After(p.patience): // a disk that hangs
		p.Abandon(context.Cause(ctx))
	}
}

// Abandon sends nothing more, and warns how to send the run later.
func (p *Process) Abandon(cause error) {
	p.warnKept(cause)
	p.Kill()
}

// Kill ends the process without a message. What it has not sent stays in the spool.
func (p *Process) Kill() {
	p.settled.Do(func() {})
	p.kill()
	select {
	case <-p.ended:
	case <-time.After(p.patience):
	}
}

// find returns the path of rt-spool: next to this program, or else in PATH.
func find() (string, error) {
	place := "next to this program"
	if own, err := os.Executable(); err == nil {
		place = "in " + filepath.Dir(own)
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(own), Program)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("%s, which sends it, is neither %s nor in PATH: install it there, it is in the same package and archive as resource-tracker", Program, place)
	}
	return path, nil
}

// head keeps the beginning of a text.
type head []byte

// maxHead is its longest text, in bytes.
const maxHead = 1 << 10

// Write implements io.Writer.
func (h *head) Write(text []byte) (int, error) {
	*h = append(*h, text[:min(len(text), maxHead-len(*h))]...)
	return len(text), nil
}
