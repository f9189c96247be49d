package proc

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/procfile"
)

// sectorBytes is the unit of /proc/diskstats and of /sys/block/<name>/size on
// every drive, whatever its own sectors are.
const sectorBytes = 512

// Disk reads /proc/diskstats, and /sys/block/<name>/ for new devices and from time to
// time.
type Disk struct {
	File
	sys   string
	devs  collect.DeviceTotals[disk]
	peek  peek
	sizes countdown
}

// disk is the part of a line of diskstats that is kept.
type disk struct {
	reading rt.DiskReading
	sysName string // its directory in /sys/block
	whole   bool   // it is shown: not a partition, loop or ram
	head    string // the drive, if this is one of its hidden paths
	now     counters
}

// NewDisk returns the source of Snapshot.Disks and of the node's sums over its
// leaf devices.
func NewDisk(fs FS) *Disk {
	d := &Disk{sys: fs.Sys + "/block/"}
	d.File = File{"disk", file{path: fs.Proc + "/diskstats"}, d.takeAll}
	return d
}

// takeAll fills the disk part of s.
func (d *Disk) takeAll(b []byte, s *rt.Snapshot) error {
	again := d.sizes.isDue()
	s.Disks = s.Disks[:0]
	d.devs.Begin()
	for l := range procfile.Lines(b) {
		name, now, ok := parseDiskstats(l)
		if !ok {
			s.Disks = s.Disks[:0]
			return fmt.Errorf("the line %q does not have the counters of sectors", l)
		}
		r := d.devs.Next(string(name))
		if r.IsNew {
			d.identify(r)
		} else if again && r.Info.whole {
			d.resize(r)
		}
		r.Info.now = now
	}
	devices := d.devs.Devices()
	for i := range devices {
		if r := &devices[i]; r.Info.whole {
			d.take(r, s)
		}
	}
	d.devs.End(&s.Node.DiskReadBytes, &s.Node.DiskWriteBytes)
	return nil
}

func (d *Disk) take(r *collect.Device[disk], s *rt.Snapshot) {
	v, now := &r.Info.reading, r.Info.now
	if now == (counters{}) {
		now = d.ofPaths(r.Name)
	}
	d.devs.Count(r, now, v.Leaf)
	if !v.Capacity.Valid() && now == (counters{}) {
		return // an empty drive, or a device that is not set up
	}
	v.ReadBytes.Set(now[0])
	v.WriteBytes.Set(now[1])
	s.Disks = append(s.Disks, *v)
}

// ofPaths sums what the hidden paths of an NVMe drive counted, nvme0c0n1 and nvme0c1n1 of nvme0n1.
// Before Linux 6.2 the kernel counts nothing at the drive itself; later it counts at both.
func (d *Disk) ofPaths(drive string) (sum counters) {
	devices := d.devs.Devices()
	for i := range devices {
		if v := &devices[i].Info; v.head == drive {
			sum[0] += v.now[0]
			sum[1] += v.now[1]
		}
	}
	return sum
}

// headOfPath returns the drive of a path, nvme0n1 of nvme0c1n1; empty for other names.
func headOfPath(name string) string {
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	rest, isNVMe := strings.CutPrefix(name, "nvme")
	subsystem := digits(rest)
	controller, isPath := strings.CutPrefix(rest[subsystem:], "c")
	namespace := controller[digits(controller):]
	if !isNVMe || !isPath || !strings.HasPrefix(namespace, "n") {
		return ""
	}
	return "nvme" + rest[:subsystem] + namespace
}

// parseDiskstats parses one line: major, minor, name, reads, merged, sectors read,
// milliseconds, writes, merged, sectors written, ... The counters are bytes.
func parseDiskstats(l []byte) (name []byte, now counters, ok bool) {
	name, rest := procfile.Field(procfile.Skip(l, 2))
	var v [7]uint64
	_, ok = procfile.Uints(rest, v[:])
	if !ok || len(name) == 0 {
		return nil, counters{}, false
	}
	if v[2] > math.MaxUint64/sectorBytes || v[6] > math.MaxUint64/sectorBytes {
		return nil, counters{}, false
	}
	return name, counters{v[2] * sectorBytes, v[6] * sectorBytes}, true
}

// stacked are the prefixes of devices with I/O that the devices below them count too.
var stacked = []string{"dm-", "md", "loop", "zram", "zd", "bcache", "drbd"}

// identify reads the kind and the identity of a new device.
func (d *Disk) identify(r *collect.Device[disk]) {
	v := &r.Info
	v.reading = rt.DiskReading{Name: r.Name}
	v.sysName = strings.ReplaceAll(r.Name, "/", "!")
	if strings.HasPrefix(v.sysName, "loop") || strings.HasPrefix(v.sysName, "ram") {
		return
	}
	if d.peek.path(d.sys).str(v.sysName).str("/hidden").text("") == "1" {
		v.head = headOfPath(v.sysName)
		return
	}
	if _, err := d.peek.path(d.sys).str(v.sysName).str("/dev").read(); err != nil {
		return // a partition has no directory of its own there
	}
	v.whole = true
	v.reading.Leaf = !slices.ContainsFunc(stacked, func(prefix string) bool { return strings.HasPrefix(v.sysName, prefix) })
	v.reading.Model = d.first(v.sysName, "/device/model")
	v.reading.Vendor = d.first(v.sysName, "/device/vendor")
	v.reading.Serial = d.first(v.sysName, "/device/wwid", "/wwid", "/device/serial", "/serial")
	v.reading.Type = d.kind(v.sysName)
	d.resize(r)
}

// first is the first of the attributes that is not empty.
func (d *Disk) first(name string, files ...string) string {
	for _, f := range files {
		if text := d.peek.path(d.sys).str(name).str(f).text(""); text != "" {
			return text
		}
	}
	return ""
}

func (d *Disk) kind(name string) string {
	if strings.HasPrefix(name, "nvme") {
		return "nvme"
	}
	switch d.peek.path(d.sys).str(name).str("/queue/rotational").text("") {
	case "0":
		return "ssd"
	case "1":
		return "hdd"
	}
	return ""
}

func (d *Disk) resize(r *collect.Device[disk]) {
	v := &r.Info.reading
	v.Capacity.Clear()
	n, ok := d.peek.path(d.sys).str(r.Info.sysName).str("/size").uint()
	if ok && n > 0 && n <= math.MaxUint64/sectorBytes {
		v.Capacity.Set(n * sectorBytes)
	}
}
