package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload/drain"
)

// spoolChecks check the spool and what trackers and drains need.
type spoolChecks struct{ *Doctor }

func (d spoolChecks) run() {
	user, err := d.user()
	switch {
	case err != nil:
		d.add(unknown("rt.user", err))
	case user.uid == "":
		user := d.Config.Spool.User
		d.add(fail("rt.user", fmt.Sprintf("spool.user %q is not in /etc/passwd", user), "the hooks start no tracker",
			"useradd --system --user-group --no-create-home --home-dir /var/spool/rt --shell /usr/sbin/nologin "+user))
	default:
		d.add(ok("rt.user", "%s has the user id %s", d.Config.Spool.User, user.uid))
	}
	d.add(d.checkLog())
	d.add(d.checkHostCache())
	if d.checkSpoolDir(user) {
		d.checkSpace()
		d.checkRuns()
		d.add(d.checkDrains())
	}
}

// checkHostCache checks the facts of the machine, which rt-spool host writes.
func (d spoolChecks) checkHostCache() Check {
	const name = "rt.host_cache"
	file := d.Config.Tracker.HostCache
	if file == "" {
		return ok(name, "tracker.host_cache is empty: each tracker reads the facts of the machine itself")
	}
	if d.exists(file) {
		if problem, fix := d.unsafe(file); problem != "" {
			return warn(name, problem, "another user can change the facts of the machine in the records of jobs", fix)
		}
		return ok(name, "%s", file)
	}
	return warn(name, file+" does not exist", "each tracker reads the facts of the machine itself; those of the cloud are missing in its run", "rt-spool host, at the start of the machine")
}

// checkSpoolDir reports whether the directory of the spool is there.
func (d spoolChecks) checkSpoolDir(a account) bool {
	const name = "spool.dir"
	dir, user := d.Config.Spool.Dir, d.Config.Spool.User
	st, err := os.Stat(d.path(dir))
	create := fmt.Sprintf("install -d -o %s -g %s -m 755 %s", user, user, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.add(fail(name, dir+" does not exist", "trackers cannot record a job", create))
		return false
	case err != nil:
		d.add(unknown(name, err))
		return false
	case !st.IsDir():
		d.add(fail(name, dir+" is not a directory", "trackers cannot record a job", create))
		return false
	}
	before := len(d.checks)
	owner := strconv.FormatUint(uint64(ownerOf(st)), 10)
	if a.uid != "" && owner != a.uid {
		d.add(fail(name, fmt.Sprintf("%s belongs to the user id %s, not to %s (%s)", dir, owner, user, a.uid), "trackers cannot record a job", fmt.Sprintf("chown %s: %s", user, dir)))
	}
	if st.Mode().Perm()&0o022 != 0 {
		d.add(fail(name, fmt.Sprintf("%s can be written by other users (mode %04o)", dir, st.Mode().Perm()), "another user can replace the records of jobs", "chmod go-w "+dir))
	}
	if st.Mode().Perm()&0o700 != 0o700 {
		d.add(fail(name, fmt.Sprintf("%s cannot be written by its owner (mode %04o)", dir, st.Mode().Perm()), "trackers cannot record a job", "chmod u+rwx "+dir))
	}
	if closed := d.closedTo(a, dir); a.uid != "" && closed != "" {
		d.add(fail(name, fmt.Sprintf("%s may not search %s, which is above %s", user, closed, dir), "trackers cannot record a job", "chmod o+x "+closed))
	}
	d.okUnless(before, name, "%s belongs to %s", dir, user)
	return true
}

// leastFree is the room below which trackers may have to keep rows in memory, in bytes.
const leastFree = 64 << 20

