package file

import (
	"errors"
	"io/fs"
	"os"
)

// Replace replaces the file at path atomically by temp, with a text and a mode. temp is a new file in the same
// directory. It is closed, and removed after an error. There is no sync.
func Replace(temp *os.File, path string, text []byte, mode fs.FileMode) error {
	_, err := temp.Write(text)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
