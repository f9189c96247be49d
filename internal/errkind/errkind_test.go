package errkind

import (
	"errors"
	"io/fs"
	"testing"
)

func TestAnErrorHasTheKindAndTheTextOfItsCause(t *testing.T) {
	err := With(fs.ErrExist, fs.ErrClosed)
	if err.Error() != fs.ErrClosed.Error() || !errors.Is(err, fs.ErrExist) || !errors.Is(err, fs.ErrClosed) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("With returns %v", err)
	}
}
