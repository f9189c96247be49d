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

// Env is an environment. Where a name is there twice the first counts, as for getenv.
type Env map[string]string

// NewEnv reads an environment in the form of os.Environ: NAME=value.
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

// MaxProcess limits how much of a process's environment is read, in bytes: its user
// writes it.
const MaxProcess = 256 << 10

// ReadProcess returns the environment of a process for Parse: at most MaxProcess bytes
// of <procRoot>/<pid>/environ. It is empty until the process has executed its program.
// The result is in buf where that is large enough.
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

// Parse reads an environment in the form of /proc/<pid>/environ: each NAME=value ends
// with a zero byte. Where the limit of ReadProcess cut it, its last variable is ignored.
func Parse(text []byte) Env {
	if len(text) >= MaxProcess {
		text = text[:max(bytes.LastIndexByte(text[:MaxProcess], 0), 0)]
	}
	return NewEnv(strings.Split(string(text), "\x00"))
}

// Text returns the first of the named variables that holds something printable.
// A value that is too long, no UTF-8 or has control characters counts as unset,
// because users choose some of them and logs and databases show them; so does
// "(null)", which is what Slurm prints where it has nothing.
func (e Env) Text(names ...string) string {
	for _, name := range names {
		if v := e[name]; v != "(null)" && slurm.Printable(v, slurm.MaxValue) {
			return v
		}
	}
	return ""
}

// Number returns the first of the named variables that holds a decimal number.
// Slurm's "no value" marks (2^32-2 and 2^32-1, and the same of 64 bits) count as unset.
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

// Time returns the named variable as an instant, given in seconds since the
// epoch; zero where it is not set or zero.
func (e Env) Time(name string) time.Time {
	n, ok := e.Number(name).Get()
	if !ok || n == 0 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}
