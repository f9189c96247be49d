package proc

import (
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Fabric reads the ports of InfiniBand, RoCE, Omni-Path and AWS EFA adapters:
// /sys/class/infiniband/<device>/ports/<port>/
// (Documentation/ABI/stable/sysfs-class-infiniband).
type Fabric struct {
	named
	dir   string
	ports []port
	peek  peek
	retryBackoff
}

// port is one port.
type port struct {
	path  string
	files [4]counterFile // of portCounters
	now   rt.FabricReading
}

// counterFile is a file of a counter, and what 1 is in it: bytes or packets.
type counterFile struct {
	name string
	unit uint64
}

// portCounters are the files of a counter. The architecture has the first one, whose unit
// for data is four octets. Drivers without it, such as AWS's efa and Broadcom's bnxt_re, have the second.
var portCounters = [...][2]counterFile{
	{{"/counters/port_rcv_data", 4}, {"/hw_counters/rx_bytes", 1}},
	{{"/counters/port_xmit_data", 4}, {"/hw_counters/tx_bytes", 1}},
	{{"/counters/port_rcv_packets", 1}, {"/hw_counters/rx_pkts", 1}},
	{{"/counters/port_xmit_packets", 1}, {"/hw_counters/tx_pkts", 1}},
}

// NewFabric returns the source of Snapshot.Fabrics.
func NewFabric(fs FS) *Fabric { return &Fabric{named: "fabric", dir: fs.Sys + "/class/infiniband"} }

// Close does nothing: no file is held open.
func (f *Fabric) Close() error { return nil }

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
			v, ok := f.peek.path(p.path).str(p.files[k].name).uint()
			if unit := p.files[k].unit; ok && v <= math.MaxUint64/unit {
				dst.Set(v * unit)
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
	f.ports = nil
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
	for k := range portCounters {
		p.files[k] = f.counter(p.path, k)
	}
	f.ports = append(f.ports, p)
}

// counter returns the first file of a counter that holds a number, else the first one. A counter that does not
// exist stays absent.
func (f *Fabric) counter(path string, k int) counterFile {
	for _, c := range portCounters[k] {
		if _, ok := f.peek.path(path).str(c.name).uint(); ok {
			return c
		}
	}
	return portCounters[k][0]
}

// parseRate parses "2.5 Gb/sec (1X SDR)", in Mbit/s.
func parseRate(b []byte) rt.Opt[uint64] {
	word, rest := procfile.Field(b)
	unit, _ := procfile.Field(rest)
	gbit, err := strconv.ParseFloat(string(word), 64)
	isInRange := gbit >= 0 && gbit < 1<<30 // NaN is not
	if err != nil || string(unit) != "Gb/sec" || !isInRange {
		return rt.None[uint64]()
	}
	return rt.Some(uint64(math.Round(gbit * 1000)))
}
