package hostfacts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/internal/durable"
)

// Cache is the file that `rt-spool host` writes, so that trackers query no service.
type Cache struct {
	BootID      string    `json:"boot_id"`      // of the boot in which it was written
	CollectedAt time.Time `json:"collected_at"` // when the facts were read
	Suppressed  []string  `json:"suppressed"`   // fields that its writer's environment suppressed
	Host        rt.Host   `json:"host"`
}

const (
	maxAge   = 30 * 24 * time.Hour // of a cache from another boot
	maxCache = 64 << 10            // bytes of the file
	maxText  = 256                 // bytes of a field
)

// Save replaces the cache atomically and durably: a reader finds the old file or the new
// one, also after a power failure. All users may read it.
func Save(path string, c Cache) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = replace(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the host's facts for the trackers (tracker.host_cache names the file): %w", err)
	}
	return nil
}

func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.SyncDir(filepath.Dir(path))
}

// Load reads the cache. A missing file is fs.ErrNotExist.
func Load(path string) (Cache, error) {
	f, err := os.Open(path)
	if err != nil {
		return Cache{}, fmt.Errorf("read the host's facts: %w", err)
	}
	defer f.Close() // opened for reading: nothing can be lost
	text, err := io.ReadAll(io.LimitReader(f, maxCache+1))
	if err != nil {
		return Cache{}, fmt.Errorf("read the host's facts: %w", err)
	}
	c, err := parse(text)
	if err != nil {
		return Cache{}, fmt.Errorf("%s is not what `rt-spool host` writes: %w; run it again", path, err)
	}
	return c, nil
}

func parse(text []byte) (Cache, error) {
	if len(text) > maxCache {
		return Cache{}, fmt.Errorf("it is longer than %d bytes", maxCache)
	}
	var c Cache
	if err := json.Unmarshal(text, &c); err != nil {
		return Cache{}, err
	}
	if c.CollectedAt.IsZero() {
		return Cache{}, errors.New("collected_at is missing")
	}
	for _, f := range fields(&c.Host) {
		if s, ok := f.value.Interface().(string); ok && !printable(s) {
			return Cache{}, fmt.Errorf("%s is not a text of at most %d bytes", f.name, maxText)
		}
	}
	return c, nil
}

func printable(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// errStale means that a cache is of another machine or too old.
var errStale = errors.New("the host's facts are out of date; run `rt-spool host` at boot")

// check returns an error if the cache is of another machine or too old. One of another boot
// may come from a disk image, so its host_id must be that of this machine.
func (c *Cache) check(bootID, hostID string, now time.Time) error {
	if c.BootID != "" && c.BootID == bootID {
		return nil
	}
	if c.Host.HostID == "" || c.Host.HostID != hostID {
		return fmt.Errorf("%w: they are those of another machine", errStale)
	}
	if age := now.Sub(c.CollectedAt); age > maxAge || age < -time.Hour {
		return fmt.Errorf("%w: they were read at %s", errStale, c.CollectedAt.Format(time.RFC3339))
	}
	return nil
}

// Known returns the host's facts without a query: those of the cache with the present name
// and address. If there is no valid cache it returns those of the machine's files and the
// error of the cache. An empty path means no cache and is no error.
func Known(path string, roots host.Roots, env Lookup, now time.Time) (rt.Host, error) {
	if path == "" {
		return Local(roots, env), nil
	}
	c, err := Load(path)
	if err == nil {
		bootID, _ := host.BootID(roots.Proc) // unknown matches no cache
		err = c.check(bootID, roots.ID(), now)
	}
	if err != nil {
		return Local(roots, env), err
	}
	h := c.Host
	h.HostName, h.HostIP = roots.Name(), roots.IP()
	return Drop(Drop(h, c.Suppressed), Suppressed(env)), nil
}
