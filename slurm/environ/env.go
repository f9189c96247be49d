package environ

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Env is an environment: values by name. The first of two entries with one name counts,
// as in getenv(3).
type Env map[string]string

// NewEnv parses an environment in the form of os.Environ: NAME=value.
func NewEnv(environ []string) Env {
	env := make(Env, len(environ))
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := env[name]; ok && !twice {
			env[name] = value
		}
	}
	return env
}

// MaxProcess limits, in bytes, how much is read of an environment, which the user writes.
const MaxProcess = 256 << 10

// ReadProcess returns the environment of a process for Parse: at most MaxProcess bytes
// of <procRoot>/<pid>/environ. It is empty until the process has executed its program.
// The result uses buf if buf is large enough.
func ReadProcess(procRoot string, pid int, buf []byte) ([]byte, error) {
	f, err := os.Open(filepath.Join(procRoot, strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := bytes.NewBuffer(buf[:0])
	_, err = text.ReadFrom(io.LimitReader(f, MaxProcess))
	return text.Bytes(), err
}

// Parse parses an environment in the form of /proc/<pid>/environ: each NAME=value ends
// with a zero byte. A last variable that the limit of ReadProcess has cut is ignored.
func Parse(text []byte) Env {
	if len(text) >= MaxProcess {
		text = text[:max(bytes.LastIndexByte(text[:MaxProcess], 0), 0)]
	}
	return NewEnv(strings.Split(string(text), "\x00"))
}

// Text returns the first of the named variables that has a printable value. A value that
// is too long, is not UTF-8 or has control characters counts as unset, because users
// choose some of the values, and logs and databases show them. So does "(null)", which
// Slurm writes where it has no value.
func (e Env) Text(names ...string) string {
	for _, name := range names {
		if v := e[name]; v != "(null)" && slurm.Printable(v, slurm.MaxValue) {
			return v
		}
	}
	return ""
}

// Number returns the first of the named variables that has a decimal number. Slurm's marks
// for "no value" (2^32-2, 2^32-1, 2^64-2, 2^64-1) count as unset.
func (e Env) Number(names ...string) rt.Opt[uint64] {
	for _, name := range names {
		n, err := strconv.ParseUint(e[name], 10, 64)
		if err != nil || n == 1<<32-2 || n == 1<<32-1 || n >= 1<<64-2 {
			continue
		}
		return rt.Some(n)
	}
	return rt.None[uint64]()
}

// Time returns a variable in seconds since the epoch as a time, zero if it is unset or 0.
func (e Env) Time(name string) time.Time {
	n, ok := e.Number(name).Get()
	if !ok || n == 0 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}