func (d spoolChecks) checkSpace() {
	dir := d.Config.Spool.Dir
	space, err := d.Space(d.path(dir))
	if err != nil {
		d.add(unknown("spool.filesystem", err))
		return
	}
	switch {
	case space.Network:
		d.add(fail("spool.filesystem", dir+" is on a network file system", "trackers record no job: the files are not safe there", "spool.dir in rt.toml: a directory on the node's own disk"))
	case space.ReadOnly:
		d.add(fail("spool.filesystem", "the file system of "+dir+" is mounted read-only", "trackers record no job", "see dmesg for an error of the disk, then mount -o remount,rw"))
	case space.Memory:
		d.add(warn("spool.filesystem", dir+" is in memory", "undelivered runs are lost when the node restarts, and the spool takes memory from jobs", "spool.dir in rt.toml: a directory on a disk"))
	default:
		d.add(ok("spool.filesystem", "a local disk"))
	}
	free := config.Size{Bytes: int64(min(space.Free, 1<<62))}
	quota := d.Config.Spool.QuotaNode
	switch {
	case space.NoFiles:
		d.add(fail("spool.room", "the file system of "+dir+" has no free inode", "trackers cannot create the file of a run", "rt-spool drain, rt-spool gc, or remove files of other programs"))
	case free.Bytes < leastFree:
		d.add(fail("spool.room", fmt.Sprintf("%s are free for %s", mebibytes(free.Bytes), dir), "trackers keep readings in memory and lose them at the end of the job", "rt-spool drain, rt-spool gc, or make room on the file system"))
	case free.Bytes < quota.Bytes:
		d.add(warn("spool.room", fmt.Sprintf("%s are free for %s, less than spool.quota_node (%s)", mebibytes(free.Bytes), dir, quota), "the disk can be full before the quota of the spool limits it", "a smaller spool.quota_node in rt.toml, or make room on the file system"))
	default:
		d.add(ok("spool.room", "%s are free", mebibytes(free.Bytes)))
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// lateDelivery is the age of an ended run that a drain from cron has normally delivered.
const lateDelivery = 24 * time.Hour

// backlog is what waits in the spool.
type backlog struct {
	runs, waiting, damaged, denied int
	intact                         int // of another version, or on a disk that fails
	foreign                        int // of another user than the directory
	bytes                          int64
	oldest, delivered              time.Time // end of the oldest waiting run; last delivery
	problem                        error     // of a file that cannot be read
}

func (d spoolChecks) readBacklog() (b backlog, err error) {
	dir, err := os.Stat(d.path(d.Config.Spool.Dir))
	if err != nil {
		return b, err
	}
	err = spool.WalkReadOnly(d.path(d.Config.Spool.Dir), func(e *spool.Entry) {
		b.runs++
		b.bytes += e.Size
		st, err := os.Lstat(e.Path)
		isForeign := err == nil && ownerOf(st) != ownerOf(dir) && !errors.Is(e.Err, spool.ErrForeign)
		switch {
		case isForeign:
			b.foreign++
		case errors.Is(e.Err, fs.ErrPermission):
			b.denied++
		case spool.IsIntact(e.Err):
			b.intact++
			b.problem = cmp.Or(b.problem, e.Err)
		case e.Err != nil:
			b.damaged++
			b.problem = e.Err
		case e.Run.State == rt.StateDelivered:
			if e.DeliveredAt.After(b.delivered) {
				b.delivered = e.DeliveredAt
			}
		case !e.Live:
			b.waiting++
			end := e.Run.End
			isOlder := b.oldest.IsZero() || end.Before(b.oldest)
			if !end.IsZero() && isOlder {
				b.oldest = end
			}
		}
	})
	return b, err
}

func (d spoolChecks) checkRuns() {
	b, err := d.readBacklog()
	if err == nil && b.denied > 0 {
		err = fmt.Errorf("%w: this user may not read %d of %d files", fs.ErrPermission, b.denied, b.runs)
	}
	if err != nil {
		d.add(unknown("spool.files", err))
		return
	}
	if b.foreign > 0 {
		dir := d.Config.Spool.Dir
		d.add(warn("spool.files", fmt.Sprintf("%d of %d files belong to another user than %s", b.foreign, b.runs, dir), "the drain may not read these runs, and does not deliver them", fmt.Sprintf("chown --reference=%[1]s %[1]s/*.db*", dir)))
	} else if b.damaged > 0 {
		d.add(warn("spool.files", fmt.Sprintf("%d of %d files cannot be read: %v", b.damaged, b.runs, b.problem), "these runs are not delivered: they are damaged", "rt-spool verify"))
	} else if b.intact > 0 {
		d.add(warn("spool.files", fmt.Sprintf("%d of %d files cannot be read: %v", b.intact, b.runs, b.problem), "this version does not deliver these runs", "rt-spool drain of the version that wrote them, or dmesg if the disk fails"))
	} else {
		d.add(ok("spool.files", "%d runs", b.runs))
	}
	quota := d.Config.Spool.QuotaNode
	if quota.Bytes > 0 && b.bytes > quota.Bytes/10*8 {
		d.add(warn("spool.quota", fmt.Sprintf("%s of %s are used", mebibytes(b.bytes), quota), "old readings are thinned; totals are kept", "rt-spool drain, or a larger spool.quota_node in rt.toml"))
	} else {
		d.add(ok("spool.quota", "%s of %s are used", mebibytes(b.bytes), quota))
	}
	last := "the spool has no delivered run"
	if !b.delivered.IsZero() {
		last = "the last delivery was at " + b.delivered.Format(time.RFC3339)
	}
	isLate := !b.oldest.IsZero() && d.Now().Sub(b.oldest) > lateDelivery && d.Config.Sentinel.Endpoint != ""
	if isLate {
		d.add(warn("spool.backlog", fmt.Sprintf("%d runs wait for delivery, the oldest since %s; %s", b.waiting, b.oldest.Format(time.RFC3339), last), "rt-spool drain does not run, or fails", "rt-spool drain; see contrib/cron and contrib/systemd"))
		return
	}
	d.add(ok("spool.backlog", "%d runs wait for delivery; %s", b.waiting, last))
}

// checkDrains checks that a drain runs from time to time and delivers.
func (d spoolChecks) checkDrains() Check {
	const name = "spool.drain"
	const start = "systemctl enable --now rt-spool-drain.timer, or install contrib/cron/rt-spool"
	if d.Config.Sentinel.Endpoint == "" {
		return ok(name, "no receiver is configured")
	}
	drains, err := drain.ReadDrains(d.path(d.Config.Spool.Dir))
	ended, hasRun := drains.LastDrain.Get()
	last := ended.Format(time.RFC3339)
	success := "none has delivered all runs"
	if at, ok := drains.LastSuccess.Get(); ok {
		success = "the last one that delivered all runs ended at " + at.Format(time.RFC3339)
	}
	switch {
	case err != nil:
		return unknown(name, err)
	case !hasRun:
		return warn(name, "no drain has run on this node", "runs stay on this node until the quota of the spool thins them", start)
	case d.Now().Sub(ended) > lateDelivery:
		return warn(name, "the last drain ended at "+last, "newer runs stay on this node", start)
	case drains.FailedDrains.Or(0) > 0:
		return warn(name, fmt.Sprintf("%d drains in a row did not deliver all runs; %s", drains.FailedDrains.Or(0), success), "runs wait in the spool", fmt.Sprintf("runuser -u %s -- rt-spool drain, which prints the reason", d.Config.Spool.User))
	default:
		return ok(name, "the last drain ended at %s and delivered all runs", last)
	}
}
