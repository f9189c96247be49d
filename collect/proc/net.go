package proc

import (
	"bytes"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Net reads /proc/net/dev, and /sys/class/net/<name>/ for new interfaces and from time to
// time.
type Net struct {
	File
	sys        string
	ifs        collect.DeviceTotals[rt.NetReading]
	peek       peek
	identities countdown
}

// NewNet returns the source of Snapshot.Nets, all interfaces except lo, and of the node's sums
// over the interfaces of rt.Wire. The counters are those of the network namespace in which the source was
// first read.
func NewNet(fs FS) *Net {
	n := &Net{sys: fs.Sys + "/class/net/"}
	n.File = File{"network", file{path: fs.Proc + "/net/dev"}, n.take}
	return n
}

// take fills the network part of s.
func (n *Net) take(b []byte, s *rt.Snapshot) error {
	if err := checkNetDev(b); err != nil {
		return err
	}
	again := n.identities.isDue()
	s.Nets = s.Nets[:0]
	n.ifs.Begin()
	for {
		name, now, rest, ok := nextInterface(b)
		if !ok {
			break
		}
		b = rest
		if string(name) == "lo" {
			continue
		}
		r := n.ifs.Next(string(name))
		if r.IsNew || again {
			n.identify(r)
		}
		r.Info.RxBytes.Set(now[0])
		r.Info.TxBytes.Set(now[1])
		s.Nets = append(s.Nets, r.Info)
	}
	n.addUp(s.Nets)
	n.ifs.End(&s.Node.NetRxBytes, &s.Node.NetTxBytes)
	return nil
}

// addUp adds the readings to the sums of what crossed the wire.
func (n *Net) addUp(nets []rt.NetReading) {
	wire, devices := rt.NewWire(nets), n.ifs.Devices()
	for i := range nets {
		now := counters{nets[i].RxBytes.Or(0), nets[i].TxBytes.Or(0)}
		if wire.Has(i) {
			n.ifs.Count(&devices[i], now)
		} else {
			n.ifs.Note(&devices[i], now)
		}
	}
}

// identify reads the interface's attributes. A file that does not exist, and the speed of
// a link that is down (EINVAL), leave their field absent or empty.
func (n *Net) identify(r *collect.Device[rt.NetReading]) {
	d := &r.Info
	d.Name = r.Name
	if b, err := n.peek.path(n.sys).str(r.Name).str("/device/driver").link(); err == nil {
		d.Driver = keep(d.Driver, b)
	}
	d.MAC = n.peek.path(n.sys).str(r.Name).str("/address").text(d.MAC)
	d.OperState = n.peek.path(n.sys).str(r.Name).str("/operstate").text(d.OperState)
	d.MTU.Clear()
	if v, ok := n.peek.path(n.sys).str(r.Name).str("/mtu").uint(); ok {
		d.MTU.Set(v)
	}
	d.SpeedMbps.Set(-1)
	if v, ok := n.peek.path(n.sys).str(r.Name).str("/speed").uint(); ok && v < 1<<32-1 {
		d.SpeedMbps.Set(int64(v))
	}
}

// nextInterface parses the next interface of /proc/net/dev: its name and its bytes
// received and sent (the first and the ninth number). The two header lines have no colon.
func nextInterface(b []byte) (name []byte, now counters, rest []byte, ok bool) {
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		colon := bytes.IndexByte(l, ':')
		if colon < 0 {
			continue
		}
		var v [9]uint64
		name = procfile.Trim(l[:colon])
		if _, ok := procfile.Uints(l[colon+1:], v[:]); !ok || len(name) == 0 {
			continue
		}
		return name, counters{v[0], v[8]}, b, true
	}
	return nil, counters{}, nil, false
}

// checkNetDev refuses a file of another form.
func checkNetDev(b []byte) error {
	first, rest := procfile.Line(b)
	second, _ := procfile.Line(rest)
	if !bytes.Contains(first, []byte("Receive")) || !bytes.Contains(second, []byte("bytes")) {
		return fmt.Errorf("unknown header line %q", first)
	}
	return nil
}
