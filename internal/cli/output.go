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

	"golang.org/x/sys/unix"
)

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
	return errors.Join(write(bw), bw.Flush())
}

// WriteFile replaces the file name by what write writes, completely or not at all. A
// name that is no regular file, such as a terminal or a pipe, is written to directly.
func WriteFile(name string, write func(io.Writer) error) error {
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
	err = errors.Join(Buffered(f, write), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = withoutName(os.Rename(f.Name(), name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
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

// TerminalWidth returns how many characters fit into a line of w: 0 if w is no terminal,
// and 80 if the terminal does not report its size.
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
