package cli

import (
	"errors"
	"io/fs"
	"testing"
)

func TestErrorsHaveTheirKindAndTheirCause(t *testing.T) {
	err := Usage("--run: %w", fs.ErrNotExist)
	if err.Error() != "--run: file does not exist" || !errors.Is(err, ErrUsage) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Usage returns %v", err)
	}
}
