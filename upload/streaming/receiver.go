package streaming

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt"
)

// The variables of the environment that name a receiver.
const (
	EnvToken    = "SENTINEL_API_TOKEN"
	EnvEndpoint = "SENTINEL_API_URL"
)

// PrivatePrefix begins the names of the private spool directories of streams.
const PrivatePrefix = "resource-tracker-"

// IsPrivate reports whether only our user can write into a directory.
func IsPrivate(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&^os.ModeSetgid != os.ModeDir|0o700 { // a directory may inherit its parent's group
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// DrainCommand returns the shell command that sends the runs in dir to a receiver. The token is in the
// environment. endpoint is the value of EnvEndpoint.
func DrainCommand(endpoint, dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	endpoint = strings.TrimRight(cmp.Or(endpoint, rt.DefaultEndpoint), "/")
	return EnvEndpoint + "=" + ShellWord(endpoint) + " " + Program + " --spool " + ShellWord(dir) + " drain"
}

// ShellWord quotes text, where necessary, as one word of a shell's command line.
func ShellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
