package drain

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/resource-tracker/rt/internal/file"
)

// Limits of a key, in bytes.
const (
	minKey = 16
	maxKey = 4096
)

// ReadKey reads the key of the pseudonyms from a file that only its owner and its group can read.
// Blanks and line ends around the key are not part of it.
func ReadKey(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New("privacy.key_file is not set: pseudonyms need a key, the same on all nodes")
	}
	text, info, err := file.ReadSmallInfo(name, maxKey)
	if err != nil {
		return nil, fmt.Errorf("privacy.key_file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("privacy.key_file: the mode of %s is %04o, so that other users can read or change it: chmod 0600 it (0640 for a group), and replace the key", name, mode)
	}
	key := bytes.TrimSpace(text)
	if len(key) < minKey {
		return nil, fmt.Errorf("privacy.key_file: the key in %s has %d bytes, at least %d are needed: write the output of openssl rand -base64 32 into it", name, len(key), minKey)
	}
	return key, nil
}
