package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// Options of a Writer. The zero value is the default of a tracker.
type Options struct {
	// A commit follows after CommitRows snapshots (0: 10) or when the oldest pending one
	// is older than CommitInterval (0: 10 s), whichever is first.
	CommitRows     int
	CommitInterval time.Duration
	// MaxPending bounds the snapshots in memory while they cannot be written (0: 256).
	// At the bound the older ones are thinned.
	MaxPending int
	// QuotaRun bounds the file and QuotaNode all files of the directory, in bytes (0: no bound).
	// Near a bound old snapshots are thinned, which the ledger records; totals and the snapshots of
	// sealed batches stay. If QuotaNode is set, the files take at most three quarters of their file
	// system. Space is kept free for thinning: an eighth of the file system, at most 16 MiB, or 4
	// MiB if nothing can be thinned.
	QuotaRun, QuotaNode int64
	// Access lists other users that may read the file.
	Access Access
	// Notify gets an event when writing starts to fail and when it succeeds again, in addition to
	// the ledger. It gets at most one such pair per minute, because on a nearly full disk they
	// alternate quickly. It is called from Create, Put, Event, Flush, UpdateRun, End or Close and
	// must not call the Writer. May be nil.
	Notify func(rt.Event)

	maxBytes, importBytes int64 // what is left of ImportLimits.Bytes, and its total
}

func (o Options) withDefaults() Options {
	if o.CommitRows <= 0 {
		o.CommitRows = 10
	}
	if o.CommitInterval <= 0 {
		o.CommitInterval = 10 * time.Second
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 256
	}
	o.MaxPending = max(o.MaxPending, 4)
	if o.Notify == nil {
		o.Notify = func(rt.Event) {}
	}
	return o
}

// Create makes the file of a run, <dir>/<run.FileStem()>.db with mode 0600, and takes the
// lock by which other processes see that its tracker is alive. The directory must exist on a
// local file system (else ErrNetworkFS). If the run already has a file or a lock, the error
// is ErrExists. Times are stored in microseconds.
func Create(dir string, run rt.Run, host rt.Host, opts Options) (*Writer, error) {
	if err := CheckDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, run.FileStem()+dbSuffix)
	w, err := create(path, run, host, opts.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("create the spool file %s: %w", path, err)
	}
	return w, nil
}

func create(path string, run rt.Run, host rt.Host, opts Options) (*Writer, error) {
	lock, err := lockRun(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, lock: lock, opts: opts, run: run}
	if err := makeFile(path, run, host); err != nil {
		return nil, errors.Join(err, lock.release(true))
	}
	if err := w.open(); err != nil {
		return nil, errors.Join(err, removeFiles(path), lock.release(true))
	}
	w.grant() // not before: SQLite gives a new log the mode of the database, see DESIGN.md
	return w, nil
}

// makeFile writes a complete database under another name, syncs it and then links it to its name.
// So a file that ends in .db always has its tables and a run.
func makeFile(path string, run rt.Run, host rt.Host) (err error) {
	temp := strings.TrimSuffix(path, dbSuffix) + newSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := os.Remove(temp); e != nil {
			err = errors.Join(err, e)
		}
	}()
	_, err = f.WriteString(emptyDB)
	if err == nil {
		err = fillFile(temp, run, host)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	err = os.Link(temp, path) // in contrast to rename it never replaces a file
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// fillFile brings a copy of emptyDB to the newest version, and writes run and host. It needs no
// journal and no sync, because no process reads the file if this one crashes.
func fillFile(path string, run rt.Run, host rt.Host) error {
	c, err := openConn(path, url.Values{"mode": {"rw"}, "_journal_mode": {"OFF"}, "_synchronous": {"OFF"}})
	if err != nil {
		return err
	}
	id := column{"id", new(1)}
	if newest() > firstVersion {
		err = migrate(c, firstVersion)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	err = c.inTx(func() error {
		if err := c.insert("run", append(columnsOf(&run), id)); err != nil {
			return err
		}
		return c.insert("host", append(columnsOf(&host), id))
	})
	if err == nil {
		err = c.exec("PRAGMA journal_mode = WAL")
	}
	return errors.Join(err, c.Close())
}

// open opens the new file for writing. A commit is not synced, and survives the death of the
// process at once. It survives a power failure after the next checkpoint, or after logSync, which
// calls fdatasync on the log once a minute. The first commit does not wait for a sync of the new
// log's header and directory either (OFF), because a job waits for it.
func (w *Writer) open() error {
	c, err := openConn(w.path, url.Values{
		"mode": {"rw"}, "_journal_mode": {"WAL"}, "_synchronous": {"OFF"},
		"_busy_timeout": {"100"},  // ms: a snapshot can wait for the next commit
		"_cache_size":   {"-128"}, // KiB: a larger one fills with rows of the last hours, which are not read again
	})
	if err != nil {
		return err
	}
	dir := filepath.Dir(w.path)
	err = errors.Join(c.exec(pragma("wal_autocheckpoint", logPages(dir, w.opts.QuotaNode))), w.out.prepare(c), c.keepLog(true))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	w.db = c
	w.quota = quota{db: c, dir: dir, clock: &w.clock, run: w.opts.QuotaRun, node: w.opts.QuotaNode}
	return nil
}

// networkFS lists the file systems, by f_type of statfs(2), on which SQLite's WAL and flock
// do not work between machines. FUSE is not in the list: it can be local.
var networkFS = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x5346414f: "AFS",
	0x73757245: "Coda",
	0x00c36400: "Ceph",
	0x01021997: "9P",
	0x20030528: "OrangeFS",
	0xaad7aaea: "PanFS",
	0x013111a8: "IBRIX",
}

// CheckDir returns ErrNetworkFS if runs cannot be stored in dir.
func CheckDir(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("spool directory %s: statfs: %w", dir, err)
	}
	return refuseNetworkFS(dir, uint32(st.Type))
}

func refuseNetworkFS(dir string, magic uint32) error {
	if name, network := networkFS[magic]; network {
		return fmt.Errorf("spool directory %s: %w: it is on %s, where SQLite's log is not safe; set [spool] dir to a directory on the node's own disk",
			dir, ErrNetworkFS, name)
	}
	return nil
}
