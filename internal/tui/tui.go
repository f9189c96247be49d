// Package tui is what the full screens of rt-spool share: the program on the terminal,
// the keys and their help, the prompt and the cursor of a list.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Run shows m on the whole terminal until the user quits.
func Run(ctx context.Context, m tea.Model, in io.Reader, out *os.File) error {
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	switch {
	case err == nil, errors.Is(err, tea.ErrInterrupted):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("draw on the terminal: %w", err)
}

// Screen returns a view of the whole terminal.
func Screen(text string) tea.View {
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}

// Width is how many columns of a terminal a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Clip cuts a text after n columns.
func Clip(s string, n int) string { return ansi.Truncate(s, max(n, 0), "") }
