package proc

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Fabric reads the ports of InfiniBand, RoCE and Omni-Path adapters:
// /sys/class/infiniband/<device>/ports/<port>/
// (Documentation/ABI/stable/sysfs-class-infiniband).
type Fabric struct {
	named
	dir   string
	ports []port
	peek  peek
	retryBackoff
}

// port is one port. The unit of its counters of data is four octets.
type port struct {
	path string
	fds  [4]procfile.File // of portCounters
	now  rt.FabricReading
}

var portCounters = [...]string{"port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets"}

const octets = 4

// NewFabric returns the source of Snapshot.Fabrics.
func NewFabric(fs FS) *Fabric { return &Fabric{named: "fabric", dir: fs.Sys + "/class/infiniband"} }

// Close closes the descriptors.
func (f *Fabric) Close() error {
	for i := range f.ports {
		for k := range f.ports[i].fds {
			_ = f.ports[i].fds[k].Close() // opened for reading: nothing can be lost
		}
	}
	f.ports = nil
	return nil
}

// Read fills s.Fabrics. A counter that cannot be read is absent.
func (f *Fabric) Read(s *rt.Snapshot) error {
	s.Fabrics = s.Fabrics[:0]
	if err := f.list(f.discover); err != nil {
		return err
	}
	for i := range f.ports {
		p := &f.ports[i]
		for k, dst := range [...]*rt.Opt[uint64]{&p.now.RxBytes, &p.now.TxBytes, &p.now.RxPackets, &p.now.TxPackets} {
			dst.Clear()
			b, err := f.peek.buf.Read(&p.fds[k])
			if err != nil {
				continue
			}
			v, ok := procfile.Uint(procfile.Trim(b))
			switch {
			case !ok:
			case k >= 2:
				dst.Set(v)
			case v <= math.MaxUint64/octets:
				dst.Set(v * octets)
			}
		}
		s.Fabrics = append(s.Fabrics, p.now)
	}
	return nil
}

// discover lists the ports and reads their data that seldom changes.
func (f *Fabric) discover() error {
	devices, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, d := range devices {
		ports, err := os.ReadDir(f.dir + "/" + d.Name() + "/ports")
		if err != nil {
			continue // it was just removed
		}
		for _, e := range ports {
			if n, err := strconv.ParseUint(e.Name(), 10, 16); err == nil {
				f.add(d.Name(), n)
			}
		}
	}
	if len(f.ports) == 0 {
		return &fs.PathError{Op: "list", Path: f.dir, Err: fs.ErrNotExist}
	}
	return nil
}

func (f *Fabric) add(device string, n uint64) {
	p := port{path: f.dir + "/" + device + "/ports/" + strconv.FormatUint(n, 10)}
	p.now = rt.FabricReading{Device: device, Port: n, Link: f.peek.path(p.path).str("/link_layer").text("")}
	if strings.HasPrefix(device, "hfi1") {
		p.now.Link = "Omni-Path"
	}
	_, p.now.State, _ = strings.Cut(f.peek.path(p.path).str("/state").text(""), ": ")
	if b, err := f.peek.path(p.path).str("/rate").read(); err == nil {
		p.now.RateMbps = parseRate(b)
	}
	for k, name := range portCounters {
		p.fds[k], _ = f.peek.path(p.path).str("/counters/").str(name).open(0) // a counter that does not exist stays absent
	}
	f.ports = append(f.ports, p)
}

// parseRate parses "2.5 Gb/sec (1X SDR)", in Mbit/s.
func parseRate(b []byte) rt.Opt[uint64] {
	word, rest := procfile.Field(b)
	unit, _ := procfile.Field(rest)
	whole, part, _ := bytes.Cut(word, []byte{'.'})
	v, ok := procfile.Uint(whole)
	if !ok || string(unit) != "Gb/sec" || v > 1<<30 || len(part) > 3 {
		return rt.None[uint64]()
	}
	v *= 1000
	for i, scale := 0, uint64(100); i < len(part); i, scale = i+1, scale/10 {
		if part[i] < '0' || part[i] > '9' {
			return rt.None[uint64]()
		}
		v += uint64(part[i]-'0') * scale
	}
	return rt.Some(v)
}
