package proc

import (
	"bytes"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// sectorBytes is the unit of /proc/diskstats and of /sys/block/<name>/size on
// every drive, whatever its own sectors are.
const sectorBytes = 512

// Disk reads /proc/diskstats and, when devices come and go and at times between,
// /sys/block/<name>/.
type Disk struct {
	file  file
	sys   string
	devs  table[disk]
	peek  peek
	name  []byte // scratch
	until int    // readings until the identities are read again
}

// disk is what is kept of a line of diskstats.
type disk struct {
	reading rt.DiskReading
	sysName string // its directory in /sys/block
	whole   bool   // a device of its own that is shown: not a partition, loop or ram
}

// NewDisk returns the source of Snapshot.Disks and of the node's sums over its
// leaf devices.
func NewDisk(fs FS) *Disk {
	return &Disk{file: file{path: fs.Proc + "/diskstats"}, sys: fs.Sys + "/block/"}
}

// Name is what the ledger calls the source.
func (d *Disk) Name() string { return "disk" }

// Close gives the descriptor back.
func (d *Disk) Close() error { return d.file.close() }

// Read fills the disk part of s.
func (d *Disk) Read(s *rt.Snapshot) error {
	b, err := d.file.read()
	if err != nil {
		return err
	}
	again := d.until == 0
	if again {
		d.until = identityEvery
	}
	d.until--

	s.Disks = s.Disks[:0]
	d.devs.begin()
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		name, now, ok := parseDiskstats(l)
		if !ok {
			s.Disks = s.Disks[:0]
			return fmt.Errorf("parse %s: the line %q has no counters of sectors", d.file.path, l)
		}
		r := d.devs.next(name)
		if r.isNew {
			d.identify(r)
		} else if again && r.dev.whole {
			d.resize(r)
		}
		if r.dev.whole {
			d.take(r, now, s)
		}
	}
	d.devs.end()
	s.Node.DiskReadBytes.Set(d.devs.total[0])
	s.Node.DiskWriteBytes.Set(d.devs.total[1])
	return nil
}

func (d *Disk) take(r *row[disk], now counters, s *rt.Snapshot) {
	v := &r.dev.reading
	if v.Leaf {
		d.devs.count(r, now)
	}
	if !v.Capacity.Valid() && now == (counters{}) {
		return // an empty drive, or a device that nobody has set up
	}
	v.ReadBytes.Set(now[0])
	v.WriteBytes.Set(now[1])
	s.Disks = append(s.Disks, *v)
}

// parseDiskstats reads one line: major, minor, name, reads, merged, sectors read,
// milliseconds, writes, merged, sectors written, ... The counters are bytes.
func parseDiskstats(l []byte) (name []byte, now counters, ok bool) {
	name, rest := procfile.Field(procfile.Skip(l, 2))
	var v [7]uint64
	if _, ok = procfile.Uints(rest, v[:]); !ok || len(name) == 0 {
		return nil, counters{}, false
	}
	if v[2] > math.MaxUint64/sectorBytes || v[6] > math.MaxUint64/sectorBytes {
		return nil, counters{}, false
	}
	return name, counters{v[2] * sectorBytes, v[6] * sectorBytes}, true
}

// stacked names devices whose I/O is counted again by what they are made of.
var stacked = [...]string{"dm-", "md", "loop", "zram", "zd", "bcache", "drbd"}

// identify finds out what a new device is and reads its identity.
func (d *Disk) identify(r *row[disk]) {
	v := &r.dev
	v.reading = rt.DiskReading{Name: r.name, Leaf: true}
	d.name = append(d.name[:0], r.name...)
	for i := range d.name {
		if d.name[i] == '/' {
			d.name[i] = '!' // as sysfs writes it
		}
	}
	v.sysName = string(d.name)
	for _, prefix := range [...]string{"loop", "ram"} {
		if bytes.HasPrefix(d.name, []byte(prefix)) {
			return
		}
	}
	if _, err := d.peek.path(d.sys).str(v.sysName).str("/dev").read(); err != nil {
		return // a partition has no directory of its own there
	}
	if b, err := d.peek.path(d.sys).str(v.sysName).str("/hidden").read(); err == nil && string(b) == "1" {
		return // one path of a drive that is shown under another name
	}
	v.whole = true
	for _, prefix := range stacked {
		if bytes.HasPrefix(d.name, []byte(prefix)) {
			v.reading.Leaf = false
		}
	}
	v.reading.Model = d.first(v.sysName, "/device/model")
	v.reading.Vendor = d.first(v.sysName, "/device/vendor")
	v.reading.Serial = d.first(v.sysName, "/device/wwid", "/wwid", "/device/serial", "/serial")
	v.reading.Type = d.kind(v.sysName)
	d.resize(r)
}

// first is the first of the attributes that says something.
func (d *Disk) first(name string, files ...string) string {
	for _, f := range files {
		if b, err := d.peek.path(d.sys).str(name).str(f).read(); err == nil && len(b) > 0 {
			return keep("", b)
		}
	}
	return ""
}

func (d *Disk) kind(name string) string {
	if len(name) >= 4 && name[:4] == "nvme" {
		return "nvme"
	}
	b, err := d.peek.path(d.sys).str(name).str("/queue/rotational").read()
	switch {
	case err != nil:
		return ""
	case string(b) == "0":
		return "ssd"
	case string(b) == "1":
		return "hdd"
	}
	return ""
}

func (d *Disk) resize(r *row[disk]) {
	v := &r.dev.reading
	v.Capacity.Clear()
	b, err := d.peek.path(d.sys).str(r.dev.sysName).str("/size").read()
	if err != nil {
		return
	}
	if n, ok := procfile.Uint(b); ok && n > 0 && n <= math.MaxUint64/sectorBytes {
		v.Capacity.Set(n * sectorBytes)
	}
}
