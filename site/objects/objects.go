// Package objects stores the large objects of a site service under names: in a directory (Dir) or
// in an S3-compatible object store (S3). Both behave alike.
package objects

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxSegment and maxName limit a name: a file name has at most 255 bytes, a key of S3 1024.
const (
	maxSegment = 200
	maxName    = 512
)

// checkName returns why a name is not accepted, or nil. A name has segments, separated by "/". A
// segment has ASCII letters, digits, "-", "_", "." and "=", and does not begin with ".".
func checkName(name string) error {
	for segment := range strings.SplitSeq(name, "/") {
		if problem := checkSegment(segment); problem != "" {
			return fmt.Errorf("%q is not a name of an object: %s", name, problem)
		}
	}
	if len(name) > maxName {
		return fmt.Errorf("the name of an object has %d bytes, more than %d", len(name), maxName)
	}
	return nil
}

func checkSegment(segment string) string {
	switch {
	case segment == "":
		return "a part of it is empty"
	case segment[0] == '.':
		return "a part of it begins with \".\""
	case len(segment) > maxSegment:
		return fmt.Sprintf("a part of it has more than %d bytes", maxSegment)
	case strings.Trim(segment, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=") != "":
		return "it has a character other than a letter, a digit, \"-\", \"_\", \".\" and \"=\""
	}
	return ""
}

// checkPrefix is checkName for the beginning of a name.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if whole, isWhole := strings.CutSuffix(prefix, "/"); isWhole {
		return checkName(whole)
	}
	return checkName(prefix)
}

// exact reads a body that must have a certain size. If a body has more, an error replaces its last
// bytes, so that no part of the body is stored as an object.
type exact struct {
	body       io.Reader
	size, left int64
}

// exactly returns the reader of a body.
func exactly(body io.Reader, size int64) (*exact, error) {
	if size < 0 {
		return nil, fmt.Errorf("the size of an object is %d", size)
	}
	e := &exact{body: body, size: size, left: size}
	if size == 0 {
		return e, e.probe()
	}
	return e, nil
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.body.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if e.left == 0 {
		err = e.probe()
		if err != nil {
			return 0, err
		}
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the body of the object has %d bytes, not %d: %w", e.size-e.left, e.size, io.ErrUnexpectedEOF)
	}
	return n, err
}

// probe returns an error if the body goes on.
func (e *exact) probe() error {
	var one [1]byte
	_, err := io.ReadFull(e.body, one[:])
	switch {
	case err == nil:
		return fmt.Errorf("the body of the object has more than %d bytes", e.size)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}
