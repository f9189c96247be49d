// Package cli is what the command lines of the programs share. It has the layout of the help,
// errors with their exit statuses, JSON output and the check for a terminal.
package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/printable"
)

// Width is how wide a line of help is at most, in characters.
const Width = 80

// Fold breaks text into lines of at most Width characters, from column first on, then next.
func Fold(text string, first, next int) string {
	var out strings.Builder
	at := first
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+width > Width:
			out.WriteString("\n" + strings.Repeat(" ", next))
			at = next
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}

// The exit statuses that all programs share. Each program has the others.
const (
	ExitOK    = 0
	ExitError = 1 // the message says what went wrong
	ExitUsage = 2 // the command line, or a variable, is wrong
)

// ErrUsage marks an error of the command line.
var ErrUsage = errors.New("wrong command line")

// Usage returns an error of the command line.
func Usage(format string, args ...any) error {
	return errkind.With(ErrUsage, fmt.Errorf(format, args...))
}

// PrintJSON writes v as one indented JSON document.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Message writes a message of a program, with printable.Lines.
func Message(w io.Writer, program, format string, args ...any) {
	fmt.Fprintf(w, "%s: %s\n", program, printable.Lines(fmt.Sprintf(format, args...)))
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Buffered calls write with a buffered writer on w.
func Buffered(w io.Writer, write func(io.Writer) error) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	err := write(bw)
	flushErr := bw.Flush()
	if errors.Is(err, flushErr) { // Flush repeats the error of an earlier Write
		return err
	}
	return errors.Join(err, flushErr)
}

// WriteFile replaces a file completely or not at all, and writes to a terminal or pipe directly.
// A new file has the mode of the umask; a file of this user that is replaced keeps its mode. It
// refuses to replace a spool file, which a shell's pattern can put in the place of the name.
func WriteFile(name string, write func(io.Writer) error) error {
	if isDatabase(name) {
		return fmt.Errorf("write %s: it is a spool file or another SQLite database, and is not replaced; give the name of another file", name)
	}
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		if st.IsDir() {
			return fmt.Errorf("write %s: it is a directory", name)
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		return errors.Join(Buffered(f, write), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".rt-spool-*")
	if err != nil {
		return fmt.Errorf("write %s: create a file in %s: %w", name, filepath.Dir(name), withoutName(err))
	}
	err = Buffered(f, write)
	if err == nil {
		err = errors.Join(f.Chmod(modeFor(name)), f.Sync())
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = withoutName(os.Rename(f.Name(), name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// isDatabase reports whether a regular file begins as each SQLite database does
// (https://www.sqlite.org/fileformat.html#magic_header_string).
func isDatabase(name string) bool {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// modeFor returns the mode of a new file, or of the file that replaces name. A file of another user
// never adds permissions: in /tmp a user could place one before root writes there.
func modeFor(name string) fs.FileMode {
	mode := 0o666 &^ umask()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return mode
	}
	was := fs.FileMode(st.Mode) & fs.ModePerm
	if st.Uid == uint32(os.Geteuid()) {
		return was
	}
	return mode & was
}

// umask returns the umask of the process. Reading the umask means setting it. In between it is one
// that gives other users no access.
func umask() fs.FileMode {
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return fs.FileMode(mask) & fs.ModePerm
}

// withoutName removes the name of a temporary file from an error.
func withoutName(err error) error {
	var of *fs.PathError
	var from *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Err
	case errors.As(err, &from):
		return from.Err
	}
	return err
}

// TerminalWidth is 0 if w is no terminal, and 80 if the terminal does not report its size.
func TerminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// OwnSpool is the directory of the user's own runs, which resource-tracker writes; empty without a home.
func OwnSpool() string {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "rt")
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local/state/rt")
	}
	return ""
}
